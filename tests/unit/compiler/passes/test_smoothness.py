"""Where a gradient may be missing: kinks, ends of domains, and boxes that keep away from them."""

import cvxpy as cp
import numpy as np
import pytest

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.smoothness import is_smooth

X, Y = cp.Variable(name="x"), cp.Variable(2, name="y")
BLOCKS = (Block("x", (X,)), Block("y", (Y,)), Block("p", ()))


@pytest.mark.parametrize(
    ("expression", "low", "expected"),
    [
        (cp.sum_squares(Y) + cp.exp(Y[0]) * X, -1.0, True),
        (cp.log(Y[0]), 0.0, True),  # an open domain: no minimiser at its end
        (cp.sqrt(Y[0]), 0.0, False),
        (cp.sqrt(Y[0]), 0.1, True),
        (cp.entr(Y[0]), 0.0, False),
        (cp.power(Y[0], 1.5), 0.0, True),
        (cp.power(Y[0], 1.5), -1.0, False),  # the end of the domain is no row
        (cp.power(Y[0], 0.5), 0.0, False),
        (cp.power(Y[0], 3), -1.0, True),
        (cp.abs(Y[0]), -1.0, False),
        (cp.abs(Y[0]), 0.5, True),
        (cp.maximum(Y[0], 0.2), -1.0, False),
        (cp.norm(Y), -1.0, False),
        (cp.norm(Y), 0.5, True),
        (cp.abs(X) * Y[0], -1.0, True),  # a kink in x alone
        (cp.max(Y), -1.0, False),
    ],
)
def test_gradients_in_y(expression, low, expected):
    tape = lower([expression], BLOCKS)
    bounds = {"x": (-1.0, 1.0), "y": (np.full(2, low), np.full(2, 2.0))}
    assert is_smooth(tape, "y", bounds) is expected
