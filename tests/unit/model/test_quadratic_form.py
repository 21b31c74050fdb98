"""Quadratic functions by their coefficients against cvxpy's own values."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.model.quadratic_form import QuadraticForm


@pytest.mark.parametrize("noise", [1.0, 0.0])
def test_value_and_gradient(noise):
    draw = np.random.default_rng(0)
    B, true = draw.standard_normal((200, 4)), draw.standard_normal(4)
    d = B @ true + noise * draw.standard_normal(200)
    x, y = cp.Variable(2, name="x"), cp.Variable(4, name="y")
    upper = cp.sum_squares(B @ y - d) / 200 + x[0] * y[1] + cp.square(x[1]) - 3 * x[0]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x[0])), variables=[y])
    model = bm.BilevelProblem(cp.Minimize(upper), [x >= -1, x <= 1], lower).model
    form = QuadraticForm(model.f, model.f_grad, np.zeros(0))
    assert form.is_worth_it
    at_x, at_y = np.array([0.0, 0.0]), true + 1e-4  # a value near zero without noise
    x.value, y.value = at_x, at_y
    value, slope = form(at_x, at_y)
    assert value == pytest.approx(float(upper.value), rel=1e-10)
    assert slope == pytest.approx(model.f_grad(at_x, at_y, np.zeros(0)), rel=1e-9, abs=1e-12)
