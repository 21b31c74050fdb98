"""Jacobians entry by entry: the numbers of a fixed pattern as one tape.

The Jacobian of every node follows from those of its operands: a constant matrix times it, or a
diagonal of derivatives times it. Constant factors are multiplied out when the tape is made, so that the
Hessian of ``sum_squares(A @ y - b)`` is A'A, found once, and that of a logistic loss is A'DA with D the
only part that is computed again at each point. Sparse Jacobians cost as much as they have entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.builder import Piece, TapeBuilder
from blomodel.compiler.passes.linearisation import binary_factors, copied, selections, unary_factor
from blomodel.compiler.passes.slopes import (
    Entries,
    Plain,
    SlopeAlgebra,
    Spread,
    Summand,
    multiplied,
    spread_of,
)
from blomodel.compiler.tape import Node, Tape, unknown_instruction
from blomodel.kernels import machine as op


@dataclass(frozen=True, eq=False)
class JacobianEntries:
    """A Jacobian's pattern, column by column, and its numbers: a tape, or constants."""

    shape: tuple[int, int]
    indices: np.ndarray  # row numbers
    indptr: np.ndarray  # where each column begins
    values: Tape | np.ndarray

    def at(self, point: Sequence[np.ndarray]) -> sp.csc_array:
        """The Jacobian at a point, without the entries that are zero there."""
        values = self.values(*point) if isinstance(self.values, Tape) else self.values.copy()
        matrix = sp.csc_array((values, self.indices, self.indptr), shape=self.shape)
        if not values.all():
            matrix = matrix.copy()  # the pattern is shared
            matrix.eliminate_zeros()
        return matrix

    def full_at(self, point: Sequence[np.ndarray]) -> np.ndarray:
        """The same as a plain matrix."""
        values = self.values(*point) if isinstance(self.values, Tape) else self.values
        n_rows, n_columns = self.shape
        if len(values) != n_rows * n_columns:
            return sp.csc_array((values, self.indices, self.indptr), shape=self.shape).toarray()
        return values.reshape(n_columns, n_rows).T.copy()

    @cached_property
    def mask(self) -> sp.csc_array:
        """Ones where an entry may differ from zero."""
        ones = np.ones(len(self.indices))
        return sp.csc_array((ones, self.indices, self.indptr), shape=self.shape)


def jacobian_entries(tape: Tape, names: Sequence[str], most: float = np.inf) -> JacobianEntries:
    """The Jacobian in the named inputs.

    Parameters
    ----------
    names : sequence of str
        The columns are their entries, one input after another.
    most : float
        How many entries may be carried along in all.

    Raises
    ------
    TooManyEntriesError
        When these do not suffice.
    """
    return _Accumulation(tape, names, most).result()


class _Accumulation:
    """Carries the Jacobian of each node through the tape, as a sum of matrices."""

    def __init__(self, tape: Tape, names: Sequence[str], most: float) -> None:
        self.tape = tape
        self.b = TapeBuilder(tape.input_names, tape.input_sizes)
        self.numbers, self.active = copied(tape, self.b, tuple(names))
        sizes = [tape.input_size(name) for name in names]
        self.width = sum(sizes)
        self.algebra = SlopeAlgebra(self.b, self.width, most)
        self.begins = dict(zip(names, map(int, np.cumsum([0, *sizes])), strict=False))

    def result(self) -> JacobianEntries:
        tape = self.tape
        uses = np.bincount([arg for node in tape.nodes for arg in node.args] or [0])
        slopes: list[list[Summand]] = []
        for position, node in enumerate(tape.nodes):
            if not self.active[position]:
                slopes.append([])
                continue
            own = self._node(position, node, [slopes[arg] for arg in node.args])
            is_shared = position < len(uses) and uses[position] > 1
            slopes.append(self.algebra.added(own) if is_shared and len(own) > 1 else own)
        return self._assembled(slopes[tape.output])

    # -- one node ----------------------------------------------------------------------------

    def _node(self, position: int, node: Node, inner: list[list[Summand]]) -> list[Summand]:
        b, out = self.b, self.numbers[position]
        args = tuple(self.numbers[arg] for arg in node.args)
        if node.op == op.INPUT:
            where = np.arange(node.size)
            begin = self.begins[self.tape.input_names[node.data]]
            return [Entries(node.size, where, begin + where, np.ones(node.size))]
        if node.op in op.UNARY:
            return self.algebra.scaled(inner[0], unary_factor(b, node.op, args[0], out), node.size)
        if node.op in op.BINARY:
            left, right = binary_factors(b, node.op, args[0], args[1], out)
            return self.algebra.scaled(inner[0], left, node.size) + self.algebra.scaled(
                inner[1], right, node.size
            )
        if node.op == op.SELECT:
            here, found = Node(node.op, args, node.size, node.data), list[Summand]()
            for selection, slopes in zip(selections(b, here), inner, strict=True):
                if slopes:
                    spread = Spread(selection.source, selection.target, None, node.size)
                    found += self.algebra.mapped(slopes, spread)
            return found
        if node.op == op.FILL:
            return self.algebra.repeated(inner[0], node.size)
        if node.op == op.MATMUL:
            return self._matmul(node, args, inner)
        if node.op == op.SPARSE:
            matrix, columns = node.data
            whole = matrix.csr if columns == 1 else sp.kron(sp.eye_array(columns), matrix.csr)
            return self.algebra.mapped(inner[0], spread_of(whole))
        if node.op in (op.FIRST_MAX, op.LARGEST, op.FREEZE):
            return []  # masks are flat, what is frozen counts as constant
        if node.op in op.SEGMENTS:
            return self._segments(node, args[0], out, inner[0])
        raise unknown_instruction(node.op, "the entries of Jacobians")

    def _segments(self, node: Node, x: int, out: int, slopes: list[Summand]) -> list[Summand]:
        b, (count, length, k) = self.b, node.data
        if node.op == op.CUMSUM:
            lower = sp.csr_array(np.tril(np.ones((length, length))))
            return self.algebra.mapped(
                slopes, spread_of(sp.kron(sp.eye_array(count), lower.T if k else lower))
            )
        if node.op == op.SEGMENT_MAX:
            slopes = self.algebra.scaled(slopes, b.segments(op.FIRST_MAX, x, length), count * length)
        elif node.op == op.NORM:
            direction = b.binary(op.SAFE_DIV, x, b.repeat(out, length), b.size(x))
            slopes = self.algebra.scaled(slopes, direction, count * length)
        elif node.op != op.SUM:
            raise unknown_instruction(node.op, "the entries of Jacobians")
        source = np.arange(count * length)
        return self.algebra.mapped(slopes, Spread(source, source // length, None, count))

    def _matmul(self, node: Node, args: tuple[int, ...], inner: list[list[Summand]]) -> list[Summand]:
        found = list[Summand]()
        m, k, n, transposed = node.data
        as_left = partial(_laid_out, shape=(m, k), is_transposed=transposed % 2 == 1)
        as_right = partial(_laid_out, shape=(k, n), is_transposed=transposed >= 2)
        for side, other in ((0, 1), (1, 0)):
            if not inner[side]:
                continue
            slopes = self.algebra.added(inner[side])
            numbers = self.algebra.constant(args[other])
            if numbers is not None and ((side == 1 and n == 1) or (side == 0 and m == 1)):
                matrix = as_left(numbers) if side == 1 else as_right(numbers).T
                found += [part for slope in slopes for part in self.algebra.times(matrix, slope)]
                continue
            # Where the entries of both operands lie in them.
            left, right = as_left(np.arange(m * k)), as_right(np.arange(k * n))
            for slope in slopes:
                if numbers is None:
                    found.append(self._product(slope, args[other], side, left, right))
                else:
                    found += self.algebra.mapped([slope], self._pairs(slope, numbers, side, left, right))
        return found

    def _pairs(
        self, slope: Summand, numbers: np.ndarray, side: int, left: np.ndarray, right: np.ndarray
    ) -> Spread:
        """The map from the entries of one operand to those of the product with a constant one."""
        self.algebra.ask(_n_meetings(slope, numbers, side, left, right))
        source, target, taken = _meetings(np.arange(slope.n_rows), side, left, right)
        factor = numbers[taken]
        keep = factor != 0
        size = left.shape[0] * right.shape[1]
        return Spread(source[keep], target[keep], factor[keep], size)

    def _product(
        self, slope: Summand, factor: int, side: int, left: np.ndarray, right: np.ndarray
    ) -> Summand:
        """A summand of one operand's Jacobian times the other operand, which is not constant."""
        b, (m, k), n = self.b, left.shape, right.shape[1]
        if isinstance(slope, Plain) and side == 1 and n == 1:
            self.algebra.spend(m * self.width)
            is_transposed = m > 1 and k > 1 and left[0, 1] == 1
            values = self.algebra.node_of(slope)
            values = b.matmul(factor, values, m, k, self.width, is_transposed)
            return Plain(m, values, slope.scale)
        entries = self.algebra.by_entry(slope)
        self.algebra.spend(len(entries.rows) * (n if side == 0 else m))
        which, target, taken = _meetings(entries.rows, side, left, right)
        values = b.mul(
            self.algebra.take(factor, taken),
            self.algebra.take(self.algebra.node_of(entries), which),
            len(which),
        )
        return self.algebra.summed(Entries(m * n, target, entries.columns[which], values, slope.scale))

    # -- the result --------------------------------------------------------------------------

    def _assembled(self, slopes: list[Summand]) -> JacobianEntries:
        n_rows, width = self.tape.n_outputs, self.width
        if any(isinstance(slope, Plain) for slope in slopes):
            indices = np.tile(np.arange(n_rows, dtype=np.int32), width)
            indptr = n_rows * np.arange(width + 1, dtype=np.int32)
            places = None
        else:
            parts = [slope for slope in slopes if isinstance(slope, Entries)]
            keys = [part.rows + n_rows * part.columns for part in parts]
            places = np.unique(np.concatenate([np.zeros(0, int), *keys]))
            indices = (places % n_rows).astype(np.int32)
            indptr = np.searchsorted(places, n_rows * np.arange(width + 1)).astype(np.int32)
        values = self._total(slopes, places, len(indices))
        return JacobianEntries((n_rows, width), indices, indptr, values)

    def _total(self, slopes: list[Summand], places: np.ndarray | None, size: int) -> Tape | np.ndarray:
        """The sum of all summands, laid out as the result; ``places`` of None is a plain matrix."""
        b, n_rows = self.b, self.tape.n_outputs
        constant, total, pieces = np.zeros(size), None, list[Piece]()
        for slope in self.algebra.added(slopes):
            if isinstance(slope, Plain):
                where = None
            elif places is None:
                where = slope.rows + n_rows * slope.columns
            else:
                where = np.searchsorted(places, slope.rows + n_rows * slope.columns)
            if isinstance(slope.values, np.ndarray) and slope.scale is None:
                flat = multiplied(slope).ravel(order="F")
                constant += flat if where is None else np.bincount(where, flat, size)
                continue
            values = self.algebra.node_of(slope)
            if slope.scale is not None:
                values = b.mul(slope.scale, values, b.size(values))
            if where is None:
                total = values if total is None else b.add(total, values, size)
            else:
                pieces.append((values, np.arange(len(where)), where))
        if pieces:
            values = b.select(size, pieces)
            total = values if total is None else b.add(total, values, size)
        if total is None:
            return constant
        return b.finish(b.add(total, b.constant(constant), size) if constant.any() else total)


def _meetings(
    entries: np.ndarray, side: int, left: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which entries of one operand enter which entries of a product, with which of the other operand.

    ``left`` and ``right`` tell where the operands' entries lie.
    """
    own, (m, n) = (left, right)[side], (left.shape[0], right.shape[1])
    where = np.empty(own.size, dtype=np.int64)
    where[own.ravel()] = np.arange(own.size)
    first, second = np.divmod(where[entries], own.shape[1])
    times = n if side == 0 else m
    which = np.repeat(np.arange(len(entries)), times)
    running = np.tile(np.arange(times), len(entries))
    if side == 0:  # entry (i, r) on the left meets row r on the right
        return which, first[which] + m * running, right[second[which], running]
    return which, running + m * second[which], left[running, first[which]]


def _n_meetings(
    slope: Summand, numbers: np.ndarray, side: int, left: np.ndarray, right: np.ndarray
) -> int:
    """How many entries a Jacobian has after a product with a constant, found without making any."""
    if isinstance(slope, Plain):
        return 0  # such a product is counted by its matrix
    own, axis = (left, right)[side], 1 - side
    lengths = np.count_nonzero(numbers[(right, left)[side]], axis=axis)
    met = np.empty(own.size, dtype=np.int64)
    met[own.ravel()] = np.broadcast_to(lengths if side == 0 else lengths[:, None], own.shape).ravel()
    return int(met[slope.rows].sum())


def _laid_out(flat: np.ndarray, shape: tuple[int, int], is_transposed: bool) -> np.ndarray:
    """A matrix that is stored column by column, or row by row where it is stored transposed."""
    return flat.reshape(shape, order="C" if is_transposed else "F")
