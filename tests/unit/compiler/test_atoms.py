"""The atoms this library adds to cvxpy."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import expit

from blomodel.atoms import sigmoid


def test_sigmoid_values_and_shape() -> None:
    matrix = np.array([[-800.0, 0.0], [1.0, 800.0]])
    atom = sigmoid(matrix)
    assert atom.shape == (2, 2)
    np.testing.assert_allclose(atom.value, expit(matrix))
    assert sigmoid(0.0).value == 0.5


def test_sigmoid_follows_cvxpys_rules() -> None:
    x = cp.Variable(2)
    atom = sigmoid(x)
    assert atom.is_nonneg() and not atom.is_nonpos()
    assert atom.is_atom_smooth()
    assert not atom.is_convex() and not atom.is_concave()
    assert atom.is_incr(0) and not atom.is_decr(0)
    assert not cp.Problem(cp.Minimize(cp.sum(atom))).is_dcp()
    assert cp.Problem(cp.Minimize(cp.sum(sigmoid(cp.exp(x))))).is_dnlp()
    # Of a constant it is a constant, and increasing functions keep signs of slopes.
    assert sigmoid(cp.Parameter()).is_constant()


def test_sigmoid_bounds() -> None:
    low, high = sigmoid(cp.Variable(2, bounds=[-1.0, 2.0])).get_bounds()
    np.testing.assert_allclose(low, expit(-1.0))
    np.testing.assert_allclose(high, expit(2.0))


def test_sigmoid_gradient() -> None:
    x = cp.Variable(2)
    x.value = np.array([0.5, -3.0])
    found = sigmoid(2 * x).grad[x].toarray()
    slope = expit(2 * x.value) * (1 - expit(2 * x.value))
    np.testing.assert_allclose(found, np.diag(2 * slope))


def test_sigmoid_can_be_copied() -> None:
    x, other = cp.Variable(2), cp.Variable(2)
    assert sigmoid(x).copy([other]).args[0] is other


@pytest.mark.parametrize("large", [40.0, 700.0])
def test_sigmoid_slope_keeps_its_digits(large: float) -> None:
    x = cp.Variable()
    x.value = large
    assert sigmoid(x).grad[x] == pytest.approx(np.exp(-large), rel=1e-12)
