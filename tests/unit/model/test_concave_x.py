"""Lower levels that look quadratic are convex or not by their curvature at the x of X."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def problem_of(g, rows, y, f=None, lower_rows=()):
    lower = bm.Lower(cp.Minimize(g), list(lower_rows), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(y) if f is None else f), rows, lower)


def test_curvature_that_is_zero_on_the_boundary_of_x_is_convex():
    x, y = cp.Variable(), cp.Variable()
    assert problem_of(
        x * y**2 - y, [x >= 0, x <= 2], y, lower_rows=[y <= 5, y >= -5]
    ).model.is_convex_below


def test_curvature_that_is_negative_at_some_x_only_is_not():
    x, y = cp.Variable(), cp.Variable()
    model = problem_of(x * y**2 - y, [x >= -0.01, x <= 2], y, lower_rows=[y <= 5, y >= -5]).model
    assert not model.is_convex_below
    assert "eigenvalue" in model.lower_solver.reason


def test_rows_in_x_alone_say_which_x_count():
    x, y = cp.Variable(2), cp.Variable()
    g = (x[0] + x[1]) * y**2 - y
    rows = [x >= -1, x <= 2]
    assert not problem_of(g, rows, y, lower_rows=[y <= 5]).model.is_convex_below
    assert problem_of(g, [*rows, x[0] + x[1] >= 0.5], y, lower_rows=[y <= 5]).model.is_convex_below


def test_answers_are_right_at_convex_and_at_concave_x():
    x, y = cp.Variable(), cp.Variable()
    model = problem_of(x * y**2 - y, [x >= -2, x <= 2], y, lower_rows=[y <= 3, y >= -2]).model
    grid = np.linspace(-2, 3, 5001)
    for at in (-2.0, -0.5, -0.1, 0.0, 0.4, 2.0):
        answer, _ = model.solve_lower(np.array([at]), np.empty(0), np.zeros(1))
        assert answer.value == pytest.approx((at * grid**2 - grid).min(), abs=1e-6)


@pytest.mark.parametrize("n", [1, 3])
def test_the_adversary_is_not_taken_for_convex(n):
    a = np.array([0.9, -0.5, 1.2])[:n]
    w, d = cp.Variable(n), cp.Variable(n)
    loss = cp.square(w @ (a + d) - 1)
    lower = bm.Lower(cp.Maximize(loss), [d <= 0.2, d >= -0.2], variables=[d])
    problem = bm.BilevelProblem(cp.Minimize(loss + 0.1 * cp.sum_squares(w)), [w >= -3, w <= 3], lower)
    problem.solve()
    # The worst case over the box is (|w @ a - 1| + 0.2 |w|_1)^2: one convex program by hand.
    v = cp.Variable(n)
    worst = cp.square(cp.abs(v @ a - 1) + 0.2 * cp.norm1(v)) + 0.1 * cp.sum_squares(v)
    assert problem.value == pytest.approx(cp.Problem(cp.Minimize(worst)).solve(), abs=1e-5)
