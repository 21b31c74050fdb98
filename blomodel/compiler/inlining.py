"""A tape's nodes emitted into another one."""

from __future__ import annotations

from collections.abc import Mapping

from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.tape import Tape
from blomodel.kernels import machine as op


def inline(b: TapeBuilder, tape: Tape, inputs: Mapping[str, int]) -> int:
    """Emit a tape's nodes into a builder, with given nodes in the place of its inputs; its result."""
    numbers: list[int] = []
    for node in tape.nodes:
        if node.op == op.INPUT:
            numbers.append(inputs[tape.input_names[node.data]])
        else:
            args = tuple(numbers[arg] for arg in node.args)
            numbers.append(b.emit(node.op, args, node.size, node.data))
    return numbers[tape.output]
