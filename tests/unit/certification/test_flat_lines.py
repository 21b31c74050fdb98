"""Local optima along a line on which no answer changes, and lines that only look like it."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.certification.neighbourhood import study_neighbourhood

LINE = "along a line on which f does not change"


def ratios() -> bm.BilevelProblem:
    """Three weights of one lower objective, of which two ratios matter."""
    q, w = cp.Variable(3, name="q"), cp.Variable(2, name="w")
    g = cp.exp(q[0]) * cp.square(w[0] - 1) + cp.exp(q[1]) * cp.square(w[1] - 1)
    g += cp.exp(q[2]) * cp.sum_squares(w)
    f = cp.square(w[0] - 0.3) + cp.square(w[1] - 0.6)
    lower = bm.Lower(cp.Minimize(g), variables=[w])
    return bm.BilevelProblem(cp.Minimize(f + 0 * q[0] + 1), [q >= -9, q <= 9], lower)


def test_weights_of_which_only_ratios_matter():
    model, nothing = ratios().model, np.zeros(0)
    q, w = np.array([np.log(0.3 / 0.7), np.log(0.6 / 0.4), 0.0]), np.array([0.3, 0.6])
    found = study_neighbourhood(model, nothing, q, w, nothing, has_convex_pieces=lambda: False)
    assert found.is_local_optimum
    assert LINE in found.reason
    q[0] += 0.01
    w[0] = np.exp(q[0]) / (1 + np.exp(q[0]))
    found = study_neighbourhood(model, nothing, q, w, nothing, has_convex_pieces=lambda: False)
    assert not found.is_local_optimum


@pytest.mark.parametrize("power", [2, 4, 6])
def test_a_line_beside_which_f_falls_is_told_apart(power):
    """y^2 + y t^k is zero for y = 0, has no curvature in t, and falls to -t^(2k) / 4 beside the line."""
    s, t, y = cp.Variable(name="s"), cp.Variable(name="t"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.square(y - s)), variables=[y])
    upper = cp.Minimize(cp.square(y) + cp.multiply(y, cp.power(t, power)))
    problem = bm.BilevelProblem(upper, [s >= -1, s <= 1, t >= -1, t <= 1], lower)
    found = bm.certify(problem, x={s: 0.0, t: 0.0}, y=np.array([0.0]))
    assert found.claim == "stationary"


def test_a_controller_that_is_only_told_ratios():
    """Weights of a controller: multiplied by one number they give the same moves."""
    step, horizon = 0.2, 6
    A, B = np.array([[1, step], [-step, 1]]), np.array([[0], [step]])
    q, r = cp.Variable(2, name="q"), cp.Variable(name="r")
    X, U = cp.Variable((2, horizon + 1), name="X"), cp.Variable((1, horizon), name="U")
    cost = cp.exp(q[0]) * cp.sum_squares(X[0]) + cp.exp(q[1]) * cp.sum_squares(X[1])
    cost += cp.exp(r) * cp.sum_squares(U)
    rows = [X[:, 0] == [1, 0], X[:, 1:] == A @ X[:, :-1] + B @ U]
    f = cp.sum_squares(X[0]) + 0.1 * cp.sum_squares(X[1]) + 0.5 * cp.sum_squares(U)
    lower = bm.Lower(cp.Minimize(cost), rows, variables=[X, U])
    problem = bm.BilevelProblem(cp.Minimize(f), [q >= -9, q <= 9, r >= -9, r <= 9], lower)
    values = np.log([1.0, 0.1, 0.5])  # the same controller as the upper level's own
    answer = cp.Problem(cp.Minimize(f), rows)
    answer.solve(cp.CLARABEL)
    y = {X: X.value, U: U.value}
    found = bm.certify(problem, x={q: values[:2], r: values[2]}, y=y)
    assert found.claim in ("optimal", "locally_optimal")
