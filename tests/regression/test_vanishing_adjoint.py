"""An adjoint that dies away on its way back is zero, not a number that overflowed."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from blomodel.kernels.tangent import pull_through

import blomodel as bm
from blomodel.methods.run.run import Run


def bounded() -> bm.BilevelProblem:
    """The lower answer min(x, 0.7) is 0.7 at x = 1, where f is least."""
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    lower = bm.Lower(cp.Minimize(0.5 * cp.sum_squares(y - x)), [y <= 0.7], variables=[y])
    upper = cp.sum_squares(y - 1) + 0.1 * cp.sum_squares(x)
    return bm.BilevelProblem(cp.Minimize(upper), [-1 <= x, x <= 2], lower)


def test_a_direction_that_has_vanished_stays_finite():
    problem = bounded()
    run = Run(model=problem.model, p=np.zeros(0), start=None, tolerance=1e-6, seed=0)
    direction = np.full(3, 1e-318)
    pull_through(run.y_set.spec, np.zeros(3), direction, np.zeros(3), np.zeros(3))
    assert np.all(direction == 0.0)
