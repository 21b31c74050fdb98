"""Search directions as single tapes: weighted gradients at several points, fused and shared.

A direction such as f_x(x, y) + gamma (g_x(x, y) - g_x(x, z)) becomes one tape, so that common parts are
computed once, terms that cancel vanish, and nothing is copied between gradients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blomodel.basics import limits
from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.large_constants import FAR, attached
from blomodel.compiler.passes.combination import Combination
from blomodel.compiler.passes.fusing import fuse_products
from blomodel.compiler.tape import Machinery, Tape, digest, unknown_instruction
from blomodel.kernels import machine as op
from blomodel.kernels import moves

MOST_VECTORS = 8  # a longer combination costs more passes than instructions for it would
# Instructions whose only place in the workspace, beside that of their result, is in column 3.
_ONE_OPERAND = op.UNARY | op.SEGMENTS | {op.FILL}
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

    @property
    def n_gradients(self) -> int:
        """How many gradients it takes."""
        return 0 if self.tape is None else 1 + (self.less is not None)


def direction(
    parts: Sequence[Sequence[Term]],
    points: dict[str, int],
    parameters: np.ndarray,
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

    Returns
    -------
    tuple
        Code, integers, workspace and layout, see ``kernels/moves.py``.
    """
    return shared_directions([(parts, tuple(points))], points, parameters)[0]


def shared_directions(
    wanted: Sequence[tuple[Sequence[Sequence[Term]], Sequence[str]]],
    points: dict[str, int],
    parameters: np.ndarray,
) -> list[Direction]:
    """Several directions on one workspace: a point moved for one has moved for all.

    They also share large products with points, which are computed again only when a point has moved.

    Parameters
    ----------
    wanted : sequence of (parts, order)
        The sums of each direction and the order of its points, the one that changes most often last.
    """
    sizes = {"w": moves.N_WEIGHTS, **points}
    place = dict(zip(sizes, map(int, np.cumsum([0, *sizes.values()])), strict=False))
    top = sum(sizes.values())
    compiled, rest = [], []
    kept: list[np.ndarray] = []
    products = _Products()
    for parts, order in wanted:
        names = ("w", *order)
        slope = _compile(parts, names, [sizes[name] for name in names], parameters)
        m = slope.tape.machinery
        # Inputs go to their common places, everything else behind what is there already.
        begins = np.array([*m.inputs, sum(sizes[name] for name in names)])
        shifts = np.array([*(place[name] for name in names), top]) - begins
        kept += m.kept
        code, places, start, prefix = _without_copies(m, slope)
        own, top = top, top + m.workspace.size - begins[-1]
        rest.append(m.workspace[begins[-1] :])
        code, new_places, room = products.share(m, code, int(begins[-1]), own, top)
        rest.append(np.zeros(room))
        top += room
        # What lies behind such a value moves with the rest, unless it is such a value itself.
        ends = [begin + size for begin, size, _ in new_places]
        begins = np.array([*begins, *ends, *(begin for begin, _, _ in new_places)])
        moved_by = [place - begin for begin, _, place in new_places]
        shifts = np.array([*shifts, *[shifts[-1]] * len(ends), *moved_by])
        code, integers, vectors = _moved(code, m.portable[1], places, begins, shifts)
        rest.append(slope.coefficients.ravel())
        terms, top = top, top + slope.coefficients.size
        if slope.is_plain:
            output = vectors[0]
        else:
            rest.append(np.zeros(slope.size))
            output, top = top, top + slope.size
        # The fields of kernels/moves.py, in their order.
        layout = [start, prefix, len(code), output, slope.size, place[order[-1]], int(slope.is_plain)]
        is_steady = prefix == len(code) and place[order[-1]] not in vectors
        layout += [int(is_steady), int(slope.is_absolute), terms, len(vectors)]
        is_light = is_steady and not len(code) and len(vectors) == 2 and not slope.is_absolute
        layout += [moves.INPUTS + 2 * len(sizes), int(is_light), 0]
        for name in sizes:
            layout += [place[name], sizes[name]]
        compiled.append((code, integers, np.array([*layout, *vectors], dtype=np.int64)))
    workspace = np.concatenate([np.zeros(sum(sizes.values())), *rest])
    return [
        (*attached(code, integers, workspace, kept), workspace, layout)
        for code, integers, layout in compiled
    ]


class _Products:
    """Large products of constant matrices with points, each at one place for all directions."""

    def __init__(self) -> None:
        self._places: dict[tuple[Any, ...], tuple[int, int]] = {}  # of the matrix and of the product

    def share(
        self, m: Machinery, code: np.ndarray, first: int, own: int, top: int
    ) -> tuple[np.ndarray, list[tuple[int, int, int]], int]:
        """Mark such products in the code; tells what moves (begin, size, new place) and the room needed.

        Values from ``first`` on will lie from ``own`` on, new places begin at ``top``.
        """
        code, moves_to, room, seen = code.copy(), [], 0, Counter[tuple[Any, ...]]()
        gathers = {int(row[2]): row for row in code if row[0] == op.GATHER}
        for row in code:
            rows, out, a, k, b, n, transposed = (int(entry) for entry in row[1:])
            is_small = limits.SEPARATE_PRODUCTS.allows(rows * k)
            if row[0] != op.MATMUL or is_small or m.constants.get(a) != rows * k:
                continue
            gather = gathers.get(b)
            sources = np.array([b]) if gather is None else m.portable[1][int(gather[3]) :][: k * n]
            if transposed >= 2 or sources.max() >= first:
                continue
            name = a if a >= FAR else digest(m.workspace[a : a + rows * k])
            kind = (rows, k, n, transposed, name)
            seen[kind] += 1  # two of one direction need a place each
            key = (*kind, seen[kind])
            if key not in self._places:
                self._places[key] = a - first + own, top + room
                room += rows * n + k * n  # behind the product, the point it belongs to
            matrix, product = self._places[key]
            if a < FAR:
                moves_to.append((a, rows * k, matrix))
            moves_to.append((out, rows * n, product))
            row[7] += 4
        return code, moves_to, room


def point_in(direction: Direction, position: int) -> np.ndarray:
    """The place of a point in the workspace; points count from 1, after the weights."""
    at = moves.INPUTS + 2 * position
    offset, size = direction[3][at : at + 2]
    return direction[2][offset : offset + size]


def slopes_of(direction: Direction) -> int:
    """How many slopes loops have taken so far."""
    return int(direction[3][moves.SLOPES])


def result_in(direction: Direction) -> np.ndarray:
    """The place of the slope in the workspace."""
    offset, size = direction[3][[moves.OUTPUT, moves.OUTPUT_SIZE]]
    return direction[2][offset : offset + size]


@dataclass(frozen=True, eq=False)
class _Slope:
    """Vectors that a tape leaves one after another, and how the slope is combined from them.

    ``coefficients`` has a row for the last point itself, one for a constant, one for each vector; its
    columns are a fixed part and the factors of the weights.
    """

    tape: Tape
    size: int
    coefficients: np.ndarray
    is_plain: bool  # the slope is the one vector
    is_absolute: bool  # the absolute values of the vectors are meant


def _compile(
    parts: Sequence[Sequence[Term]], names: Sequence[str], sizes: Sequence[int], parameters: np.ndarray
) -> _Slope:
    b = TapeBuilder(names, sizes)
    sums = []
    for terms in parts:
        total = None
        for term in terms:
            value = _value(b, term, parameters)
            size = b.size(value)
            if term.weight is not None:
                value = b.mul(b.gather(b.input("w"), np.array([term.weight])), value, size)
            if total is None:
                total = value if term.sign > 0 else b.unary(op.NEG, value)
            else:
                total = (b.add if term.sign > 0 else b.sub)(total, value, size)
        assert total is not None
        sums.append(total)
    slope = sums[0] if len(sums) == 1 else b.concatenate(sums)
    combination = Combination(b, slope)
    own = np.zeros(1 + sizes[0])
    if b.size(slope) == sizes[-1]:
        own = combination.vectors.pop(b.input(names[-1]), own)
    constant, vectors = combination.constant, combination.vectors
    if len(vectors) > MOST_VECTORS:
        own, constant, vectors = np.zeros_like(own), np.zeros_like(own), {slope: combination.one}
    elif not vectors:
        vectors = {b.zeros(b.size(slope)): np.zeros_like(own)}
    coefficients = np.stack([own, constant, *vectors.values()])
    is_plain = len(vectors) == 1 and not own.any() and not constant.any()
    is_plain = is_plain and np.array_equal(coefficients[2], combination.one)
    sources = [b.nodes[vector].args for vector in vectors if b.nodes[vector].op == op.ABS]
    is_absolute = len(sources) == len(vectors) and not is_plain
    is_absolute = is_absolute and (b.input(names[-1]),) not in sources  # a vector is not the point
    numbers = [source for (source,) in sources] if is_absolute else list(vectors)
    # Frozen, so that the builder leaves a vector that is repeated or rearranged in one piece.
    tape = fuse_products(b.finish(b.concatenate([b.freeze(number) for number in numbers])))
    return _Slope(tape, b.size(slope), coefficients, is_plain, is_absolute)


def _without_copies(m: Machinery, slope: _Slope) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Leave out the instruction that copies the vectors together; tells where they are without it."""
    n_vectors, (code, integers) = len(slope.coefficients) - 2, m.portable
    places = m.output + slope.size * np.arange(n_vectors)
    copies = np.flatnonzero((code[:, 0] == op.GATHER) & (code[:, 2] == m.output))
    if n_vectors == 1 or not copies.size:  # one after another already
        return code, places, m.start, m.prefix
    row = int(copies[0])
    held = integers[int(code[row, 3]) + slope.size * np.arange(n_vectors)]
    if np.any(held >= FAR):  # loops look for vectors in the workspace only
        return code, places, m.start, m.prefix
    places = held
    code = np.delete(code, row, axis=0)
    return code, places, m.start - int(row < m.start), m.prefix - int(row < m.prefix)


def _value(b: TapeBuilder, term: Term, parameters: np.ndarray) -> int:
    if term.tape is not None:
        value = _inline(b, term.tape, term.y, parameters)
        if term.less is not None:
            value = b.sub(value, _inline(b, term.tape, term.less, parameters), b.size(value))
        return value
    value = b.input(term.y)
    return value if term.less is None else b.sub(value, b.input(term.less), b.size(value))


def _moved(
    code: np.ndarray,
    integers: np.ndarray,
    vectors: np.ndarray,
    begins: np.ndarray,
    shifts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """The instructions and the places of the vectors for another arrangement of the workspace."""
    order = np.argsort(begins, kind="stable")

    def move(places: np.ndarray) -> np.ndarray:
        part = np.searchsorted(begins[order], places.astype(np.int64), side="right") - 1
        moved = places.astype(np.int64) + shifts[order][part]
        return np.where(places >= FAR, places.astype(np.int64), moved).astype(np.uint64)

    code, integers = code.copy(), integers.copy()
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
        elif opcode not in _ONE_OPERAND:
            raise unknown_instruction(opcode, "the rearrangement of workspaces")
    return code, integers, [int(place) for place in move(vectors)]


def _inline(b: TapeBuilder, tape: Tape, y: str, parameters: np.ndarray) -> int:
    """Emit a tape's nodes with another input in the place of y and numbers in that of p."""
    numbers: list[int] = []
    for node in tape.nodes:
        if node.op == op.INPUT:
            name = tape.input_names[node.data]
            is_fixed = name == "p"
            numbers.append(b.constant(parameters) if is_fixed else b.input(y if name == "y" else name))
        elif node.op == op.CONSTANT:
            numbers.append(b.constant(node.data))
        else:
            args = tuple(numbers[arg] for arg in node.args)
            numbers.append(_emit(b, node.op, args, node.size, node.data))
    return numbers[tape.output]


def _sum(b: TapeBuilder, left: int, right: int, size: int) -> int:
    """The sum of two nodes; numbers are added first, which saves a pass over the vector."""
    for number, vector in ((left, right), (right, left)):
        node = b.nodes[vector]
        if b.size(number) == 1 and node.op == op.ADD and node.size > 1:
            for inner, rest in (node.args, node.args[::-1]):
                if b.size(inner) == 1 and b.size(rest) > 1:
                    return b.add(b.add(number, inner), rest, size)
    return b.add(left, right, size)


def _emit(b: TapeBuilder, opcode: int, args: tuple[int, ...], size: int, data: Any) -> int:
    """Simplify again where the operands allow it."""
    if opcode in op.UNARY:
        return b.unary(opcode, args[0])
    if opcode in op.BINARY:
        if opcode == op.ADD and args[0] == args[1]:  # the two halves of a square's derivative
            return b.mul(b.constant(2.0), args[0], size)
        if opcode == op.ADD:
            return _sum(b, args[0], args[1], size)
        return b.binary(opcode, args[0], args[1], size)
    if opcode == op.SPARSE and data[0].shape[0] == data[0].shape[1]:
        matrix = data[0].csr
        if np.array_equal(matrix.indices, np.arange(matrix.shape[0])) and np.all(matrix.data == 1):
            return args[0]  # the identity
    return b.emit(opcode, args, size, data)
