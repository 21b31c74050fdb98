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
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.builder import Piece, TapeBuilder
from blomodel.compiler.passes.linearisation import binary_factors, copied, selections, unary_factor
from blomodel.compiler.tape import Node, SparseMatrix, Tape, unknown_instruction
from blomodel.kernels import machine as op

_PLAIN_FROM = 10_000  # entries of a matrix from which it may be kept as a plain array
_FULL = 0.3  # share of nonzeros from which that is done


class TooManyEntriesError(Exception):
    """More entries than allowed would have to be carried along."""


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

    @cached_property
    def mask(self) -> sp.csc_array:
        """Ones where an entry may differ from zero."""
        ones = np.ones(len(self.indices))
        return sp.csc_array((ones, self.indices, self.indptr), shape=self.shape)


class _Entries(NamedTuple):
    """A matrix by entries; the numbers are constants or a node, all times another node of one number."""

    n_rows: int
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray | int
    scale: int | None = None


class _Plain(NamedTuple):
    """A plain matrix, column by column; the numbers are constants (in two dimensions) or a node."""

    n_rows: int
    values: np.ndarray | int
    scale: int | None = None


Summand = _Entries | _Plain


class _Spread(NamedTuple):
    """A linear map of rows: entry ``source`` of the old rows goes to ``target`` with a factor."""

    source: np.ndarray
    target: np.ndarray
    factor: np.ndarray | None  # None: ones
    n_rows: int


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
        self.tape, self.most, self.spent = tape, most, 0.0
        self.b = TapeBuilder(tape.input_names, tape.input_sizes)
        self.numbers, self.active = copied(tape, self.b, tuple(names))
        sizes = [tape.input_size(name) for name in names]
        self.width = sum(sizes)
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
            slopes.append(self._added(own) if is_shared and len(own) > 1 else own)
        return self._assembled(slopes[tape.output])

    def _spend(self, count: float) -> None:
        self.spent += count
        if self.spent > self.most:
            raise TooManyEntriesError

    # -- one node ----------------------------------------------------------------------------

    def _node(self, position: int, node: Node, inner: list[list[Summand]]) -> list[Summand]:
        b, out = self.b, self.numbers[position]
        args = tuple(self.numbers[arg] for arg in node.args)
        if node.op == op.INPUT:
            where = np.arange(node.size)
            begin = self.begins[self.tape.input_names[node.data]]
            return [_Entries(node.size, where, begin + where, np.ones(node.size))]
        if node.op in op.UNARY:
            return self._scaled(inner[0], unary_factor(b, node.op, args[0], out), node.size)
        if node.op in op.BINARY:
            left, right = binary_factors(b, node.op, args[0], args[1], out)
            return self._scaled(inner[0], left, node.size) + self._scaled(inner[1], right, node.size)
        if node.op == op.SELECT:
            here, found = Node(node.op, args, node.size, node.data), list[Summand]()
            for selection, slopes in zip(selections(b, here), inner, strict=True):
                if slopes:
                    spread = _Spread(selection.source, selection.target, None, node.size)
                    found += self._mapped(slopes, spread)
            return found
        if node.op == op.FILL:
            return self._repeated(inner[0], node.size)
        if node.op == op.MATMUL:
            return self._matmul(node, args, inner)
        if node.op == op.SPARSE:
            matrix, columns = node.data
            whole = matrix.csr if columns == 1 else sp.kron(sp.eye_array(columns), matrix.csr)
            return self._mapped(inner[0], _spread_of(whole))
        if node.op in (op.FIRST_MAX, op.LARGEST, op.FREEZE):
            return []  # masks are flat, what is frozen counts as constant
        if node.op in op.SEGMENTS:
            return self._segments(node, args[0], out, inner[0])
        raise unknown_instruction(node.op, "the entries of Jacobians")

    def _segments(self, node: Node, x: int, out: int, slopes: list[Summand]) -> list[Summand]:
        b, (count, length, k) = self.b, node.data
        if node.op == op.CUMSUM:
            lower = sp.csr_array(np.tril(np.ones((length, length))))
            return self._mapped(
                slopes, _spread_of(sp.kron(sp.eye_array(count), lower.T if k else lower))
            )
        if node.op == op.SEGMENT_MAX:
            slopes = self._scaled(slopes, b.segments(op.FIRST_MAX, x, length), count * length)
        elif node.op == op.NORM:
            direction = b.binary(op.SAFE_DIV, x, b.repeat(out, length), b.size(x))
            slopes = self._scaled(slopes, direction, count * length)
        elif node.op != op.SUM:
            raise unknown_instruction(node.op, "the entries of Jacobians")
        source = np.arange(count * length)
        return self._mapped(slopes, _Spread(source, source // length, None, count))

    def _matmul(self, node: Node, args: tuple[int, ...], inner: list[list[Summand]]) -> list[Summand]:
        found = list[Summand]()
        m, k, n, transposed = node.data
        as_left = partial(_laid_out, shape=(m, k), is_transposed=transposed % 2 == 1)
        as_right = partial(_laid_out, shape=(k, n), is_transposed=transposed >= 2)
        for side, other in ((0, 1), (1, 0)):
            if not inner[side]:
                continue
            slopes = self._added(inner[side])
            numbers = self._constant(args[other])
            if numbers is not None and ((side == 1 and n == 1) or (side == 0 and m == 1)):
                matrix = as_left(numbers) if side == 1 else as_right(numbers).T
                found += [part for slope in slopes for part in self._times(matrix, slope)]
                continue
            # Where the entries of both operands lie in them.
            left, right = as_left(np.arange(m * k)), as_right(np.arange(k * n))
            for slope in slopes:
                if numbers is None:
                    found.append(self._product(slope, args[other], side, left, right))
                else:
                    found += self._mapped([slope], self._pairs(slope, numbers, side, left, right))
        return found

    def _constant(self, number: int) -> np.ndarray | None:
        value = self.b.scalar_value(number)
        if value is not None:
            return np.full(self.b.size(number), value)
        return self.b.nodes[number].data if self.b.is_constant(number) else None

    def _pairs(
        self, slope: Summand, numbers: np.ndarray, side: int, left: np.ndarray, right: np.ndarray
    ) -> _Spread:
        """The map from the entries of one operand to those of the product with a constant one."""
        source, target, taken = _meetings(np.arange(slope.n_rows), side, left, right)
        factor = numbers[taken]
        keep = factor != 0
        size = left.shape[0] * right.shape[1]
        return _Spread(source[keep], target[keep], factor[keep], size)

    def _product(
        self, slope: Summand, factor: int, side: int, left: np.ndarray, right: np.ndarray
    ) -> Summand:
        """A summand of one operand's Jacobian times the other operand, which is not constant."""
        b, (m, k), n = self.b, left.shape, right.shape[1]
        if isinstance(slope, _Plain) and side == 1 and n == 1:
            self._spend(m * self.width)
            is_transposed = m > 1 and k > 1 and left[0, 1] == 1
            values = self._node_of(slope)
            values = b.matmul(factor, values, m, k, self.width, is_transposed)
            return _Plain(m, values, slope.scale)
        entries = self._by_entry(slope)
        self._spend(len(entries.rows) * (n if side == 0 else m))
        which, target, taken = _meetings(entries.rows, side, left, right)
        values = b.mul(self._take(factor, taken), self._take(self._node_of(entries), which), len(which))
        return self._summed(_Entries(m * n, target, entries.columns[which], values, slope.scale))

    # -- what is done to Jacobians -----------------------------------------------------------

    def _node_of(self, slope: Summand) -> int:
        """The numbers as a node, without the scale."""
        return slope.values if isinstance(slope.values, int) else self.b.constant(slope.values)

    def _take(self, number: int, source: np.ndarray) -> int:
        """Elements of a node, without the builder's search for a simpler way: slow on millions."""
        b = self.b
        if b.size(number) == 1:
            return b.fill(number, len(source))
        if b.nodes[number].op == op.FILL:
            return b.fill(b.nodes[number].args[0], len(source))
        if len(source) == b.size(number) and np.array_equal(source, np.arange(len(source))):
            return number
        return b.emit(op.SELECT, (number,), len(source), (source, None))

    def _by_entry(self, slope: Summand) -> _Entries:
        if isinstance(slope, _Entries):
            return slope
        rows = np.tile(np.arange(slope.n_rows), self.width)
        columns = np.repeat(np.arange(self.width), slope.n_rows)
        values = slope.values if isinstance(slope.values, int) else slope.values.ravel(order="F")
        return _Entries(slope.n_rows, rows, columns, values, slope.scale)

    def _as_plain(self, slope: Summand) -> _Plain:
        if isinstance(slope, _Plain):
            return slope
        size = slope.n_rows * self.width
        place = slope.rows + slope.n_rows * slope.columns
        if isinstance(slope.values, int):
            data = (np.arange(len(place)), place)
            number = self.b.emit(op.SELECT, (slope.values,), size, data)
            return _Plain(slope.n_rows, number, slope.scale)
        flat = np.bincount(place, slope.values, size)
        values = flat.reshape((slope.n_rows, self.width), order="F")
        return _Plain(slope.n_rows, values, slope.scale)

    def _repeated(self, slopes: list[Summand], size: int) -> list[Summand]:
        spread = _Spread(np.zeros(size, dtype=np.int64), np.arange(size), None, size)
        return self._mapped(slopes, spread)

    def _scaled(self, slopes: list[Summand], factor: int | None, size: int) -> list[Summand]:
        """A diagonal matrix times a Jacobian, which may be that of one number for all rows."""
        if factor is None or not slopes or self.b.scalar_value(factor) == 0.0:
            return []
        if self.b.scalar_value(factor) == 1.0 and slopes[0].n_rows == size:
            return slopes
        if slopes[0].n_rows == 1 and size > 1:
            slopes = self._repeated(slopes, size)
        return [self._scaled_one(slope, factor) for slope in slopes]

    def _scaled_one(self, slope: Summand, factor: int) -> Summand:
        b, numbers = self.b, self._constant(factor)
        if numbers is not None and not isinstance(slope.values, int):
            if isinstance(slope, _Plain):
                return slope._replace(values=numbers.reshape(-1, 1) * slope.values)
            own = numbers if numbers.size == 1 else numbers[slope.rows]
            return slope._replace(values=own * slope.values)
        if b.nodes[factor].op == op.FILL:
            factor = b.nodes[factor].args[0]
        if b.size(factor) == 1:  # stays outside, so that products of constants remain such
            scale = factor if slope.scale is None else b.mul(factor, slope.scale)
            return slope._replace(scale=scale)
        count = slope.n_rows * self.width if isinstance(slope, _Plain) else len(slope.rows)
        self._spend(count)
        factor = self._take(factor, self._by_entry(slope).rows)
        return slope._replace(values=b.mul(factor, self._node_of(slope), count))

    def _times(self, matrix: np.ndarray, slope: Summand) -> list[Summand]:
        """A constant plain matrix times a Jacobian."""
        m, k = matrix.shape
        touched = self.width if isinstance(slope, _Plain) else np.unique(slope.columns).size
        is_plain = m * self.width >= _PLAIN_FROM and touched >= _FULL * self.width
        if is_plain and isinstance(slope, _Entries) and isinstance(slope.values, int):
            is_plain = len(slope.rows) >= _FULL * k * self.width
        if not is_plain:
            target, source = np.nonzero(matrix)
            return self._mapped([slope], _Spread(source, target, matrix[target, source], m))
        self._spend(m * self.width)
        if isinstance(slope.values, int):
            values = self._node_of(self._as_plain(slope))
            flat = self.b.constant(matrix.ravel(order="F"))
            return [_Plain(m, self.b.matmul(flat, values, m, k, self.width), slope.scale)]
        if isinstance(slope, _Plain):
            return [_Plain(m, matrix @ slope.values, slope.scale)]
        inner = sp.csc_array((slope.values, (slope.rows, slope.columns)), (k, self.width))
        return [_Plain(m, np.asarray((inner.T @ matrix.T).T), slope.scale)]

    def _mapped(self, slopes: list[Summand], spread: _Spread) -> list[Summand]:
        return [self._mapped_one(slope, spread) for slope in slopes]

    def _mapped_one(self, slope: Summand, spread: _Spread) -> Summand:
        source, target, factor, n_rows = spread
        if isinstance(slope, _Plain):
            data = np.ones(len(source)) if factor is None else factor
            matrix = sp.csr_array((data, (target, source)), (n_rows, slope.n_rows))
            self._spend(matrix.nnz * self.width)
            if isinstance(slope.values, int):
                product = self.b.sparse(SparseMatrix(matrix), slope.values, self.width)
                return _Plain(n_rows, product, slope.scale)
            return _Plain(n_rows, matrix @ slope.values, slope.scale)
        # Each entry goes wherever its row goes: the rows' targets lie one after another.
        is_sorted = len(source) < 2 or bool((source[1:] >= source[:-1]).all())
        order = np.arange(len(source)) if is_sorted else np.argsort(source, kind="stable")
        begins = np.searchsorted(source[order], np.arange(slope.n_rows + 1))
        counts = np.diff(begins)[slope.rows]
        total = int(counts.sum())
        self._spend(total)
        which = np.repeat(np.arange(len(counts)), counts)
        ends = np.cumsum(counts)
        place = order[np.arange(total) - np.repeat(ends - counts, counts) + begins[slope.rows][which]]
        rows, columns = target[place], slope.columns[which]
        if not isinstance(slope.values, int):
            values = slope.values[which] if factor is None else slope.values[which] * factor[place]
            return self._summed(_Entries(n_rows, rows, columns, values, slope.scale))
        if factor is None:
            number = self._take(slope.values, which)
            return self._summed(_Entries(n_rows, rows, columns, number, slope.scale))
        inverse, rows, columns = _distinct(n_rows, rows, columns)
        shape = (len(rows), self.b.size(slope.values))
        gathering = SparseMatrix(sp.csr_array((factor[place], (inverse, which)), shape))
        return _Entries(n_rows, rows, columns, self.b.sparse(gathering, slope.values), slope.scale)

    def _summed(self, slope: _Entries) -> _Entries:
        """Entries at the same place added up."""
        inverse, rows, columns = _distinct(slope.n_rows, slope.rows, slope.columns)
        if len(rows) == len(slope.rows):
            return slope
        if isinstance(slope.values, int):
            data = (np.arange(len(inverse)), inverse)
            values: int | np.ndarray = self.b.emit(op.SELECT, (slope.values,), len(rows), data)
        else:
            values = np.bincount(inverse, slope.values, len(rows))
        return _Entries(slope.n_rows, rows, columns, values, slope.scale)

    def _added(self, slopes: list[Summand]) -> list[Summand]:
        """The same sum with as few matrices as there are scales, constant ones and others."""
        if len(slopes) <= 1:
            return slopes
        groups: dict[tuple[int | None, bool], list[Summand]] = {}
        for slope in slopes:
            groups.setdefault((slope.scale, isinstance(slope.values, int)), []).append(slope)
        return [
            group[0] if len(group) == 1 else self._sum(group, is_node)._replace(scale=scale)
            for (scale, is_node), group in groups.items()
        ]

    def _sum(self, slopes: list[Summand], is_node: bool) -> Summand:
        """The sum of constant matrices, or of others; what their scale is counts for nothing."""
        n_rows = slopes[0].n_rows
        if any(isinstance(slope, _Plain) for slope in slopes):
            parts: list[Summand] = [slope for slope in slopes if isinstance(slope, _Entries)]
            plain = [slope for slope in slopes if isinstance(slope, _Plain)]
            if parts:
                plain.append(self._as_plain(parts[0] if len(parts) == 1 else self._sum(parts, is_node)))
            total = plain[0].values
            for slope in plain[1:]:
                if isinstance(total, int) and isinstance(slope.values, int):
                    total = self.b.add(total, slope.values, n_rows * self.width)
                else:
                    total = total + slope.values
            return _Plain(n_rows, total)
        entries = [slope for slope in slopes if isinstance(slope, _Entries)]
        rows = np.concatenate([slope.rows for slope in entries])
        columns = np.concatenate([slope.columns for slope in entries])
        if not is_node:
            values = np.concatenate([slope.values for slope in entries])
            return self._summed(_Entries(n_rows, rows, columns, values))
        inverse, rows, columns = _distinct(n_rows, rows, columns)
        ends = np.cumsum([len(slope.rows) for slope in entries])
        pieces = [
            (self._node_of(slope), np.arange(len(slope.rows)), inverse[end - len(slope.rows) : end])
            for slope, end in zip(entries, ends, strict=True)
        ]
        return _Entries(n_rows, rows, columns, self.b.select(len(rows), pieces))

    # -- the result --------------------------------------------------------------------------

    def _assembled(self, slopes: list[Summand]) -> JacobianEntries:
        n_rows, width = self.tape.n_outputs, self.width
        if any(isinstance(slope, _Plain) for slope in slopes):
            indices = np.tile(np.arange(n_rows, dtype=np.int32), width)
            indptr = n_rows * np.arange(width + 1, dtype=np.int32)
            places = None
        else:
            parts = [slope for slope in slopes if isinstance(slope, _Entries)]
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
        for slope in self._added(slopes):
            if isinstance(slope, _Plain):
                where = None
            elif places is None:
                where = slope.rows + n_rows * slope.columns
            else:
                where = np.searchsorted(places, slope.rows + n_rows * slope.columns)
            if isinstance(slope.values, np.ndarray) and slope.scale is None:
                flat = slope.values.ravel(order="F")
                constant += flat if where is None else np.bincount(where, flat, size)
                continue
            values = self._node_of(slope)
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


def _spread_of(matrix: sp.sparray) -> _Spread:
    entries = sp.coo_array(matrix)
    return _Spread(entries.col, entries.row, entries.data, entries.shape[0])


def _distinct(
    n_rows: int, rows: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The number of each entry's place among the distinct places, and these."""
    places, inverse = np.unique(rows + n_rows * columns.astype(np.int64), return_inverse=True)
    return inverse, places % n_rows, places // n_rows


def _laid_out(flat: np.ndarray, shape: tuple[int, int], is_transposed: bool) -> np.ndarray:
    """A matrix that is stored column by column, or row by row where it is stored transposed."""
    return flat.reshape(shape, order="C" if is_transposed else "F")
