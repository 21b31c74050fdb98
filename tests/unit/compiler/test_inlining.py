"""A tape inside another one gives the same numbers."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from blomodel.compiler.blocks import Block
from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.inlining import inline
from blomodel.compiler.lowering import lower


def test_inputs_come_from_parts_of_another_vector():
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    tape = lower([cp.exp(x) @ np.ones(2) * cp.sum_squares(y)], (Block("x", (x,)), Block("y", (y,))))
    b = TapeBuilder(("z",), (5,))
    z = b.input("z")
    parts = {"x": b.gather(z, np.array([4, 0])), "y": b.gather(z, np.array([1, 2, 3]))}
    whole = b.finish(inline(b, tape, parts))
    point = np.array([0.3, 1.0, -2.0, 0.5, -0.7])
    assert np.allclose(whole(point), (np.exp(-0.7) + np.exp(0.3)) * (1 + 4 + 0.25))
