"""What a tape does with each row of data, taken apart from the rest of it.

``sum_squares(A @ y - b)``, ``sum(multiply(x, logistic(A @ y)))``, their slopes and the like do the same
with every row of A. Such a tape is taken apart here: what belongs to single rows, what is summed over
them, and what holds no rows. For a number of rows a second tape is made, whose inputs are the data of
these rows, and which counts them so often that its mean over all choices of rows is the whole sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.tape import Node, Tape
from blomodel.errors import ModelError
from blomodel.kernels import machine as op

DATA, ENTRIES, PRODUCTS = "rows", "entries", "products"  # names of the three further inputs


class NotASumError(ModelError):
    """A function that is no sum over the rows of data."""


@dataclass(frozen=True)
class _Rows:
    """What is known of a value: for each row ``width`` numbers, side by side or ``n_rows`` apart."""

    width: int
    is_by_row: bool


_SUMMED = "summed"  # a value that is a linear function of sums over rows
State = _Rows | str | None


@dataclass(frozen=True, eq=False)
class _Slot:
    """Data of the rows: where it goes among the inputs, and a table with a line for each row."""

    begin: int
    table: np.ndarray
    is_by_row: bool

    def fill(self, place: np.ndarray, rows: np.ndarray | slice) -> None:
        chosen = self.table[rows]
        size = chosen.size
        flat = chosen.ravel() if self.is_by_row else chosen.ravel(order="F")
        place[self.begin : self.begin + size] = flat


@dataclass(frozen=True, eq=False)
class SparseProduct:
    """A sparse matrix times a function of x, y and p, column by column among the last input."""

    begin: int
    matrix: sp.csr_array
    columns: int
    factor: Tape

    def forward(self, rows: sp.csr_array, values: np.ndarray) -> np.ndarray:
        """Some rows times the factor's values."""
        return (rows @ values.reshape(-1, self.columns, order="F")).ravel(order="F")

    def backward(self, rows: sp.csr_array, slopes: np.ndarray) -> np.ndarray:
        """The transposed rows times slopes in the last input, of which this product has a part."""
        size = rows.shape[0] * self.columns
        own = slopes[self.begin : self.begin + size].reshape(-1, self.columns, order="F")
        return (rows.T @ own).ravel(order="F")


@dataclass(frozen=True, eq=False)
class RowParts:
    """A function as a sum over rows, and its tape for some of them.

    Attributes
    ----------
    tape : Tape
        Of the function's own inputs, the data of the rows, those entries of x that belong to the rows,
        and the products of sparse rows.
    n_rows, size : int
        Rows in all, and of the tape.
    """

    tape: Tape
    n_rows: int
    size: int
    products: list[SparseProduct]
    _slots: list[_Slot]
    _entries: np.ndarray  # by row, then one after another: places in x

    def fill(self, place: np.ndarray, rows: np.ndarray | slice) -> None:
        """Put the data of these rows into an array for the first further input."""
        for slot in self._slots:
            slot.fill(place, rows)

    def places(self, rows: np.ndarray | slice) -> np.ndarray:
        """Which entries of x belong to the rows, in the order of the second further input."""
        places: np.ndarray = self._entries[rows].ravel(order="F")
        return places


def take_apart(tape: Tape, size: int, name: str) -> RowParts:
    """The parts for so many rows at a time; NotASumError says why there are none, and of what."""
    return _Parts(tape, size, name).result()


class _Parts:
    def __init__(self, tape: Tape, batch_size: int, name: str) -> None:
        self.tape, self.name = tape, name
        self.n_rows = _count_rows(tape)
        if self.n_rows == 0:
            raise self._refuse("it holds no product of a data matrix with variables")
        self.size = min(batch_size, self.n_rows)
        self.states: list[State] = []
        self.new: list[int] = []
        self.slots: list[_Slot] = []
        self.entries: list[np.ndarray] = []
        self.products: list[SparseProduct] = []
        self.top = self.n_entries = self.n_products = 0
        # How many numbers the further inputs have is known only at the end: as many as there may be.
        width = _widest(tape, self.n_rows)
        names = (*tape.input_names, DATA, ENTRIES, PRODUCTS)
        sizes = (*tape.input_sizes, *(self.size * width,) * 3)
        self.b = TapeBuilder(names, sizes)
        self._in_rows: dict[tuple[int, _Rows], int] = {}

    def result(self) -> RowParts:
        for number, node in enumerate(self.tape.nodes):
            state, new = self._node(number, node)
            self.states.append(state)
            self.new.append(new)
        if isinstance(self.states[self.tape.output], _Rows):
            raise self._refuse("its value is not summed over the rows")
        made = self.b.finish(self.new[self.tape.output])
        sizes = [*made.input_sizes[:-3], self.top, self.n_entries, self.n_products]
        made = Tape(made.input_names, sizes, made.nodes, made.output)
        nodes = [
            Node(node.op, node.args, sizes[node.data], node.data) if node.op == op.INPUT else node
            for node in made.nodes
        ]
        made = Tape(made.input_names, sizes, nodes, made.output)
        entries = np.column_stack(self.entries) if self.entries else np.empty((self.n_rows, 0), int)
        return RowParts(made, self.n_rows, self.size, self.products, self.slots, entries)

    def _refuse(self, why: str) -> NotASumError:
        return NotASumError(
            f"{self.name} is no sum over rows of data: {why}. Sums such as "
            "sum_squares(A @ y - b), sum(logistic(A @ y)) or sum(multiply(x, losses of rows)) can be "
            "sampled; leave batch_size out to use all rows in every step."
        )

    # One node

    def _node(self, number: int, node: Node) -> tuple[State, int]:
        states = [self.states[arg] for arg in node.args]
        if node.op == op.MATMUL and self._is_data_product(node, states):
            return self._data_product(node)
        if node.op == op.MATMUL and self._sums_data(node, states):
            return self._sum_of_data(node)
        if node.op == op.SPARSE and node.data[0].shape[0] == self.n_rows and states[0] is None:
            return self._sparse_product(node)
        if not any(states):
            args = tuple(self.new[arg] for arg in node.args)
            return None, self.b.emit(node.op, args, node.size, node.data)
        rows = [state for state in states if isinstance(state, _Rows)]
        if not rows:
            return self._linear(node, states)
        if node.op in op.UNARY or node.op == op.FREEZE:
            return rows[0], self.b.emit(node.op, (self.new[node.args[0]],), self._length(rows[0]))
        if node.op in op.BINARY:
            return self._elementwise(node, rows[0])
        if node.op == op.SELECT and len(node.args) == 1:
            return self._selection(node, rows[0])
        if node.op in op.SEGMENTS:
            return self._runs(node, rows[0])
        if node.op == op.MATMUL and node.data[0] == node.data[2] == 1:
            operands = [self._as_rows(arg, rows[0]) for arg in node.args]
            return _SUMMED, self._weighted(self.b.dot(*operands))
        raise self._refuse(f"{op.NAMES[node.op].lower()} joins different rows")

    def _length(self, rows: _Rows) -> int:
        return self.size * rows.width

    def _weighted(self, total: int) -> int:
        """A sum over the batch in the place of a sum over all rows."""
        return self.b.mul(self.b.constant(self.n_rows / self.size), total, self.b.size(total))

    def _is_data_product(self, node: Node, states: list[State]) -> bool:
        m, k, _, transposed = node.data
        is_constant = self.tape.nodes[node.args[0]].op == op.CONSTANT
        return m == self.n_rows and k > 1 and is_constant and transposed < 2 and states[1] is None

    def _data_product(self, node: Node) -> tuple[State, int]:
        m, k, n, transposed = node.data
        values = self.tape.nodes[node.args[0]].data
        table = values.reshape(m, k) if transposed else values.reshape(k, m).T
        matrix = self._slot(table, is_by_row=True)
        product = self.b.matmul(
            matrix, self.new[node.args[1]], self.size, k, n, a_transposed=self.size > 1
        )
        return _Rows(n, False), product

    def _sums_data(self, node: Node, states: list[State]) -> bool:
        """Whether rows of data are added up, as slopes of a data product are carried back."""
        m, k, _, transposed = node.data
        is_constant = self.tape.nodes[node.args[0]].op == op.CONSTANT
        return k == self.n_rows and m > 1 and is_constant and transposed < 2 and states[1] != _SUMMED

    def _sum_of_data(self, node: Node) -> tuple[State, int]:
        m, k, n, transposed = node.data
        values = self.tape.nodes[node.args[0]].data
        table = values.reshape(m, k).T if transposed else values.reshape(k, m)
        factors = self._as_rows(node.args[1], _Rows(n, False))
        if self.b.size(factors) == 1:  # the same for all rows
            factors = self.b.fill(factors, self.size * n)
        matrix = self._slot(table, is_by_row=True)
        return _SUMMED, self._weighted(self.b.matmul(matrix, factors, m, self.size, n))

    def _sparse_product(self, node: Node) -> tuple[State, int]:
        matrix, columns = node.data
        begin, size = self.n_products, self.size * columns
        self.n_products += size
        tape = self.tape
        factor = Tape(tape.input_names, tape.input_sizes, tape.nodes, node.args[0])
        self.products.append(SparseProduct(begin, matrix.csr, columns, factor))
        product = self.b.gather(self.b.input(PRODUCTS), np.arange(begin, begin + size))
        return _Rows(columns, False), product

    def _slot(self, table: np.ndarray, is_by_row: bool) -> int:
        """The part of the data that holds a table's lines for the batch; equal tables share it."""
        begin = None
        for slot in self.slots:
            if slot.is_by_row == is_by_row and _is_same(slot.table, table):
                begin = slot.begin
        size = self.size * table.shape[1]
        if begin is None:
            begin, self.top = self.top, self.top + size
            self.slots.append(_Slot(begin, table, is_by_row))
        return self.b.gather(self.b.input(DATA), np.arange(begin, begin + size))

    def _linear(self, node: Node, states: list[State]) -> tuple[State, int]:
        """What may be done with sums over rows: all that is linear in them."""
        args = tuple(self.new[arg] for arg in node.args)
        is_summed = [state == _SUMMED for state in states]
        linear = {op.NEG, op.ADD, op.SUB, op.FILL, op.SELECT, op.SUM, op.CUMSUM, op.SPARSE, op.FREEZE}
        fits = node.op in linear or (node.op in (op.MUL, op.MATMUL) and sum(is_summed) == 1)
        fits = fits or (node.op in (op.DIV, op.SAFE_DIV) and is_summed == [True, False])
        if not fits:
            raise self._refuse(f"{op.NAMES[node.op].lower()} is taken of a sum over rows")
        return _SUMMED, self.b.emit(node.op, args, node.size, node.data)

    def _elementwise(self, node: Node, rows: _Rows) -> tuple[State, int]:
        left, right = (self._as_rows(arg, rows) for arg in node.args)
        return rows, self.b.binary(node.op, left, right, self._length(rows))

    def _as_rows(self, number: int, rows: _Rows) -> int:
        """A value beside one that has rows: one number for all, the same rows, or data with as many."""
        state, node = self.states[number], self.tape.nodes[number]
        if isinstance(state, _Rows):
            if state != rows and not state.width == rows.width == 1:
                raise self._refuse("rows are arranged in different ways")
            return self.new[number]
        if state == _SUMMED:
            raise self._refuse("a sum over rows goes into the rows again")
        if node.size == 1:
            return self.new[number]
        key = (number, rows)
        if key not in self._in_rows:
            self._in_rows[key] = self._split(node, None, rows)
        return self._in_rows[key]

    def _split(self, node: Node, picked: np.ndarray | None, rows: _Rows) -> int:
        """The elements ``picked`` of a value without rows, as rows; None: all of them, one by one."""
        if (node.size if picked is None else len(picked)) != self.n_rows * rows.width:
            raise self._refuse("vectors of different lengths meet")
        shape = (self.n_rows, rows.width)
        order: Literal["C", "F"] = "C" if rows.is_by_row else "F"
        if node.op == op.CONSTANT:
            values = node.data if picked is None else node.data[picked]
            return self._slot(values.reshape(shape, order=order), rows.is_by_row or rows.width == 1)
        if node.op == op.INPUT and self.tape.input_names[node.data] == "x":
            begin, size = self.n_entries, self.size * rows.width
            self.n_entries += size
            if rows.is_by_row and rows.width > 1:
                raise self._refuse("entries of x for each row lie side by side")
            chosen = np.arange(node.size) if picked is None else picked
            self.entries += list(chosen.reshape(shape, order=order).T)
            return self.b.gather(self.b.input(ENTRIES), np.arange(begin, begin + size))
        args = [self.tape.nodes[arg] for arg in node.args]
        if node.op == op.SELECT and len(args) == 1 and node.data[1] is None:
            taken = node.data[0] if picked is None else node.data[0][picked]
            return self._split(args[0], taken, rows)
        if node.op == op.FILL:
            return self.new[node.args[0]]
        if node.op in op.UNARY:
            return self.b.emit(node.op, (self._split(args[0], picked, rows),), self._length(rows))
        if node.op in op.BINARY:
            parts = [
                self.new[number] if arg.size == 1 else self._split(arg, picked, rows)
                for number, arg in zip(node.args, args, strict=True)
            ]
            return self.b.binary(node.op, parts[0], parts[1], self._length(rows))
        raise self._refuse("a vector as long as the data is neither data nor a function of entries of x")

    def _selection(self, node: Node, rows: _Rows) -> tuple[State, int]:
        """A rearrangement, or sums, within each row."""
        source, target = node.data
        target = np.arange(node.size) if target is None else target
        if node.size % self.n_rows:
            raise self._refuse("some rows are picked out")
        width = node.size // self.n_rows
        row, column = self._row_and_column(source, rows)
        for is_by_row in (False, True):
            new = _Rows(width, is_by_row)
            row_to, column_to = self._row_and_column(target, new)
            if not np.array_equal(row, row_to):
                continue
            # Every row must do what the first one does.
            order = np.lexsort((column_to, column, row))
            if len(source) % self.n_rows:
                break
            each = len(source) // self.n_rows
            pairs = np.stack([column, column_to])[:, order].reshape(2, self.n_rows, each)
            if not np.array_equal(row[order].reshape(self.n_rows, each)[:, 0], np.arange(self.n_rows)):
                break
            if np.any(pairs != pairs[:, :1]):
                break
            at = np.arange(self.size)[:, None]
            places = [
                (column * 1 + part.width * at) if part.is_by_row else (at + self.size * column)
                for part, column in ((rows, pairs[0, 0]), (new, pairs[1, 0]))
            ]
            arg = self.new[node.args[0]]
            piece = (arg, places[0].ravel(), places[1].ravel())
            return new, self.b.select(self._length(new), [piece])
        raise self._refuse("a rearrangement joins different rows")

    def _row_and_column(self, places: np.ndarray, rows: _Rows) -> tuple[np.ndarray, np.ndarray]:
        if rows.is_by_row:
            return places // rows.width, places % rows.width
        return places % self.n_rows, places // self.n_rows

    def _runs(self, node: Node, rows: _Rows) -> tuple[State, int]:
        count, length, k = node.data
        arg = self.new[node.args[0]]
        whole = self.n_rows * rows.width
        if node.op == op.SUM and length == whole:
            return _SUMMED, self._weighted(self.b.sum(arg))
        if node.op == op.SUM and not rows.is_by_row and length == self.n_rows:
            return _SUMMED, self._weighted(self.b.sum(arg, self.size))
        if rows.is_by_row and rows.width % length == 0:
            made = self.b.segments(node.op, arg, length, k)
            return _Rows(self.b.size(made) // self.size, True), made
        if rows.width == 1 and length == 1:
            return rows, arg
        raise self._refuse(f"{op.NAMES[node.op].lower()} joins different rows")


def _count_rows(tape: Tape) -> int:
    """Rows of the largest data matrix that multiplies variables."""
    found = (0, 0)
    for node in tape.nodes:
        if node.op == op.MATMUL and tape.nodes[node.args[0]].op == op.CONSTANT:
            m, k, _, transposed = node.data
            if m > 1 and k > 1 and transposed < 2:
                found = max(found, (m * k, m))
        elif node.op == op.SPARSE and node.data[0].shape[0] > 1:
            matrix = node.data[0]
            found = max(found, (matrix.csr.nnz, matrix.shape[0]))
    return found[1]


def _widest(tape: Tape, n_rows: int) -> int:
    """At least as many numbers as a row has among the data."""
    width = 1
    for node in tape.nodes:
        if node.size >= n_rows:
            width += node.size // n_rows + 1
    return width


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    def place(table: np.ndarray) -> tuple[object, ...]:
        return table.__array_interface__["data"][0], table.shape, table.strides

    return place(one) == place(other)
