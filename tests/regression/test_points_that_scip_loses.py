"""Where SCIP sees no point at all, not even the known one, its bound is not believed to the end."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

import blomodel as bm


def test_a_bound_beside_a_lost_point():
    """Found by the fuzzer: the bound was 1.1, and x = 1e-4 with y = 1 has 1.10014."""
    x, y = cp.Variable(1, name="x"), cp.Variable(1, name="y")
    cubic = cp.sum(y**3 - 3 * y) * 0.5 + x[0] - x[0] * y[0] * 0.0
    A, B = np.array([[0.4], [0.0]]), np.array([[0.2], [-3.4]])
    rows = [
        -1 <= y,
        y <= 1.2,
        100 * (A @ x + B @ y - np.array([2.0, 0.3])) <= 0,
        -1 - y[0] <= 0,
        10000 * (0 * x[0] - 0.001) <= 0,
    ]
    lower = bm.Lower(cp.Maximize(-cubic), rows, variables=[y])
    f = cp.norm1(y + 0.1) + np.array([1.4]) @ x
    problem = bm.BilevelProblem(cp.Maximize(f), [x >= 0, x <= 1e-4], lower)
    problem.solve()
    assert problem.certificate.bound >= 1.10014 - 1e-9
    assert problem.value >= 1.10014 - 1e-4 * 2.1
