"""The Jacobian of a tape as a tape: its nonzero numbers, at positions that do not depend on the point.

Running a derivative tape once for each column costs the square of the size. Here the derivative of each
node is carried through the tape as a sparse matrix, whose positions are known when it is built. What
is constant is multiplied out then, and only the entries that move become instructions. One run of the
resulting tape gives all nonzeros, which is what a nonlinear solver asks for hundreds of times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.passes.derivatives import _binary_factors, _unary_factor
from blomodel.compiler.tape import Node, SparseMatrix, Tape, unknown_instruction
from blomodel.kernels import machine as op

Array = np.ndarray
_DENSE_SHARE = 0.1  # of nonzeros, above which a product of constant matrices is taken densely
_FLAT = (op.FIRST_MAX, op.LARGEST, op.FREEZE, op.SIGN, op.GREATER_EQUAL)


class TooLargeError(Exception):
    """The entries of a Jacobian would not fit into memory, or into the time that is left."""


@dataclass(frozen=True, eq=False)
class SparseJacobian:
    """A Jacobian whose positions are fixed.

    Attributes
    ----------
    rows, columns : arrays
        Where entries may differ from zero; no position twice.
    values : Tape
        The entries at a point, in this order.
    shape : tuple of int
    """

    rows: Array
    columns: Array
    values: Tape
    shape: tuple[int, int]

    def at(self, *point: Array) -> sp.csr_array:
        """The matrix at a point."""
        return sp.csr_array((self.values(*point), (self.rows, self.columns)), shape=self.shape)


def sparse_jacobian(
    tape: Tape,
    wrt: Sequence[str],
    *,
    only_lower_triangle: bool = False,
    deadline: Deadline = NEVER,
) -> SparseJacobian:
    """The Jacobian in the named blocks, one block after another, with positions fixed once.

    Parameters
    ----------
    tape : Tape
    wrt : sequence of str
    only_lower_triangle : bool
        Whether entries above the diagonal are left out, for a matrix that is symmetric.
    deadline : Deadline

    Raises
    ------
    TooLargeError
        Where the entries would not fit into memory, or the deadline came first.
    """
    return _Accumulation(tape, tuple(wrt), deadline).result(only_lower_triangle)


@dataclass(frozen=True, eq=False)
class _Slope:
    """The derivative of one node: positions sorted by row, and numbers or the node that holds them."""

    rows: Array
    columns: Array
    values: Array | int

    @property
    def size(self) -> int:
        return len(self.rows)

    def entries_of(self, wanted: Array, n_rows: int) -> tuple[Array, Array]:
        """For a list of rows: the entries of all of them, and for each entry its place in the list."""
        starts = np.searchsorted(self.rows, np.arange(n_rows + 1))
        counts = np.diff(starts)[wanted]
        return _ranges(starts[:-1][wanted], counts), np.repeat(np.arange(len(wanted)), counts)


@dataclass(frozen=True, eq=False)
class _Share:
    """What an operand adds: entries of its slope, times a factor, in rows of the result.

    The factor is made of numbers, or of elements of a node.
    """

    slope: _Slope
    entries: Array
    rows: Array
    factor: Array | tuple[int, Array]

    @property
    def columns(self) -> Array:
        return self.slope.columns[self.entries]

    @property
    def numbers(self) -> Array | None:
        """The products, where they are known now."""
        if isinstance(self.factor, tuple) or isinstance(self.slope.values, int):
            return None
        return self.factor * self.slope.values[self.entries]


class _Accumulation:
    """Slopes of all nodes of a tape, in forward order."""

    def __init__(self, tape: Tape, wrt: tuple[str, ...], deadline: Deadline) -> None:
        self.tape, self.wrt, self.deadline = tape, wrt, deadline
        self.b = TapeBuilder(tape.input_names, tape.input_sizes)
        sizes = [tape.input_size(name) for name in wrt]
        self.begins = dict(zip(wrt, map(int, np.cumsum([0, *sizes])), strict=False))
        self.width = sum(sizes)
        self.work = 0

    def result(self, only_lower_triangle: bool) -> SparseJacobian:
        tape, b = self.tape, self.b
        numbers: list[int] = []
        slopes: list[_Slope | None] = []
        last_use = _last_uses(tape)
        for position, node in enumerate(tape.nodes):
            args = tuple(numbers[arg] for arg in node.args)
            number = b.emit(node.op, args, node.size, node.data)
            numbers.append(number)
            here = Node(node.op, args, node.size, node.data)
            slopes.append(self._slope(here, number, [slopes[arg] for arg in node.args]))
            for arg in node.args:
                if last_use[arg] == position:
                    slopes[arg] = None  # it may be large, and nobody asks again
        slope = slopes[tape.output]
        shape = (tape.n_outputs, self.width)
        if slope is None:
            slope = _Slope(np.empty(0, int), np.empty(0, int), np.empty(0))
        if only_lower_triangle:
            kept = np.flatnonzero(slope.rows >= slope.columns)
            values = slope.values
            values = b.gather(values, kept) if isinstance(values, int) else values[kept]
            slope = _Slope(slope.rows[kept], slope.columns[kept], values)
        return SparseJacobian(slope.rows, slope.columns, b.finish(self._as_node(slope)), shape)

    def _as_node(self, slope: _Slope) -> int:
        return slope.values if isinstance(slope.values, int) else self.b.constant(slope.values)

    def _slope(self, node: Node, out: int, inner: list[_Slope | None]) -> _Slope | None:
        b = self.b
        if node.op == op.INPUT:
            name = self.tape.input_names[node.data]
            if name not in self.begins or not node.size:
                return None
            where = np.arange(node.size)
            return _Slope(where, self.begins[name] + where, np.ones(node.size))
        if all(part is None for part in inner) or node.op in _FLAT:
            return None
        shares: list[_Share] = []
        if node.op in op.UNARY:
            factors: Sequence[int | None] = [_unary_factor(b, node.op, node.args[0], out)]
            shares = self._elementwise(node, inner, factors)
        elif node.op in op.BINARY:
            left, right = node.args
            factors = _binary_factors(b, node.op, left, right, out)
            shares = self._elementwise(node, inner, factors)
        elif node.op == op.SELECT:
            shares = self._selected(node, inner)
        elif node.op == op.MATMUL:
            return self._matmul(node, inner)
        elif inner[0] is not None:
            slope = inner[0]
            if node.op == op.SPARSE:
                matrix, columns = node.data
                return self._times_matrix(matrix.csr, slope, columns)
            if node.op == op.CUMSUM:
                count, length, k = node.data
                run = np.triu(np.ones((length, length))) if k else np.tril(np.ones((length, length)))
                return self._times_matrix(sp.csr_array(run), slope, count)
            shares = [self._of_runs(node, out, slope)]
        return self._total(shares)

    # What the operands of each instruction add

    def _elementwise(
        self, node: Node, inner: list[_Slope | None], factors: Sequence[int | None]
    ) -> list[_Share]:
        shares = []
        for arg, slope, factor in zip(node.args, inner, factors, strict=True):
            if slope is None or factor is None:
                continue
            if self.b.size(arg) == node.size:
                entries, rows = np.arange(slope.size), slope.rows
            else:  # one number that is repeated
                entries = np.tile(np.arange(slope.size), node.size)
                rows = np.repeat(np.arange(node.size), slope.size)
            shares.append(_Share(slope, entries, rows, self._factor(factor, rows)))
        return shares

    def _factor(self, number: int, where: Array) -> Array | tuple[int, Array]:
        value = self.b.scalar_value(number)
        if value is not None:
            return np.full(len(where), value)
        if self.b.size(number) == 1:
            return number, np.zeros(len(where), int)
        if self.b.is_constant(number):
            return self.b.nodes[number].data[where]
        return number, where

    def _selected(self, node: Node, inner: list[_Slope | None]) -> list[_Share]:
        source, target = node.data
        target = np.arange(node.size) if target is None else target
        sizes = [self.b.size(arg) for arg in node.args]
        ends = np.cumsum(sizes)
        part = np.searchsorted(ends, source, side="right")
        shares = []
        for k, slope in enumerate(inner):
            chosen = np.flatnonzero(part == k)
            if slope is None or not len(chosen):
                continue
            entries, place = slope.entries_of(source[chosen] - (ends[k] - sizes[k]), sizes[k])
            shares.append(_Share(slope, entries, target[chosen][place], np.ones(len(entries))))
        return shares

    def _of_runs(self, node: Node, out: int, slope: _Slope) -> _Share:
        b, x = self.b, node.args[0]
        everything = np.arange(slope.size)
        if node.op == op.FILL:
            entries = np.tile(everything, node.size)
            rows = np.repeat(np.arange(node.size), slope.size)
            return _Share(slope, entries, rows, np.ones(len(rows)))
        if node.op not in op.SEGMENTS:
            raise unknown_instruction(node.op, "the sparse Jacobian")
        _, length, _ = node.data
        rows = slope.rows // length
        if node.op == op.SUM:
            return _Share(slope, everything, rows, np.ones(slope.size))
        if node.op == op.SEGMENT_MAX:
            weights = b.segments(op.FIRST_MAX, x, length)
        elif node.op == op.NORM:
            weights = b.binary(op.SAFE_DIV, x, b.repeat(out, length), b.size(x))
        else:
            raise unknown_instruction(node.op, "the sparse Jacobian")
        return _Share(slope, everything, rows, self._factor(weights, slope.rows))

    def _matmul(self, node: Node, inner: list[_Slope | None]) -> _Slope | None:
        """Entry (i, j) of the product holds the entries (i, l) of the left and (l, j) of the right."""
        m, k, n, transposed = node.data
        left, right = inner
        x, y = node.args
        i_l, l_j = np.arange(m * k), np.arange(k * n)
        # Places of the entries, of which matrices are stored column by column, perhaps transposed.
        x_at = i_l.reshape(m, k) if transposed % 2 else i_l.reshape(k, m).T
        y_at = l_j.reshape(k, n) if transposed >= 2 else l_j.reshape(n, k).T
        if right is not None and left is None and self.b.is_constant(x):
            matrix = sp.csr_array(self.b.nodes[x].data[x_at])
            return self._times_matrix(matrix, self._reordered(right, y_at), n)
        shares = []
        if left is not None:
            row_of, l_of = np.empty(m * k, int), np.empty(m * k, int)
            row_of[x_at], l_of[x_at] = np.arange(m)[:, None], np.arange(k)[None, :]
            entries = np.repeat(np.arange(left.size), n)
            j = np.tile(np.arange(n), left.size)
            place = np.repeat(left.rows, n)
            factor = self._factor(y, y_at[l_of[place], j])
            shares.append(_Share(left, entries, row_of[place] + m * j, factor))
        if right is not None:
            l_of, j_of = np.empty(k * n, int), np.empty(k * n, int)
            l_of[y_at], j_of[y_at] = np.arange(k)[:, None], np.arange(n)[None, :]
            entries = np.repeat(np.arange(right.size), m)
            i = np.tile(np.arange(m), right.size)
            place = np.repeat(right.rows, m)
            factor = self._factor(x, x_at[i, l_of[place]])
            shares.append(_Share(right, entries, i + m * j_of[place], factor))
        return self._total(shares)

    def _reordered(self, slope: _Slope, places: Array) -> _Slope:
        """The slope of a matrix that is stored otherwise, as if it were stored column by column."""
        new = np.empty(places.size, int)
        new[places.ravel(order="F")] = np.arange(places.size)
        rows = new[slope.rows]
        order = np.lexsort((slope.columns, rows))
        if np.array_equal(order, np.arange(len(order))):
            return slope
        values = slope.values
        values = self.b.gather(values, order) if isinstance(values, int) else values[order]
        return _Slope(rows[order], slope.columns[order], values)

    def _times_matrix(self, matrix: sp.csr_array, slope: _Slope, columns: int) -> _Slope | None:
        """A constant matrix times each of the columns whose slopes lie one after another."""
        n_out, n_in = matrix.shape
        block = slope.rows // n_in
        if isinstance(slope.values, np.ndarray):
            width = columns * self.width
            found = (slope.values, (slope.rows % n_in, block * self.width + slope.columns))
            inner = sp.csr_array(found, shape=(n_in, width))
            product = self._constant_product(matrix, inner)
            rows, places = product.coords
            rows = rows + n_out * (places // self.width)
            return _sorted(rows, places % self.width, product.data, self.width)
        by_column = sp.csc_array(matrix)
        by_column.sort_indices()
        l_of = slope.rows % n_in
        counts = np.diff(by_column.indptr)[l_of]
        self._count(int(counts.sum()))
        picked = _ranges(by_column.indptr[:-1][l_of], counts)
        entries = np.repeat(np.arange(slope.size), counts)
        rows = by_column.indices[picked] + n_out * block[entries]
        return self._total([_Share(slope, entries, rows, by_column.data[picked])])

    def _constant_product(self, matrix: sp.csr_array, inner: sp.csr_array) -> sp.coo_array:
        size = matrix.shape[0] * matrix.shape[1] + inner.shape[0] * inner.shape[1]
        is_dense = matrix.nnz > _DENSE_SHARE * matrix.shape[0] * matrix.shape[1]
        is_dense &= inner.nnz > _DENSE_SHARE * inner.shape[0] * inner.shape[1]
        if is_dense and limits.SPARSE_DERIVATIVE_WORK.allows(size):
            return sp.coo_array(matrix.toarray() @ inner.toarray())
        pairs = int(np.diff(sp.csc_array(matrix).indptr) @ np.diff(inner.indptr))
        self._count(pairs)
        product = sp.coo_array(matrix @ inner)
        product.eliminate_zeros()
        return product

    # Sums of what the operands add

    def _total(self, shares: Sequence[_Share]) -> _Slope | None:
        shares = [share for share in map(_without_zeros, shares) if len(share.entries)]
        if not shares:
            return None
        b = self.b
        rows = np.concatenate([share.rows for share in shares])
        columns = np.concatenate([share.columns for share in shares])
        self._count(len(rows))
        keys, place = np.unique(rows * self.width + columns, return_inverse=True)
        ends = np.cumsum([len(share.rows) for share in shares])
        places = np.split(place, ends[:-1])
        known = np.zeros(len(keys))
        pieces: list[tuple[int, Array, Array]] = []
        terms: list[int] = []
        for share, target in zip(shares, places, strict=True):
            numbers = share.numbers
            if numbers is not None:
                np.add.at(known, target, numbers)
            elif isinstance(share.factor, tuple):
                factor, where = share.factor
                product = b.mul(
                    b.gather(factor, where), b.gather(self._as_node(share.slope), share.entries)
                )
                pieces.append((product, np.arange(len(target)), target))
            elif np.all(share.factor == 1):
                pieces.append((self._as_node(share.slope), share.entries, target))
            else:
                positions = (target, share.entries)
                matrix = sp.csr_array((share.factor, positions), shape=(len(keys), share.slope.size))
                terms.append(b.sparse(SparseMatrix(matrix), self._as_node(share.slope)))
        kept_rows, kept_columns = keys // self.width, keys % self.width
        if not pieces and not terms:
            return _Slope(kept_rows, kept_columns, known)
        if pieces:
            terms.append(b.select(len(keys), pieces))
        if known.any():
            terms.append(b.constant(known))
        total = terms[0]
        for term in terms[1:]:
            total = b.add(total, term, len(keys))
        return _Slope(kept_rows, kept_columns, total)

    def _count(self, work: int) -> None:
        self.work += work
        if not limits.SPARSE_DERIVATIVE_WORK.allows(self.work):
            raise TooLargeError(f"the derivatives need more than {limits.SPARSE_DERIVATIVE_WORK}")
        if self.deadline.is_over:
            raise TooLargeError("the derivatives were not ready before the time limit")


def inline(b: TapeBuilder, tape: Tape, inputs: dict[str, int]) -> int:
    """Emit a tape's nodes into a builder, with given nodes in the place of its inputs."""
    numbers: list[int] = []
    for node in tape.nodes:
        if node.op == op.INPUT:
            numbers.append(inputs[tape.input_names[node.data]])
        else:
            args = tuple(numbers[arg] for arg in node.args)
            numbers.append(b.emit(node.op, args, node.size, node.data))
    return numbers[tape.output]


def _last_uses(tape: Tape) -> list[int]:
    last = list(range(len(tape.nodes)))
    for position, node in enumerate(tape.nodes):
        for arg in node.args:
            last[arg] = position
    last[tape.output] = len(tape.nodes)
    return last


def _ranges(starts: Array, counts: Array) -> Array:
    """starts[0], ..., starts[0] + counts[0] - 1, starts[1], ... as one array."""
    shift = np.repeat(starts - np.cumsum(counts) + counts, counts)
    return np.arange(int(counts.sum())) + shift


def _sorted(rows: Array, columns: Array, values: Array, width: int) -> _Slope | None:
    kept = np.flatnonzero(values)
    order = kept[np.argsort(rows[kept] * width + columns[kept], kind="stable")]
    return _Slope(rows[order], columns[order], values[order]) if len(order) else None


def _without_zeros(share: _Share) -> _Share:
    factor = share.factor
    if isinstance(factor, tuple) or np.all(factor):
        return share
    kept = np.flatnonzero(factor)
    return _Share(share.slope, share.entries[kept], share.rows[kept], factor[kept])
