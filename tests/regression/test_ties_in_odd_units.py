"""Ties at an optimum, with levels in units that are decades apart."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


@pytest.mark.parametrize(("of_x", "of_y"), [(1.0, 1.0), (1000.0, 0.01), (1e-3, 100.0)])
def test_the_answer_is_the_same_in_every_unit(of_x, of_y):
    # At x = (2.2, 0, -0.4) the lower level is indifferent in y[0]; a little aside f jumps to 3.065.
    least, most = np.array([-1, 0, -2]), np.array([2.2, 1.8, -0.3])
    x = cp.Variable(3, name="x", bounds=[of_x * least, of_x * most])
    least, most = np.array([-1, 0, -1]), np.array([0.7, 2.4, 1.3])
    y = cp.Variable(3, name="y", bounds=[of_y * least, of_y * most])
    u, v = x / of_x, y / of_y
    g = [-0.4, 1.6, -1.5] @ v + ([0.4, -0.2, -0.1] @ v) * u[0]
    g += ([-1.4, 0.9, -0.3] @ v) * u[1] + ([1.2, -1.3, 0.4] @ v) * u[2]
    f = [-1, 0.4, 1.2] @ u + [0.1, 2, -1.6] @ v + 0.9 * cp.sum_squares(v - [-1.8, 0.3, -0.8])
    row = 100 * (0.2 * u[1] + [-0.7, -0.6, 0.1] @ v - 1.1) <= 0
    lower = bm.Lower(cp.Minimize(1e-4 * g), [row], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f), [], lower)
    assert problem.solve() == pytest.approx(-0.234, abs=1e-6)
    assert problem.status == "optimal"
    assert problem.certificate.bound <= -0.234 + 1e-8
