"""A quadratic form of x in the lower objective: a constant where the certificate fixes x."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def test_certificate_takes_a_quadratic_form_of_x():
    x, y = cp.Variable(2, name="x"), cp.Variable(name="y")
    objective = (y - x[0]) ** 2 + cp.quad_form(x, np.array([[2.0, 1.0], [1.0, 3.0]]))
    lower = bm.Lower(cp.Minimize(objective), [y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(x - 1) + y), [], lower)
    assert problem.solve() == pytest.approx(0.75, abs=1e-6)
    assert problem.certificate.checked_by == "cvxpy and Clarabel"
