"""Second derivatives of phi against central differences of its gradient."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.forms.answer_curvature import AnswerCurvature
from blomodel.reformulations.forms.answer_value import AnswerValue


def _problem(with_rows):
    draw = np.random.default_rng(0)
    A, b = draw.standard_normal((8, 4)), draw.standard_normal(8)
    x, y = cp.Variable(3, name="x"), cp.Variable(4, name="y")
    g = cp.sum_squares(A @ y - b) + cp.exp(x[0]) * cp.sum_squares(y) + x[1] * y[2]
    g += cp.sum(cp.logistic(y)) if not with_rows else 0
    rows = [y[0] >= 0.4 + x[2], y <= 2, cp.sum(y) == x[1]] if with_rows else []
    f = cp.sum(cp.exp(y)) + cp.sum_squares(x) + x[0] * y[1]
    lower = bm.Lower(cp.Minimize(g), rows, variables=[y])
    return bm.BilevelProblem(cp.Minimize(f), [x >= -3, x <= 3], lower)


@pytest.mark.parametrize("with_rows", [True, False])
def test_hessian(with_rows):
    model, p, x, h = _problem(with_rows).model, np.zeros(0), np.array([-0.3, 0.5, 0.2]), 1e-5
    assert AnswerCurvature.applies(model)
    phi = AnswerValue(model, p)
    at = phi(x)
    if with_rows:
        assert at.y[0] == pytest.approx(0.6)  # the row presses
    slopes = [(phi(x + h * e).gradient - phi(x - h * e).gradient) / (2 * h) for e in np.eye(3)]
    known = (np.array(slopes) + np.array(slopes).T) / 2
    curvature = AnswerCurvature(model, p)
    assert curvature(at, np.arange(3)) == pytest.approx(known, rel=1e-4, abs=1e-5)
    some = np.array([0, 2])
    assert curvature(at, some) == pytest.approx(known[np.ix_(some, some)], rel=1e-4, abs=1e-5)


def test_a_matrix_full_of_numbers_is_found_once_and_then_only_multiplied(monkeypatch):
    model, p = _problem(True).model, np.zeros(0)
    phi, curvature, asked = AnswerValue(model, p), AnswerCurvature(model, p), []
    matrix = model.kkt_hessian.matrix
    monkeypatch.setattr(model.kkt_hessian, "matrix", lambda *given: asked.append(1) or matrix(*given))
    x = np.array([-0.3, 0.5, 0.2])
    first = curvature(phi(x), np.arange(3))
    assert curvature(phi(x), np.arange(3)) == pytest.approx(first, rel=1e-9)
    assert curvature(phi(x), np.zeros(0, int)).shape == (0, 0)
    assert len(asked) == 1


def test_none_at_a_kink():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 0], variables=[y])
    model = bm.BilevelProblem(cp.Minimize(x**2 + y), [x >= -1, x <= 1], lower).model
    phi = AnswerValue(model, np.zeros(0))
    assert AnswerCurvature(model, np.zeros(0))(phi(np.zeros(1)), np.arange(1)) is None
