"""Kinds of instructions: each goes to its rule, and what nobody knows is refused by name."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from blomodel.kernels import machine as op

from blomodel.compiler.blocks import Block
from blomodel.compiler.kinds import Rules, first_operand
from blomodel.compiler.lowering import lower
from blomodel.compiler.tape import Node
from blomodel.errors import UnknownInstructionError

KINDS = ("unary", "binary", "fill", "freeze", "select", "matmul", "sparse", "segments")


def depth(_node: Node, args: list[int]) -> int:
    return 1 + max(args)


def test_every_instruction_of_a_tape_goes_to_a_rule() -> None:
    x, A = cp.Variable(3, name="x"), np.array([[1.0, 2, 0], [0, 1, 1], [1, 1, 1]])
    tape = lower([cp.sum(cp.exp(A @ x)) + cp.norm(x) + x[0] * x[1]], [Block("x", [x])])
    rules = Rules[int](purpose="counting", **dict.fromkeys(KINDS, depth))
    known: list[int] = []
    for node in tape.nodes:
        known.append(rules(node, [known[arg] for arg in node.args]) if node.args else 0)
    assert known[tape.output] == max(known) >= 4  # product, exponential, sum, addition


def test_an_instruction_goes_to_its_own_rule() -> None:
    marks = {kind: (lambda node, args, kind=kind: kind) for kind in KINDS}
    rules = Rules[str](purpose="naming", **marks)
    expected = {op.EXP: "unary", op.ADD: "binary", op.NORM: "segments", op.FILL: "fill"}
    expected |= {op.FREEZE: "freeze", op.SELECT: "select", op.MATMUL: "matmul", op.SPARSE: "sparse"}
    assert {opcode: rules(Node(opcode, (0,), 1), [""]) for opcode in expected} == expected
    assert first_operand(Node(op.FILL, (0,), 1), ["a", "b"]) == "a"


@pytest.mark.parametrize("opcode", [op.INPUT, op.CONSTANT, 77])
def test_what_has_no_rule_is_refused(opcode: int) -> None:
    rules = Rules[int](purpose="counting", **dict.fromkeys(KINDS, depth))
    with pytest.raises(UnknownInstructionError, match="counting has no entry"):
        rules(Node(opcode, (), 1), [0])
