"""MEHA on the problems of its paper, whose solutions are known, without settings."""

import cvxpy as cp
import numpy as np
import pytest
from method_runs import error, run_method

import blomodel as bm
from blomodel.problems.meha_paper import group_lasso, lasso, merely_convex, nonconvex, strongly_convex


@pytest.mark.parametrize("n", [1, 10])
def test_strongly_convex(n):
    last = run_method(strongly_convex(n)).candidates[0]
    assert error(last.x, np.full(n, 0.5)) < 1e-3
    assert error(last.y, np.full(n, 0.5)) < 1e-3


def test_strongly_convex_with_a_full_matrix(rng):
    root = rng.standard_normal((5, 5))
    matrix = root @ root.T / 5 + np.eye(5)
    last = run_method(strongly_convex(5, matrix)).candidates[0]
    # y = A^-1 x, so x minimises |x - e|^2 / 2 + x' A^-1 x / 2.
    solution = np.linalg.solve(np.eye(5) + np.linalg.inv(matrix), np.ones(5))
    assert error(last.x, solution) < 1e-3


@pytest.mark.parametrize("n", [1, 10])
def test_merely_convex(n):
    last = run_method(merely_convex(n)).candidates[0]
    assert error(last.x, np.ones(n)) < 1e-3
    assert error(last.y, np.ones(2 * n)) < 1e-3


@pytest.mark.parametrize("n", [1, 10])
def test_nonconvex(n):
    last = run_method(nonconvex(n), start=(np.array([-6.0]), np.zeros(n))).candidates[0]
    centre = -np.pi / 2 + 2 * np.pi
    x = ((1 - n) * 2 + n * centre) / (1 + n)
    assert error(last.x, np.array([x])) < 1e-3
    assert error(last.y, np.full(n, centre + 2 - x)) < 1e-3


@pytest.mark.parametrize("n", [2, 10, 100])
def test_lasso(n):
    last = run_method(lasso(n)).candidates[1]  # its x, with the lower minimiser
    solution = np.repeat([0.0, -1.0], n // 2) / n
    assert error(last.y, solution) < 1e-3
    assert np.all(last.x[: n // 2] >= (1 - 1e-3) / n)
    assert np.all(last.x[n // 2 :] <= 1e-3 / n)


def test_whole_solve_of_the_lasso():
    problem = lasso(10)
    problem.solve(method="meha")
    assert problem.value == pytest.approx(-0.5, abs=1e-3)
    assert problem.certificate.accepted


def test_weights_near_a_bound_are_no_jump_of_the_lower_answer():
    # Weights of 1/n lie near 0, where f is worse; but it gets worse by and by on the way there.
    problem = lasso(100)
    problem.solve(method="meha")
    assert problem.status == "locally_optimal"


def test_parameters_of_the_paper():
    steps = {"alpha": 1.5, "beta": 0.8, "eta": 0.8, "gamma": 10.0, "c": 33.3, "p": 0.49}
    run = run_method(strongly_convex(4), **steps, max_steps=20_000)
    # c_k has grown to 33.3 * 20000^0.49, about 4270.
    assert run.history["c"][-1] == pytest.approx(33.3 * 20_001**0.49, rel=1e-6)
    assert error(run.candidates[0].x, np.full(4, 0.5)) < 1e-3


def test_one_step_is_the_papers(rng):
    problem = lasso(4)
    x, y = np.array([0.1, 0.4, 0.2, 0.9]), rng.standard_normal(4)
    steps = {"alpha": 0.3, "beta": 0.2, "eta": 0.1, "gamma": 2.0, "c": 5.0, "p": 0.3}
    run = run_method(problem, start=(x, y), **steps, max_steps=1)
    v = np.repeat([0.25, -0.25], 2)

    def shrink(point, amount):
        return np.sign(point) * np.maximum(np.abs(point) - amount, 0)

    theta = shrink(y - 0.1 * (y - v), 0.1 * x)  # (9), from theta = y
    new_x = np.clip(x - 0.3 * (np.abs(y) - np.abs(theta)), 0, 1)  # (10), (11)
    new_y = shrink(y - 0.2 * (1 / 5 + y - v - (y - theta) / 2), 0.2 * new_x)  # (12), (13)
    np.testing.assert_allclose(run.candidates[0].x, new_x, atol=1e-14)
    np.testing.assert_allclose(run.candidates[0].y, new_y, atol=1e-14)


def test_coupled_constraints_are_refused_by_name():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1 + x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y**2), [], lower)
    with pytest.raises(bm.errors.ModelError, match="meha.*lower level.*blocc"):
        problem.solve(method="meha")


def test_a_group_lasso_that_fits_everything_is_solved_in_one_stage(rng):
    # With more features than samples of both kinds, weights of zero leave a lower answer that fits the
    # validation data too: f has its least value, which no later stage can better.
    problem, x, y, _ = group_lasso(rng, 60, 12, n_samples=20, n_ones=15)
    x.value = np.full(12, 10.0)  # of the data's size: far larger weights leave y = 0, where f is flat
    assert problem.solve(method="meha") <= 1e-9
    assert problem.certificate.lower_value <= 1e-6
    assert problem.solution.iterations <= 3000
    assert problem.certificate.bound == 0.0 and problem.status == "optimal"


def test_a_least_value_that_is_not_reached_proves_nothing(rng):
    problem, x, y, _ = group_lasso(rng, 12, 4, n_samples=20, n_ones=6)
    assert problem.solve(method="meha", max_steps=300) > 1.0
    assert problem.certificate.bound < problem.value and problem.status != "optimal"


def test_six_gradients_in_an_iteration():
    """g_y for theta; f_x and g_x at two points for x; f_y and g_y for y."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    upper = cp.Minimize((x - 1) ** 2 + (y - 2) ** 2)
    problem = bm.BilevelProblem(upper, [-3 <= x, x <= 4], lower)
    problem.solve(method="meha", c=10.0, max_steps=7)
    assert 0 < problem.solution.iterations <= 7
    assert problem.solution.evaluations == problem.solution.iterations * 6
