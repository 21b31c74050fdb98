"""lv-hba, bic-gaffa and gam on coupled lower levels, without settings."""

import cvxpy as cp
import numpy as np
import pytest
from blomodel.kernels.lagrangian import solve_in_place
from blomodel.kernels.projection import POLYHEDRON, build_set, polyhedron, project
from coupled_problems import coupled_problem

import blomodel as bm
from blomodel.errors import ModelError
from blomodel.problems.penalty_paper import example_4
from tests.support.slow_cases import first_few

METHODS = ["gam", "bic-gaffa", "lv-hba"]


@pytest.mark.parametrize("seed", first_few(range(3), 1))
@pytest.mark.parametrize("method", METHODS)
def test_coupled_qp_without_settings(method, seed):
    problem = coupled_problem(seed)
    best = problem.solve()
    for variable in problem.variables:
        variable.value = None
    value = problem.solve(method=method)
    assert problem.certificate.accepted
    assert value == pytest.approx(best, rel=1e-2)
    assert value >= best - 1e-6


def test_gam_is_exact_and_gets_along_a_kink():
    # With this seed the best x lies where a lower row changes sides.
    problem = coupled_problem(3)
    best = problem.solve()
    for variable in problem.variables:
        variable.value = None
    assert problem.solve(method="gam") == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_equality_in_the_lower_level(method):
    """min |y - x|^2 s.t. y_1 + y_2 = x_1: y = x - (x_2 / 2)(1, 1)."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [cp.sum(y) == x[0]], variables=[y])
    upper = cp.Minimize(cp.sum_squares(x - np.array([1.0, 2.0])) + cp.sum_squares(y))
    problem = bm.BilevelProblem(upper, [x >= -3, x <= 3], lower)
    best = problem.solve()
    for variable in problem.variables:
        variable.value = None
    assert problem.solve(method=method) == pytest.approx(best, abs=1e-2)


@pytest.mark.parametrize("method", ["gam", "bic-gaffa"])
def test_curved_rows(method):
    """min (y - 2)^2 s.t. y^2 <= x: y = sqrt(x), and x + (sqrt(x) - 1)^2 is least at x = 1/4."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 2) ** 2), [y**2 <= x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + (y - 1) ** 2), [x >= 0.05, x <= 2], lower)
    value = problem.solve(method=method)
    assert x.value == pytest.approx(0.25, abs=2e-2)
    assert value == pytest.approx(0.5, abs=1e-2)


def test_lv_hba_refuses_curved_rows():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 2) ** 2), [y**2 <= x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + (y - 1) ** 2), [x >= 0, x <= 2], lower)
    with pytest.raises(ModelError, match="affine"):
        problem.solve(method="lv-hba")


@pytest.mark.parametrize("method", ["gam", "bic-gaffa"])
def test_upper_rows_in_y_are_refused(method):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 2], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y**2), [x >= 0, x + y <= 2], lower)
    with pytest.raises(ModelError, match="contains lower variables"):
        problem.solve(method=method)


@pytest.mark.parametrize("method", METHODS)
def test_without_any_lower_row(method):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + (y - 2) ** 2), [x >= -3, x <= 3], lower)
    assert problem.solve(method=method) == pytest.approx(0.5, abs=1e-3)


def many_lower_answers(power):
    """The BiC-GAFFA paper's problem: x = 1, y = (2, -3); g is flat in the second half of y."""
    n = 2
    x, y = cp.Variable(n, name="x"), cp.Variable(2 * n, name="y")
    budget = [cp.sum(x if power == 1 else x**3) + cp.sum(y) == 0]
    g = cp.sum_squares(y[:n]) / 2 - x @ y[:n] + cp.sum(y[n:])
    f = (y[:n] - 2) @ (x - 1) + cp.sum_squares(y[n:] + 3)
    lower = bm.Lower(cp.Minimize(g), budget, variables=[y])
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0], lower), x, y


@pytest.mark.parametrize(("method", "power"), [("bic-gaffa", 1), ("bic-gaffa", 3), ("lv-hba", 1)])
def test_the_papers_problem_with_many_lower_answers(method, power):
    problem, x, y = many_lower_answers(power)
    x.value, y.value = np.zeros(2), np.full(4, 0.0)
    problem.solve(method=method)
    np.testing.assert_allclose(x.value, 1.0, atol=2e-2)
    np.testing.assert_allclose(y.value, [2, 2, -3, -3], atol=5e-2)


def test_lv_hba_on_its_papers_merely_convex_problem():
    """x = -0.3, y = (0.7, -0.4)."""
    n = 2
    x, y = cp.Variable(n, name="x"), cp.Variable(2 * n, name="y")
    g = cp.sum_squares(y[:n]) / 2 - x @ y[:n] + cp.sum(y[n:])
    f = cp.sum_squares(x - y[n:]) / 2 + cp.sum_squares(y[:n] - 1) / 2
    lower = bm.Lower(cp.Minimize(g), [cp.sum(x) + cp.sum(y) == 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f), [], lower)
    x.value = np.ones(n)
    problem.solve(method="lv-hba")
    np.testing.assert_allclose(x.value, -0.3, atol=2e-2)
    np.testing.assert_allclose(y.value, [0.7, 0.7, -0.4, -0.4], atol=2e-2)


@pytest.mark.parametrize("method", METHODS)
def test_example_4_from_the_right_basin(method):
    """Example 4 of the ALT-PBGD paper, whose best x is 0.300705."""
    problem = example_4()
    x, _ = problem.variables
    x.value = 0.4
    problem.solve(method=method)
    assert x.value == pytest.approx(0.300705, abs=1e-3)


def test_elimination_against_numpy():
    random = np.random.default_rng(0)
    matrix, right = random.standard_normal((6, 6)), random.standard_normal(6)
    expected = np.linalg.solve(matrix, right)
    answer = right.copy()
    solve_in_place(matrix.copy(), answer, 6)
    assert answer == pytest.approx(expected)


def test_hildreth_against_a_qp():
    random = np.random.default_rng(1)
    matrix, right = random.standard_normal((4, 3)), random.random(4)
    low = np.array([0.0, 0.0, 0.0, -np.inf])
    v = random.standard_normal(3) * 3
    point = v.copy()
    matrix[1, 2] = 0.0  # zeros are left out
    project(build_set([(POLYHEDRON, np.arange(3), polyhedron(matrix, right, low))]), point)
    w = cp.Variable(3)
    rows = [matrix[:3] @ w <= right[:3], matrix[3] @ w == right[3]]
    cp.Problem(cp.Minimize(cp.sum_squares(w - v)), rows).solve(solver=cp.CLARABEL)
    assert point == pytest.approx(w.value, abs=1e-6)
