"""Search directions as single tapes: weighted gradients at several points, fused and shared.

A direction such as f_x(x, y) + gamma (g_x(x, y) - g_x(x, z)) becomes one tape, so that common parts are
computed once, terms that cancel vanish, and nothing is copied between gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.tape import Machinery, Tape
from blomodel.kernels import machine as op
from blomodel.kernels.moves import LESS_PRODUCT, PRODUCT_ADDED, PRODUCT_LESS

Direction = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Term:
    """One summand of a direction.

    Attributes
    ----------
    tape : Tape
        A function of x, y and p; None for the point ``y`` itself.
    y : str
        Which input of the direction goes in for y.
    weight : int or None
        Position among the weights, None for 1.
    sign : float
    less : str or None
        Another input, at which the same is taken off.
    """

    tape: Tape | None
    y: str = "y"
    weight: int | None = None
    sign: float = 1.0
    less: str | None = None


def direction(
    parts: Sequence[Sequence[Term]],
    points: dict[str, int],
    parameters: np.ndarray,
    n_weights: int = 1,
) -> Direction:
    """Compile sums of terms, one sum after another in the output, for use in loops.

    Parameters
    ----------
    parts : sequence of sequences of Term
        Every inner sequence is one sum.
    points : dict
        Name and size of every vector the loop puts in, the one that changes most often last.
    parameters : array
        Values of the problem's parameters.
    n_weights : int
        Number of weights, which are input 0 of the tape; the points follow in their order.

    Returns
    -------
    tuple
        Code, integers, workspace and layout, see ``kernels/moves.py``.
    """
    return shared_directions([(parts, tuple(points))], points, parameters, n_weights)[0]


def shared_directions(
    wanted: Sequence[tuple[Sequence[Sequence[Term]], Sequence[str]]],
    points: dict[str, int],
    parameters: np.ndarray,
    n_weights: int = 1,
) -> list[Direction]:
    """Several directions on one workspace: a point moved for one has moved for all.

    Parameters
    ----------
    wanted : sequence of (parts, order)
        The sums of each direction and the order of its points, the one that changes most often last.
    """
    sizes = {"p": parameters.size, "w": n_weights, **points}
    place = dict(zip(sizes, np.cumsum([0, *sizes.values()]), strict=False))
    top = int(sum(sizes.values()))
    compiled, rest = [], []
    for parts, order in wanted:
        names = ("p", "w", *order)
        m, n_outputs = _compile(parts, names, [sizes[name] for name in names], n_weights)
        # Inputs go to their common places, everything else behind what is there already.
        begins = np.array([*m.inputs, sum(sizes[name] for name in names)])
        shifts = np.array([*(place[name] for name in names), top]) - begins
        code, integers, output = _moved(m, begins, shifts)
        code, start, prefix = _with_products_fused(code, integers, output, m.start, m.prefix)
        layout = [start, len(code), output, n_outputs]
        for name in ("w", *points):
            layout += [place[name], sizes[name]]
        size = sizes[order[-1]]
        can_split = n_outputs == size and _mark_pieces(code, start, prefix, size)
        made = {int(row[2]) for row in code[prefix:]}
        layout += [int(output not in made), place[order[-1]] if can_split else 0, prefix]
        compiled.append((code, integers, np.array(layout, dtype=np.int64)))
        rest.append(m.workspace[begins[-1] :])
        top += rest[-1].size
    workspace = np.concatenate([np.zeros(sum(sizes.values())), *rest])
    workspace[: parameters.size] = parameters
    return [(code, integers, workspace, layout) for code, integers, layout in compiled]


def point_in(direction: Direction, position: int) -> np.ndarray:
    """The place of a point in the workspace; points count from 1, after the weights."""
    offset, size = direction[3][4 + 2 * position : 6 + 2 * position]
    return direction[2][offset : offset + size]


def _compile(
    parts: Sequence[Sequence[Term]], names: Sequence[str], sizes: Sequence[int], n_weights: int
) -> tuple[Machinery, int]:
    b = TapeBuilder(names, sizes)
    sums = []
    for terms in parts:
        total = None
        for term in terms:
            value = _value(b, term)
            size = b.size(value)
            if term.weight is not None:
                value = b.mul(b.gather(b.input("w"), np.array([term.weight])), value, size)
            if total is None:
                total = value if term.sign > 0 else b.unary(op.NEG, value)
            else:
                total = (b.add if term.sign > 0 else b.sub)(total, value, size)
        assert total is not None
        sums.append(total)
    tape = b.finish(sums[0] if len(sums) == 1 else b.concatenate(sums))
    return tape.machinery, tape.n_outputs


def _value(b: TapeBuilder, term: Term) -> int:
    if term.tape is not None:
        value = _inline(b, term.tape, term.y)
        if term.less is not None:
            value = b.sub(value, _inline(b, term.tape, term.less), b.size(value))
        return value
    value = b.input(term.y)
    return value if term.less is None else b.sub(value, b.input(term.less), b.size(value))


def _moved(
    m: Machinery, begins: np.ndarray, shifts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """The instructions for another arrangement of the workspace."""
    order = np.argsort(begins, kind="stable")

    def move(places: np.ndarray) -> np.ndarray:
        part = np.searchsorted(begins[order], places.astype(np.int64), side="right") - 1
        return (places.astype(np.int64) + shifts[order][part]).astype(np.uint64)

    code, integers = m.code.copy(), m.integers.copy()
    for row in code:
        opcode = int(row[0])
        row[2] = move(row[2:3])[0]
        if opcode in (op.GATHER, op.SCATTER):
            count = int(row[1] if opcode == op.GATHER else row[4])
            first = int(row[3])
            integers[first : first + count] = move(integers[first : first + count])
            continue
        row[3] = move(row[3:4])[0]
        if opcode in op.BINARY or opcode in (op.MATMUL, op.SPARSE):
            row[5] = move(row[5:6])[0]
    return code, integers, int(move(np.array([m.output]))[0])


def _with_products_fused(
    code: np.ndarray, integers: np.ndarray, output: int, start: int, prefix: int
) -> tuple[np.ndarray, int, int]:
    """Replace a product with a scalar and the sum that alone uses it by one instruction."""
    rows = [row.copy() for row in code]
    dropped: set[int] = set()
    for i in range(start, len(rows)):
        opcode, n, out, a, step_a, b, step_b, _ = map(int, rows[i])
        if opcode != op.MUL or n == 1 or step_a == step_b:
            continue
        scalar, vector = (a, b) if step_a == 0 else (b, a)
        users = [
            j
            for j in range(start, len(rows))
            if j != i and j not in dropped and _reads(rows[j], integers, out, n)
        ]
        if len(users) != 1 or out <= output < out + n:
            continue
        j = users[0]
        kind, size, target, left, step_left, right, step_right, _ = map(int, rows[j])
        if kind not in (op.ADD, op.SUB) or size != n or not (step_left and step_right):
            continue
        if left == out and right == out or out not in (left, right):
            continue
        other = right if left == out else left
        fused = PRODUCT_ADDED
        if kind == op.SUB:
            fused = PRODUCT_LESS if left == out else LESS_PRODUCT
        rows[j][:] = fused, n, target, other, 1, vector, scalar, 0
        dropped.add(i)
    kept = [row for i, row in enumerate(rows) if i not in dropped]
    prefix -= sum(i < prefix for i in dropped)
    return np.array(kept, dtype=np.uint64).reshape(-1, op.WIDTH), start, prefix


def _mark_pieces(code: np.ndarray, start: int, prefix: int, size: int) -> bool:
    """Tell in column 7 which operands are whole vectors; False where entries mix.

    What is made from the last point on is needed for one piece of the entries at a time.
    """
    made = {int(row[2]) for row in code[prefix:]}
    simple = (op.ADD, op.SUB, op.MUL, op.ABS, op.COS, PRODUCT_ADDED, LESS_PRODUCT, PRODUCT_LESS)
    for row in code[start:]:
        opcode, n, out, a, step_a, b, step_b, _ = map(int, row)
        if opcode not in simple or n != size:
            return False
        if opcode in op.BINARY and not (step_a or step_b):
            return False
        is_product = opcode >= PRODUCT_ADDED
        is_unary = opcode in op.UNARY
        whole = int(out not in made)
        whole += 2 * int(a not in made and (is_product or is_unary or step_a == 1))
        whole += 4 * int(not is_unary and b not in made and (is_product or step_b == 1))
        row[7] = whole
    return True


def _reads(row: np.ndarray, integers: np.ndarray, begin: int, size: int) -> bool:
    """Whether an instruction reads any of the places."""
    opcode = int(row[0])
    if opcode in (op.GATHER, op.SCATTER):
        count = int(row[1] if opcode == op.GATHER else row[4])
        places = integers[int(row[3]) : int(row[3]) + count]
        return bool(np.any((places >= begin) & (places < begin + size)))
    operands = [int(row[3])]
    if opcode in op.BINARY or opcode == op.MATMUL:
        operands.append(int(row[5]))
    if opcode >= PRODUCT_ADDED:
        operands += [int(row[5]), int(row[6])]
    if opcode in op.SEGMENTS or opcode in (op.MATMUL, op.SPARSE):
        # These read long stretches; being near is enough not to touch the instruction.
        return any(place < begin + size for place in operands)
    return any(begin <= place < begin + size for place in operands)


def _inline(b: TapeBuilder, tape: Tape, y: str) -> int:
    """Emit a tape's nodes with another input in the place of y."""
    numbers: list[int] = []
    for node in tape.nodes:
        if node.op == op.INPUT:
            name = tape.input_names[node.data]
            numbers.append(b.input(y if name == "y" else name))
        elif node.op == op.CONSTANT:
            numbers.append(b.constant(node.data))
        else:
            args = tuple(numbers[arg] for arg in node.args)
            numbers.append(_emit(b, node.op, args, node.size, node.data))
    return numbers[tape.output]


def _emit(b: TapeBuilder, opcode: int, args: tuple[int, ...], size: int, data: Any) -> int:
    """Simplify again where the operands allow it."""
    if opcode in op.UNARY:
        return b.unary(opcode, args[0])
    if opcode in op.BINARY:
        if opcode == op.ADD and args[0] == args[1]:  # the two halves of a square's derivative
            return b.mul(b.constant(2.0), args[0], size)
        return b.binary(opcode, args[0], args[1], size)
    if opcode == op.SPARSE and data[0].shape[0] == data[0].shape[1]:
        matrix = data[0].csr
        if np.array_equal(matrix.indices, np.arange(matrix.shape[0])) and np.all(matrix.data == 1):
            return args[0]  # the identity
    return b.emit(opcode, args, size, data)
