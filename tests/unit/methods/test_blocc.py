"""blocc with the paper's first-order max-min solver, against the exact inner solves."""

import cvxpy as cp
import numpy as np
import pytest
from coupled_problems import coupled_problem

import blomodel as bm
from blomodel.errors import ModelError, UnknownSettingError
from blomodel.problems.penalty_paper import example_4


def solve_both(make, **settings):
    """x of the exact and of the first-order inner solver."""
    answers = []
    for inner in ("exact", "max-min"):
        problem = make()
        problem.solve(method="blocc", inner=inner, **settings)
        answers.append(np.concatenate([np.ravel(v.value) for v in problem.variables]))
    return problem, answers


@pytest.mark.parametrize("gamma", [10.0, 100.0])
def test_example_4_with_step_0_05(gamma):
    problem = example_4()
    x, _ = problem.variables
    x.value = 0.5
    problem.solve(method="blocc", inner="max-min", gamma=gamma, step_size=0.05)
    assert x.value == pytest.approx(0.300705, abs=1e-6)
    assert problem.status == "optimal"  # the certificate's own bound proves it
    assert 2.6545 - 3e-4 <= problem.certificate.bound <= 2.654499
    assert problem.solution.iterations <= 20
    assert problem.solution.evaluations > problem.solution.iterations


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_the_exact_solver_on_coupled_qps(seed):
    _, (exact, first_order) = solve_both(
        lambda: coupled_problem(seed, n=4), gamma=20.0, step_size=0.02, max_steps=300
    )
    np.testing.assert_allclose(first_order, exact, atol=1e-5)


def test_agrees_with_the_exact_solver_on_equalities_and_curved_rows():
    def make():
        x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
        rows = [cp.sum(y) == x[0], cp.sum_squares(y) <= 2 + x[1]]
        g = cp.sum_squares(y - np.array([1.0, 2.0, -1.0])) + cp.sum(cp.logistic(y))
        lower = bm.Lower(cp.Minimize(g), rows, variables=[y])
        upper = cp.Minimize(cp.sum_squares(x - 1) + cp.sum_squares(y))
        return bm.BilevelProblem(upper, [x >= 0, x <= 1], lower)

    _, (exact, first_order) = solve_both(make, gamma=10.0, step_size=0.05)
    np.testing.assert_allclose(first_order, exact, atol=1e-4)


def test_given_steps_are_the_paper_s():
    """One step in x by hand: two steps of the multiplier, each after one step in y, for both levels."""
    problem = example_4()
    x, y = problem.variables
    x.value, y.value = 1.0, 1.0
    gamma, eta, eta_y, eta_m = 10.0, 0.01, 0.1, 0.3
    problem.solve(
        method="blocc",
        inner="max-min",
        gamma=gamma,
        step_size=eta,
        lower_step=eta_y,
        multiplier_step=eta_m,
        lower_steps=1,
        multiplier_steps=2,
        max_steps=1,
    )
    start = 1.0  # the lower answer at x = 1 is y = x, where both solvers begin
    below = 2 + np.cos(4.0)
    slopes = {}
    for weight in (0.0, 1 / gamma):
        at, multiplier, before = start, 0.0, 0.0
        for count in (1, 2):
            ahead = max(multiplier + (count - 1) / (count + 2) * (multiplier - before), 0.0)
            slope = -weight * np.exp(2 - at) / below + 2 * (at - 2.0) + ahead
            at = np.clip(at - eta_y * slope, 0, 3)
            before, multiplier = multiplier, max(ahead + eta_m * (at - 1.0), 0.0)
        f_x = np.exp(2 - at) * 4 * np.sin(4.0) / below**2 + 4 * 2.0 / (2.0**2 + 1) + 2
        slopes[weight] = weight * f_x - 4 * (at - 2.0) - multiplier
    wanted = 1.0 - eta * gamma * (slopes[1 / gamma] - slopes[0.0])
    assert x.value == pytest.approx(wanted, rel=1e-12)


def test_an_unknown_inner_solver_is_named():
    problem = example_4()
    with pytest.raises(UnknownSettingError, match="inner = 'admm'"):
        problem.solve(method="blocc", inner="admm")


def test_max_min_refuses_upper_rows_that_hold_y():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 2], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y**2), [x >= 0, x + y <= 2], lower)
    with pytest.raises(ModelError, match="contains lower variables"):
        problem.solve(method="blocc", inner="max-min")


@pytest.mark.parametrize("seed", range(3))
def test_without_settings_it_ends_at_a_stationary_point(seed):
    problem = coupled_problem(seed, n=4)
    problem.solve(method="blocc", gamma=100.0)
    assert problem.solution.history["stationarity"][-1] < 1e-5
    value = problem.value
    for variable in problem.variables:
        variable.value = None
    assert value == pytest.approx(problem.solve(), rel=2e-2)


def test_no_answer_anywhere_near_is_said():
    """Rows that are not jointly convex: the x with answers cannot be projected onto."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2), [x * y >= 1, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x + 1) ** 2 + y), [x >= 0, x <= 3], lower)
    problem.solve(method="blocc", step_size=1.0)
    assert any("infeasible" in note for note in problem.solution.notes)
    problem.solve(method="blocc")
    assert x.value == pytest.approx(1.0, abs=1e-4)
