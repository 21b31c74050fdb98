"""Tapes at many points in one call, against one call for each."""

import cvxpy as cp
import numpy as np
import pytest

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower

X, Y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
BLOCKS = (Block("x", [X]), Block("y", [Y]), Block("p", ()))


def test_many_points_are_those_of_single_calls():
    tape = lower([cp.exp(X[0] * Y[1]) + cp.sum_squares(Y), cp.log(Y)], BLOCKS)
    points = np.random.default_rng(0).normal(size=(7, 3))
    x, p = np.array([0.3, -0.7]), np.zeros(0)
    with np.errstate(all="ignore"):
        found = tape.at_each("y", points, x, points[0], p)
        singly = [np.append(np.exp(x[0] * y[1]) + y @ y, np.log(y)) for y in points]
    assert np.allclose(found, singly, equal_nan=True)
    assert np.allclose(tape(x, points[3], p), found[3], equal_nan=True)


def test_points_of_a_wrong_size_are_refused():
    tape = lower([cp.sum(Y) + X[0]], BLOCKS)
    with pytest.raises(ValueError, match="size 3"):
        tape.at_each("y", np.zeros((4, 2)), np.zeros(2), np.zeros(3), np.zeros(0))
