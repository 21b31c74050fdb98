"""The kinds of instructions of a tape, for passes that carry something forward through each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from blomodel.compiler.tape import Node, unknown_instruction
from blomodel.kernels import machine as op

Carried = TypeVar("Carried")
Rule = Callable[[Node, list[Carried]], Carried]


@dataclass(frozen=True, kw_only=True)
class Rules(Generic[Carried]):
    """What a pass does at an instruction of each kind, given what it knows of the operands.

    Attributes
    ----------
    purpose : str
        What the pass is for, as an error says it.
    """

    purpose: str
    unary: Rule[Carried]
    binary: Rule[Carried]
    fill: Rule[Carried]
    freeze: Rule[Carried]
    select: Rule[Carried]
    matmul: Rule[Carried]
    sparse: Rule[Carried]
    segments: Rule[Carried]

    @cached_property
    def _by_instruction(self) -> dict[int, Rule[Carried]]:
        return {
            **dict.fromkeys(op.UNARY, self.unary),
            **dict.fromkeys(op.BINARY, self.binary),
            **dict.fromkeys(op.SEGMENTS, self.segments),
            op.FILL: self.fill,
            op.FREEZE: self.freeze,
            op.SELECT: self.select,
            op.MATMUL: self.matmul,
            op.SPARSE: self.sparse,
        }

    def __call__(self, node: Node, args: list[Carried]) -> Carried:
        """What the pass knows after an instruction that is neither input nor constant."""
        rule = self._by_instruction.get(node.op)
        if rule is None:
            raise unknown_instruction(node.op, self.purpose)
        return rule(node, args)


def first_operand(_node: Node, args: list[Carried]) -> Carried:
    """The rule that passes on what is known of the operand."""
    return args[0]
