"""phi and its gradient against central differences of brute force."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.forms.answer_value import AnswerValue


def _problem(rows=lambda x, y: (y >= 0, y <= 1)):
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), list(rows(x, y)), variables=[y])
    upper = cp.sum(cp.exp(y)) + x @ y + cp.sum_squares(x)
    return bm.BilevelProblem(cp.Minimize(upper), [x >= -3, x <= 3], lower)


def by_hand(x):
    y = np.clip(x, 0, 1)
    return np.exp(y).sum() + x @ y + x @ x


@pytest.mark.parametrize("x", [(0.3, 0.6), (-0.4, 0.5), (1.7, -2.0)])
def test_value_and_gradient(x):
    x, h = np.array(x), 1e-6
    found = AnswerValue(_problem().model, np.zeros(0))(x)
    slopes = [(by_hand(x + h * e) - by_hand(x - h * e)) / (2 * h) for e in np.eye(2)]
    assert found.value == pytest.approx(by_hand(x))
    assert found.gradient == pytest.approx(slopes, abs=1e-5)
    assert found.has_gradient and found.is_smooth
    assert found.y == pytest.approx(np.clip(x, 0, 1))


def test_a_kink_is_told_and_has_the_slopes_of_two_pieces():
    phi, x = AnswerValue(_problem().model, np.zeros(0)), np.array([0.5, 1.0])
    one, other = phi(x), phi(x, keeps_weak=True)
    assert not one.is_smooth and not other.is_smooth
    h = 1e-6
    sides = [(by_hand(x + s * np.array([0, h])) - by_hand(x)) / (s * h) for s in (1, -1)]
    assert sorted([one.gradient[1], other.gradient[1]]) == pytest.approx(sorted(sides), abs=1e-4)


def test_no_lower_answer_is_an_infinite_value():
    phi = AnswerValue(_problem(lambda x, y: (y <= x, y >= 1)).model, np.zeros(0))
    found = phi(np.zeros(2))
    assert found.value == np.inf and not found.is_finite and not found.has_gradient
