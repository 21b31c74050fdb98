"""BAMM, BRC and ALRIGHT on problems whose answers are known."""

import cvxpy as cp
import numpy as np
import pytest
from smooth_problems import quadratic

import blomodel as bm
from blomodel.errors import ModelError
from blomodel.problems.meha_paper import merely_convex, strongly_convex


@pytest.mark.parametrize("n", [1, 30])
def test_bamm_on_the_strongly_convex_problem(n):
    problem = strongly_convex(n)
    problem.solve(method="bamm")
    for variable in problem.variables:
        np.testing.assert_allclose(variable.value, 0.5, rtol=1e-3)


def test_bamm_chooses_among_many_answers():
    """(18): y_2 does not stand in g; x = y_1 = y_2 = e."""
    problem = merely_convex(4)
    problem.solve(method="bamm")
    for variable in problem.variables:
        np.testing.assert_allclose(variable.value, 1.0, rtol=5e-3)


def test_bamm_on_a_random_problem():
    problem, x, y, best_x, best_y = quadratic()
    problem.solve(method="bamm")
    np.testing.assert_allclose(x.value, best_x, atol=1e-3)
    np.testing.assert_allclose(y.value, best_y, atol=1e-3)


def test_a_share_leaves_y_off_the_lower_answer():
    """With mu fixed the iteration ends at the stationary point of the averaged problem: by pencil.

    f = (x - 1)^2 / 2 + y^2 / 2, g = y^2 / 2 - x y: psi_y = y - (1 - mu) x = 0, so that
    y = (1 - mu) x and v = y; x - 1 + (1 - mu) y = 0.
    """
    problem, mu = strongly_convex(1), 0.25
    problem.solve(method="bamm", upper_share=mu)
    end = problem.solution.iterate
    x = 1 / (1 + (1 - mu) ** 2)
    assert end["x"] == pytest.approx([x], abs=1e-5)
    assert end["y"] == pytest.approx([(1 - mu) * x], abs=1e-5)


def test_bamm_refuses_constraints_below():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 0], variables=[y])
    with pytest.raises(ModelError, match="free y"):
        bm.BilevelProblem(cp.Minimize(y**2 + x), [x >= -1], lower).solve(method="bamm")


def one_square():
    """Residuals a'y - b'x of one row: y need not be unique, the outer product is exact."""
    x, y = cp.Variable(2, name="x"), cp.Variable(name="y")
    g = (2 * y - x[0] - 3 * x[1]) ** 2
    f = cp.sum_squares(x - np.array([1.0, -1.0])) + (y - 2) ** 2
    return bm.BilevelProblem(cp.Minimize(f), [], bm.Lower(cp.Minimize(g), variables=[y])), x


def test_brc_where_it_is_exact():
    problem, x = one_square()
    problem.solve(method="brc")
    row = np.array([0.5, 1.5])  # y = row @ x
    best = np.linalg.solve(np.eye(2) + np.outer(row, row), np.array([1.0, -1.0]) + 2 * row)
    np.testing.assert_allclose(x.value, best, atol=1e-4)


def test_brc_claims_nothing_where_it_is_wrong():
    problem = strongly_convex(5)
    problem.solve(method="brc", max_steps=300)
    assert str(problem.status) not in ("optimal", "locally_optimal") or np.allclose(
        problem.variables[0].value, 0.5, atol=1e-3
    )


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_alright_ends_near_the_best_weighted_sum(share):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + (y - 2) ** 2), [], lower)
    problem.solve(method="alright", lambda_=share)
    rest = 1 - share
    best = np.linalg.solve([[1.0, -rest], [-rest, 1.0]], [share, 2 * share])
    end = problem.solution.iterate
    np.testing.assert_allclose([end["x"], end["y"]], best, atol=0.05)
    assert problem.certificate.accepted  # the lower answer at its x is a bilevel point
