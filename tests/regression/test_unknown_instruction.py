"""An instruction without an entry once had derivative zero and the bounds of the entropy, silently."""

from __future__ import annotations

import numpy as np
import pytest
from blomodel.kernels import machine as op

from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.passes import intervals, linearisation
from blomodel.compiler.passes.dependence import dependence
from blomodel.compiler.passes.derivatives import gradient, jvp
from blomodel.compiler.passes.directions import _moved
from blomodel.compiler.passes.entries import jacobian_entries
from blomodel.compiler.passes.polynomial import polynomial
from blomodel.compiler.tape import Node, Tape
from blomodel.errors import UnknownInstructionError

UNKNOWN = 77
TAPE = Tape(("x", "y"), (1, 1), [Node(op.INPUT, (), 1, 1), Node(UNKNOWN, (0,), 1)], 1)
POINT = (np.ones(1), np.ones(1))


def _one_value() -> TapeBuilder:
    b = TapeBuilder(("y",), (1,))
    b.input("y")
    return b


@pytest.mark.parametrize(
    "study",
    [
        lambda: TAPE(*POINT),
        lambda: gradient(TAPE, "y"),
        lambda: jvp(TAPE, "y"),
        lambda: intervals.intervals(TAPE, {"y": (1.0, 2.0)}),
        lambda: polynomial(TAPE),
        lambda: dependence(TAPE, "y"),
        lambda: jacobian_entries(TAPE, ("y",)),
        lambda: TapeBuilder(("y",), (1,)).emit(UNKNOWN, (), 1),
        lambda: _one_value().segments(UNKNOWN, 0, 1),
        lambda: _moved(
            np.array([[UNKNOWN, 1, 1, 0, 0, 0, 0, 0]], dtype=np.uint64),
            *(np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.uint64)),
            *(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)),
        ),
    ],
)
def test_every_pass_refuses(study) -> None:
    with pytest.raises(UnknownInstructionError, match="instruction 77"):
        study()


def test_a_new_elementwise_function_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if somebody had entered it in the machine, and forgotten the tables of the passes."""
    monkeypatch.setattr(op, "UNARY", op.UNARY | {UNKNOWN})
    monkeypatch.setitem(op.NAMES, UNKNOWN, "ROUND")
    with pytest.raises(UnknownInstructionError, match="ROUND"):
        gradient(TAPE, "y")
    with pytest.raises(UnknownInstructionError, match="ROUND"):
        intervals.intervals(TAPE, {"y": (1.0, 2.0)})


def test_a_new_function_of_two_operands_is_refused() -> None:
    b = TapeBuilder(("y",), (1,))
    y = b.input("y")
    with pytest.raises(UnknownInstructionError, match="two operands"):
        linearisation.binary_factors(b, UNKNOWN, y, y, y)
    ends = (np.ones(1), np.ones(1))
    with pytest.raises(UnknownInstructionError, match="two operands"):
        intervals._binary(UNKNOWN, ends, ends, False)
    with pytest.raises(UnknownInstructionError, match="runs"):
        intervals._runs(Node(UNKNOWN, (0,), 1, (1, 1, 0)), ends)
