"""Odd lower levels that ended in a traceback: nothing to decide, no answer, constants of shape (1,)."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def test_a_lower_variable_that_is_fixed():
    # SciPy's minimize says nothing of iterations where all bounds are equal.
    x, y = cp.Variable(name="x"), cp.Variable(name="y", bounds=[0.9, 0.9])
    lower = bm.Lower(cp.Minimize(-cp.square(y - 1)), [0 * y <= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.exp(0.5 * x) + 2.3 * y), [x >= -1, x <= 1], lower)
    assert problem.solve(time_limit=20) == pytest.approx(np.exp(-0.5) + 2.3 * 0.9, abs=1e-5)


def test_rows_in_units_of_their_own_that_contradict_each_other():
    # Without an answer there are no multipliers to be brought back to the stated units.
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    rows = [y >= -2, y <= 1, 1e-8 * (-0.4 * y + 0.5 * x + 1.0) <= 0, 100 * (0.7 * y - 0.3) <= 0]
    lower = bm.Lower(cp.Minimize(cp.pos(y - x - 0.5)), rows, variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.square(y + 1.4)), [x >= 0, x <= 0], lower)
    problem.solve(time_limit=20)
    assert problem.status in ("infeasible", "lower_infeasible")
    certificate = bm.certify(problem, np.array([0.0]), np.array([0.4]))
    assert not certificate.accepted


def test_a_constant_of_shape_one_below():
    # The terms of g are looked at one by one; their coefficients may be arrays with one entry.
    x, y = cp.Variable(1, name="x"), cp.Variable(1, name="y")
    rows = [y >= -2, y <= 0.5, np.array([0.9]) @ x + np.array([1.4]) @ y <= 0.8]
    g = np.array([-2.1]) @ y + cp.sum_squares(y) * 0.1 + y @ np.array([0.05])
    lower = bm.Lower(cp.Minimize(g), rows, variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y) + cp.sum_squares(x)), [x >= -1, x <= 2], lower)
    answers = [min(0.5, (0.8 - 0.9 * at) / 1.4) + at**2 for at in np.linspace(-1, 2, 3001)]
    assert problem.solve(time_limit=60) == pytest.approx(min(answers), abs=1e-4)
