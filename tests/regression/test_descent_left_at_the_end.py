"""Models of one or two upper variables that once ended where f still fell along a feasible direction."""

import cvxpy as cp
import pytest

import blomodel as bm


def test_a_logistic_follower_with_one_row():
    x, y = cp.Variable(2), cp.Variable(2)
    g = cp.sum(cp.logistic(2 * y)) - x[0] * y[0] + 0.2 * cp.sum_squares(y)
    f = 0.67 * x[0] - 0.77 * x[1] - 0.58 * y[0] + 0.78 * y[1] + 2
    lower = bm.Lower(cp.Minimize(g), [-2 * y[0] + 2 * y[1] <= 1.22], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= [-2.3, -2], x <= [2.9, 0]], lower)
    assert problem.solve() == pytest.approx(0.295159, abs=1e-5)


def test_a_quadratic_follower_with_an_equality():
    x, y = cp.Variable(), cp.Variable(2)
    g = cp.square(y[0] + 3 * x - 2.24) + cp.square(y[1] + 1.86 * x)
    rows = [0.5 * y[0] - 0.5 * y[1] - 0.63 * x == -0.718113265886912, y[1] - 1.14 * x <= -0.88]
    f = -x * y[0] + x - 1.5 * y[0] + 1.5 * y[1] - 1.67
    problem = bm.BilevelProblem(
        cp.Minimize(f), [x >= 0, x <= 3.3], bm.Lower(cp.Minimize(g), rows, variables=[y])
    )
    assert problem.solve() == pytest.approx(0.402164, abs=1e-5)


def test_a_norm_below_whose_apex_is_the_answer():
    x, y = cp.Variable(), cp.Variable(2)
    g = cp.norm(y - cp.hstack([2.5 * x, -x])) + 0.2 * cp.sum_squares(y)
    f = cp.nlp.sin(2 * x) - 0.5 * x - 1.5 * y[0] + 3 * y[1] - 1.78
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= -2.1, x <= -0.5], lower)
    assert problem.solve() == pytest.approx(1.003529, abs=1e-5)
