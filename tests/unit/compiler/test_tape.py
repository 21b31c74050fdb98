"""Tapes at many points in one call, against one call for each."""

import cvxpy as cp
import numpy as np
import pytest

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.tape import Tape

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


def test_what_does_not_hold_the_last_block_is_run_once_for_all_points(monkeypatch):
    tape = lower([cp.exp(X[0] * Y[1]) + cp.sum_squares(Y), cp.log(Y)], BLOCKS[:2])
    points, whole = np.ones((7, 3)), []
    run = Tape.__call__
    monkeypatch.setattr(Tape, "__call__", lambda self, *at: whole.append(at) or run(self, *at))
    assert len(tape.at_each("y", points, np.zeros(2), points[0])) == 7
    assert len(whole) == 1 and np.array_equal(whole[0][1], points[0])
    assert tape.at_each("y", points[:0], np.zeros(2), points[0]).shape == (0, 4)


def test_points_of_a_wrong_size_are_refused():
    tape = lower([cp.sum(Y) + X[0]], BLOCKS)
    with pytest.raises(ValueError, match="size 3"):
        tape.at_each("y", np.zeros((4, 2)), np.zeros(2), np.zeros(3), np.zeros(0))
