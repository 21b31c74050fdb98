"""VF-iDCA: jointly convex lower levels, penalties as bounds, refusals."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import ModelError
from blomodel.problems.meha_paper import group_lasso


def test_a_support_vector_like_level_with_coupled_rows():
    """min y^2 subject to y >= 2 - x: y = 2 - x for x <= 2; f is least at x = 1.3."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2), [y >= 2 - x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + (y - 0.4) ** 2), [0 <= x, x <= 2], lower)
    problem.solve(method="vf-idca", stop_at=1e-5)
    assert x.value == pytest.approx(1.3, abs=0.01)
    assert problem.certificate.accepted


def test_a_quadratic_that_is_not_convex_in_x():
    """g = y^2 - 2 x y + 0 x^2 gets x^2; y = x, phi = (x - 1)^2 + (x - 3)^2 / 2."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2 - 2 * x * y), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + (y - 3) ** 2 / 2), [], lower)
    problem.solve(method="vf-idca", stop_at=1e-5)
    assert x.value == pytest.approx(5 / 3, abs=0.01)


def test_weights_of_a_lasso_become_bounds():
    v, w = np.array([3.0, -2.0]), np.array([1.0, -0.5])
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    g = cp.sum_squares(y - v) / 2 + x[0] * cp.abs(y[0]) + x[1] * cp.norm1(y[1])
    lower = bm.Lower(cp.Minimize(g), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - w)), [x >= 0, x <= 20], lower)
    problem.solve(method="vf-idca", stop_at=1e-5)
    assert x.value == pytest.approx([2.0, 1.5], abs=0.02)
    assert y.value == pytest.approx(w, abs=0.02)


def test_group_lasso_beats_a_random_search():
    problem, x, y, _ = group_lasso(np.random.default_rng(0), 18, 3, n_samples=20, n_ones=6)
    problem.solve(method="vf-idca", stop_at=5e-3)
    found = problem.value
    assert problem.certificate.accepted
    problem.solve(method="random-search", n_points=20, warm_start=False)
    assert found < problem.value


def test_one_weight_for_all_groups():
    problem, x, _, _ = group_lasso(
        np.random.default_rng(0), 18, 3, n_samples=20, n_ones=6, is_shared=True
    )
    problem.solve(method="vf-idca", stop_at=5e-3)
    found = problem.value
    grid = problem.value_at(np.linspace(0.5, 60, 40)[:, None])
    assert found <= 1.02 * np.min(grid)


def test_other_lower_levels_are_refused_with_both_reasons():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.exp(x) * y**2 - y), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((y - 1) ** 2), [0 <= x, x <= 1], lower)
    with pytest.raises(ModelError, match=r"As stated: g is not convex.*As penalties: .*not a weight"):
        problem.solve(method="vf-idca")
