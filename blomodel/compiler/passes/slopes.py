"""Matrices while a Jacobian is made: by entries or plain, their numbers constants or nodes of a tape.

Each is one summand of a Jacobian. What is done to them here (scaled, mapped, added) multiplies constants
out at once and writes everything else down as instructions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.data_products import product
from blomodel.compiler.tape import SparseMatrix
from blomodel.kernels import machine as op

_PLAIN_FROM = 10_000  # entries of a matrix from which it may be kept as a plain array
_PLAIN_PRODUCT = (
    100_000  # multiplications from which a product with changing numbers is one of plain ones
)
_FULL = 0.3  # share of nonzeros from which that is done


class TooManyEntriesError(Exception):
    """More entries than allowed would have to be carried along."""


class Entries(NamedTuple):
    """A matrix by entries; the numbers are constants or a node, all times another node of one number.

    Constants are all times ``factor`` too, which is kept apart: data matrices stay what they are, and
    their products are found again in other tapes.
    """

    n_rows: int
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray | int
    scale: int | None = None
    factor: float = 1.0


class Plain(NamedTuple):
    """A plain matrix, column by column; the numbers are constants (in two dimensions) or a node."""

    n_rows: int
    values: np.ndarray | int
    scale: int | None = None
    factor: float = 1.0  # of constants


Summand = Entries | Plain


class Spread(NamedTuple):
    """A linear map of rows: entry ``source`` of the old rows goes to ``target`` with a factor."""

    source: np.ndarray
    target: np.ndarray
    factor: np.ndarray | None  # None: ones
    n_rows: int


class SlopeAlgebra:
    """What is done to the summands of Jacobians with ``width`` columns.

    Parameters
    ----------
    builder : TapeBuilder
        Where instructions are written.
    width : int
    most : float
        How many entries may be carried along in all.
    """

    b: TapeBuilder
    width: int
    most: float
    spent: float

    def __init__(self, builder: TapeBuilder, width: int, most: float) -> None:
        self.b, self.width, self.most, self.spent = builder, width, most, 0.0

    def spend(self, count: float) -> None:
        """Count entries; raises TooManyEntriesError."""
        self.ask(count)
        self.spent += count

    def ask(self, count: float) -> None:
        """Raise TooManyEntriesError where so many more entries could not be spent."""
        if self.spent + count > self.most:
            raise TooManyEntriesError

    def constant(self, number: int) -> np.ndarray | None:
        """The numbers of a node that is constant; None elsewhere."""
        value = self.b.scalar_value(number)
        if value is not None:
            return np.full(self.b.size(number), value)
        return self.b.nodes[number].data if self.b.is_constant(number) else None

    def node_of(self, slope: Summand) -> int:
        """The numbers as a node, without the scale."""
        return slope.values if isinstance(slope.values, int) else self.b.constant(multiplied(slope))

    def take(self, number: int, source: np.ndarray) -> int:
        """Elements of a node, without the builder's search for a simpler way: slow on millions."""
        b = self.b
        if b.size(number) == 1:
            return b.fill(number, len(source))
        if b.nodes[number].op == op.FILL:
            return b.fill(b.nodes[number].args[0], len(source))
        if len(source) == b.size(number) and np.array_equal(source, np.arange(len(source))):
            return number
        return b.emit(op.SELECT, (number,), len(source), (source, None))

    def by_entry(self, slope: Summand) -> Entries:
        """The same matrix by entries."""
        if isinstance(slope, Entries):
            return slope
        rows = np.tile(np.arange(slope.n_rows), self.width)
        columns = np.repeat(np.arange(self.width), slope.n_rows)
        values = slope.values if isinstance(slope.values, int) else slope.values.ravel(order="F")
        return Entries(slope.n_rows, rows, columns, values, slope.scale, slope.factor)

    def as_plain(self, slope: Summand) -> Plain:
        """The same matrix as a plain one."""
        if isinstance(slope, Plain):
            return slope
        size = slope.n_rows * self.width
        place = slope.rows + slope.n_rows * slope.columns
        if isinstance(slope.values, int):
            data = (np.arange(len(place)), place)
            number = self.b.emit(op.SELECT, (slope.values,), size, data)
            return Plain(slope.n_rows, number, slope.scale)
        flat = np.bincount(place, slope.values, size)
        values = flat.reshape((slope.n_rows, self.width), order="F")
        return Plain(slope.n_rows, values, slope.scale, slope.factor)

    def repeated(self, slopes: list[Summand], size: int) -> list[Summand]:
        """The one row of each, so many times."""
        spread = Spread(np.zeros(size, dtype=np.int64), np.arange(size), None, size)
        return self.mapped(slopes, spread)

    def scaled(self, slopes: list[Summand], factor: int | None, size: int) -> list[Summand]:
        """A diagonal matrix times a Jacobian, which may be that of one number for all rows."""
        if factor is None or not slopes or self.b.scalar_value(factor) == 0.0:
            return []
        if self.b.scalar_value(factor) == 1.0 and slopes[0].n_rows == size:
            return slopes
        if slopes[0].n_rows == 1 and size > 1:
            slopes = self.repeated(slopes, size)
        return [self._scaled_one(slope, factor) for slope in slopes]

    def _scaled_one(self, slope: Summand, factor: int) -> Summand:
        b, number = self.b, self.b.scalar_value(factor)
        if number is not None and not isinstance(slope.values, int):
            return slope._replace(factor=number * slope.factor)
        numbers = self.constant(factor)
        if numbers is not None and not isinstance(slope.values, int):
            if isinstance(slope, Plain):
                return slope._replace(values=numbers.reshape(-1, 1) * slope.values)
            own = numbers if numbers.size == 1 else numbers[slope.rows]
            return slope._replace(values=own * slope.values)
        if b.nodes[factor].op == op.FILL:
            factor = b.nodes[factor].args[0]
        if b.size(factor) == 1:  # stays outside, so that products of constants remain such
            scale = factor if slope.scale is None else b.mul(factor, slope.scale)
            return slope._replace(scale=scale)
        count = slope.n_rows * self.width if isinstance(slope, Plain) else len(slope.rows)
        self.spend(count)
        factor = self.take(factor, self.by_entry(slope).rows)
        return slope._replace(values=b.mul(factor, self.node_of(slope), count), factor=1.0)

    def times(self, matrix: np.ndarray, slope: Summand) -> list[Summand]:
        """A constant plain matrix times a Jacobian."""
        m, k = matrix.shape
        touched = self.width if isinstance(slope, Plain) else np.unique(slope.columns).size
        is_plain = m * self.width >= _PLAIN_FROM and touched >= _FULL * self.width
        if isinstance(slope.values, int):
            is_plain |= m * k * self.width >= _PLAIN_PRODUCT and touched >= _FULL * self.width
            if isinstance(slope, Entries):
                is_plain &= len(slope.rows) >= _FULL * k * self.width
        if not is_plain:
            target, source = np.nonzero(matrix)
            return self.mapped([slope], Spread(source, target, matrix[target, source], m))
        self.spend(m * self.width)
        if isinstance(slope.values, int):
            values = self.node_of(self.as_plain(slope))
            flat = self.b.constant(matrix.ravel(order="F"))
            return [Plain(m, self.b.matmul(flat, values, m, k, self.width), slope.scale)]
        if isinstance(slope, Plain):
            return [Plain(m, product(matrix, slope.values), slope.scale, slope.factor)]
        if self._is_identity(slope):
            return [Plain(m, matrix, slope.scale, slope.factor)]
        inner = sp.csc_array((slope.values, (slope.rows, slope.columns)), (k, self.width))
        return [Plain(m, np.asarray((inner.T @ matrix.T).T), slope.scale, slope.factor)]

    def _is_identity(self, slope: Entries) -> bool:
        """Whether it is the Jacobian of all the variables themselves."""
        if not slope.n_rows == self.width == len(slope.rows):
            return False
        places = np.arange(self.width)
        return (
            np.array_equal(slope.rows, places)
            and np.array_equal(slope.columns, places)
            and bool(np.all(slope.values == 1.0))
        )

    def mapped(self, slopes: list[Summand], spread: Spread) -> list[Summand]:
        """A linear map of the rows of each."""
        return [self._mapped_one(slope, spread) for slope in slopes]

    def _mapped_one(self, slope: Summand, spread: Spread) -> Summand:
        source, target, factor, n_rows = spread
        if isinstance(slope, Plain):
            data = np.ones(len(source)) if factor is None else factor
            matrix = sp.csr_array((data, (target, source)), (n_rows, slope.n_rows))
            self.spend(matrix.nnz * self.width)
            if isinstance(slope.values, int):
                product = self.b.sparse(SparseMatrix(matrix), slope.values, self.width)
                return Plain(n_rows, product, slope.scale)
            return Plain(n_rows, matrix @ slope.values, slope.scale, slope.factor)
        # Each entry goes wherever its row goes: the rows' targets lie one after another.
        is_sorted = len(source) < 2 or bool((source[1:] >= source[:-1]).all())
        order = np.arange(len(source)) if is_sorted else np.argsort(source, kind="stable")
        begins = np.searchsorted(source[order], np.arange(slope.n_rows + 1))
        counts = np.diff(begins)[slope.rows]
        total = int(counts.sum())
        self.spend(total)
        which = np.repeat(np.arange(len(counts)), counts)
        ends = np.cumsum(counts)
        place = order[np.arange(total) - np.repeat(ends - counts, counts) + begins[slope.rows][which]]
        rows, columns = target[place], slope.columns[which]
        if not isinstance(slope.values, int):
            values = slope.values[which] if factor is None else slope.values[which] * factor[place]
            return self.summed(Entries(n_rows, rows, columns, values, slope.scale, slope.factor))
        if factor is None:
            number = self.take(slope.values, which)
            return self.summed(Entries(n_rows, rows, columns, number, slope.scale))
        inverse, rows, columns = _distinct(n_rows, rows, columns)
        shape = (len(rows), self.b.size(slope.values))
        gathering = SparseMatrix(sp.csr_array((factor[place], (inverse, which)), shape))
        return Entries(n_rows, rows, columns, self.b.sparse(gathering, slope.values), slope.scale)

    def summed(self, slope: Entries) -> Entries:
        """Entries at the same place added up."""
        inverse, rows, columns = _distinct(slope.n_rows, slope.rows, slope.columns)
        if len(rows) == len(slope.rows):
            return slope
        if isinstance(slope.values, int):
            data = (np.arange(len(inverse)), inverse)
            values: int | np.ndarray = self.b.emit(op.SELECT, (slope.values,), len(rows), data)
        else:
            values = np.bincount(inverse, slope.values, len(rows))
        return Entries(slope.n_rows, rows, columns, values, slope.scale, slope.factor)

    def added(self, slopes: list[Summand]) -> list[Summand]:
        """The same sum with as few matrices as there are scales, constant ones and others."""
        slopes = _merged(slopes)
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
        if any(isinstance(slope, Plain) for slope in slopes):
            parts: list[Summand] = [slope for slope in slopes if isinstance(slope, Entries)]
            plain = [slope for slope in slopes if isinstance(slope, Plain)]
            if parts:
                plain.append(self.as_plain(parts[0] if len(parts) == 1 else self._sum(parts, is_node)))
            if not is_node:
                return Plain(n_rows, sum(multiplied(slope) for slope in plain))
            total = self.node_of(plain[0])
            for slope in plain[1:]:
                total = self.b.add(total, self.node_of(slope), n_rows * self.width)
            return Plain(n_rows, total)
        entries = [slope for slope in slopes if isinstance(slope, Entries)]
        rows = np.concatenate([slope.rows for slope in entries])
        columns = np.concatenate([slope.columns for slope in entries])
        if not is_node:
            values = np.concatenate([multiplied(slope) for slope in entries])
            return self.summed(Entries(n_rows, rows, columns, values))
        inverse, rows, columns = _distinct(n_rows, rows, columns)
        ends = np.cumsum([len(slope.rows) for slope in entries])
        pieces = [
            (self.node_of(slope), np.arange(len(slope.rows)), inverse[end - len(slope.rows) : end])
            for slope, end in zip(entries, ends, strict=True)
        ]
        return Entries(n_rows, rows, columns, self.b.select(len(rows), pieces))


def _merged(slopes: list[Summand]) -> list[Summand]:
    """The same constants met twice, such as the two factors of a square, as one with another factor."""
    known: dict[tuple[int, int | None], Summand] = {}
    others: list[Summand] = []
    for slope in slopes:
        key = (id(slope.values), slope.scale)
        if isinstance(slope.values, int) or len(slopes) == 1:
            others.append(slope)
        elif key in known and _are_placed_alike(known[key], slope):
            known[key] = known[key]._replace(factor=known[key].factor + slope.factor)
        elif key in known:
            others.append(slope)
        else:
            known[key] = slope
    return [*known.values(), *others]


def _are_placed_alike(one: Summand, other: Summand) -> bool:
    if isinstance(one, Entries) and isinstance(other, Entries):
        return one.rows is other.rows and one.columns is other.columns
    return isinstance(one, Plain) and isinstance(other, Plain)


def multiplied(slope: Summand) -> np.ndarray:
    """The numbers of constants, times their factor."""
    values = np.asarray(slope.values)
    return values if slope.factor == 1.0 else slope.factor * values


def spread_of(matrix: sp.sparray) -> Spread:
    """A matrix as a map of rows."""
    entries = sp.coo_array(matrix)
    return Spread(entries.col, entries.row, entries.data, entries.shape[0])


def _distinct(
    n_rows: int, rows: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The number of each entry's place among the distinct places, and these."""
    places, inverse = np.unique(rows + n_rows * columns.astype(np.int64), return_inverse=True)
    return inverse, places % n_rows, places // n_rows
