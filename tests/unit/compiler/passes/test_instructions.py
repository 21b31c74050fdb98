"""Every pass over tapes knows every instruction of the machine, and says so where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from blomodel.kernels import machine as op

from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.passes.combination import Combination
from blomodel.compiler.passes.dependence import dependence
from blomodel.compiler.passes.derivatives import gradient, jvp, vjp
from blomodel.compiler.passes.directions import Term, direction
from blomodel.compiler.passes.entries import jacobian_entries
from blomodel.compiler.passes.fusing import fuse_products
from blomodel.compiler.passes.intervals import intervals
from blomodel.compiler.passes.meetings import Meetings
from blomodel.compiler.passes.polynomial import polynomial
from blomodel.compiler.tape import SparseMatrix, Tape

SIZE = 4
POINT = np.array([0.1, 0.4, 0.7, 0.2])  # in the domain of every function


def example(opcode: int) -> Tape:
    """A tape of y whose result is given by the instruction; of the blocks x, y and p."""
    b = TapeBuilder(("x", "y", "p"), (1, SIZE, 1))
    y = b.input("y")
    if opcode in op.UNARY:
        node = b.emit(opcode, (y,), SIZE)
    elif opcode in op.BINARY:
        node = b.emit(opcode, (y, b.constant([0.5, 0.2, 0.3, 0.6])), SIZE)
    elif opcode in op.SEGMENTS:
        node = b.segments(opcode, y, 2, 1)
    else:
        node = _others(b, y)[opcode]()
    return b.finish(node)


def _others(b: TapeBuilder, y: int) -> dict[int, Callable[[], int]]:
    matrix = SparseMatrix(sp.csr_array(np.diag([1.0, 2.0, 3.0, 4.0]) + np.eye(SIZE, k=1)))
    return {
        op.FILL: lambda: b.fill(b.sum(y), 3),
        op.GATHER: lambda: b.gather(y, np.array([2, 0])),
        op.SCATTER: lambda: b.select(2, [(y, np.array([0, 1, 3]), np.array([0, 0, 1]))]),
        op.MATMUL: lambda: b.matmul(b.constant([1.0, 2.0, 3.0, 4.0]), y, 2, 2, 2),
        op.SPARSE: lambda: b.sparse(matrix, y),
        op.INPUT: lambda: y,
        op.CONSTANT: lambda: b.constant([1.0, 2.0]),
        op.SELECT: lambda: b.gather(y, np.array([3, 1])),
        op.FREEZE: lambda: b.freeze(y),
    }


def _run(tape: Tape) -> None:
    machinery = tape.machinery
    place = slice(machinery.output, machinery.output + tape.n_outputs)
    if len(machinery.code):
        machinery.workspace[place] = np.nan  # an instruction that does nothing would leave it there
    assert np.all(np.isfinite(tape([1.0], POINT, [1.0])))


def _combine(tape: Tape) -> None:
    b = TapeBuilder(("y",), (SIZE,))
    numbers: list[int] = []
    for node in tape.nodes:
        arguments = tuple(numbers[argument] for argument in node.args)
        data = 0 if node.op == op.INPUT else node.data
        numbers.append(b.emit(node.op, arguments, node.size, data))
    Combination(b, numbers[-1])


PASSES: dict[str, Callable[[Tape], Any]] = {
    "run": _run,
    "vjp": lambda tape: vjp(tape, "y"),
    "jvp": lambda tape: jvp(tape, "y"),
    "second": lambda tape: vjp(vjp(tape, "y"), "y"),
    "intervals": lambda tape: intervals(tape, {"y": (0.1, 0.9)}),
    "polynomial": polynomial,
    "dependence": lambda tape: dependence(tape, "y"),
    "entries": lambda tape: jacobian_entries(tape, ("y",)).at(([1.0], POINT, [1.0])),
    "meetings": lambda tape: Meetings({"y": SIZE}).add(tape, is_sum=False),
    "fuse": fuse_products,
    "direction": lambda tape: direction([[Term(tape)]], {"x": 1, "y": SIZE}, np.ones(1)),
    "combination": _combine,
}


@pytest.mark.parametrize("opcode", sorted(op.NAMES), ids=lambda opcode: op.NAMES[opcode])
@pytest.mark.parametrize("name", PASSES)
def test_every_pass_knows_every_instruction(name: str, opcode: int) -> None:
    PASSES[name](example(opcode))


@pytest.mark.parametrize("opcode", sorted(op.NAMES), ids=lambda opcode: op.NAMES[opcode])
def test_examples_hold_the_instruction(opcode: int) -> None:
    tape = example(opcode)
    in_nodes = {node.op for node in tape.nodes}
    in_code = {int(row[0]) for row in tape.machinery.code}
    assert opcode in in_nodes | in_code


@pytest.mark.parametrize("opcode", sorted(op.NAMES), ids=lambda opcode: op.NAMES[opcode])
def test_derivatives_bounds_and_dependence_fit_the_values(opcode: int) -> None:
    tape = example(opcode)
    inputs = ([1.0], POINT, [1.0])
    low, high = intervals(tape, {"y": (0.1, 0.9)})
    value = tape(*inputs)
    assert np.all(low <= value + 1e-12) and np.all(value <= high + 1e-12)
    if opcode == op.FREEZE:
        return  # held fixed on purpose
    scalar = TapeBuilder(tape.input_names, tape.input_sizes)
    numbers: list[int] = []
    for node in tape.nodes:
        arguments = tuple(numbers[argument] for argument in node.args)
        numbers.append(scalar.emit(node.op, arguments, node.size, node.data))
    total = scalar.finish(scalar.sum(numbers[tape.output]))
    slope, reach = gradient(total, "y")(*inputs), dependence(total, "y")[0]
    step = 1e-6
    for k in range(SIZE):
        moved = [POINT + sign * step * np.eye(SIZE)[k] for sign in (1, -1)]
        up, down = (total([1.0], point, [1.0])[0] for point in moved)
        assert slope[k] == pytest.approx((up - down) / (2 * step), abs=1e-6)
        assert reach[k] or up == down
