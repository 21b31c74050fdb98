"""Builds tapes: emits nodes, shares equal ones, and leaves out work that has no effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from blomodel.basics.arrays import is_on_disk
from blomodel.compiler.large_constants import interned, is_large
from blomodel.compiler.tape import Node, SparseMatrix, Tape, digest, unknown_instruction
from blomodel.kernels import machine as op

# A piece of a selection: the elements ``source`` of a node go to the positions ``target``.
Piece = tuple[int, np.ndarray, np.ndarray]


class TapeBuilder:
    """Emits nodes into a growing list; methods return the number of the node with the value.

    Operands of size 1 are repeated where a longer vector is needed. Equal instructions are
    emitted once; instructions on constants are carried out at once.
    """

    input_names: tuple[str, ...]
    input_sizes: tuple[int, ...]

    def __init__(self, input_names: Sequence[str], input_sizes: Sequence[int]) -> None:
        self.input_names = tuple(input_names)
        self.input_sizes = tuple(input_sizes)
        self.nodes: list[Node] = []
        self._known: dict[Any, int] = {}

    def finish(self, output: int, output_slices: Iterable[slice] | None = None) -> Tape:
        """The tape whose result is the given node."""
        return Tape(self.input_names, self.input_sizes, self.nodes, output, output_slices)

    # Leaves and plain emission

    def emit(self, opcode: int, args: tuple[int, ...], size: int, data: Any = None) -> int:
        """The number of the node, a new one only if no equal one exists."""
        key = (opcode, args, size, _data_key(data))
        number = self._known.get(key)
        if number is None:
            if opcode not in op.NAMES:
                raise unknown_instruction(opcode, "the builder of tapes")
            node = Node(opcode, args, size, data)
            # A repeated constant stays one number; a frozen one stays recognisable; and results of
            # data in a file would take as much memory as these.
            kept = opcode in (op.FREEZE, op.FILL)
            if args and not kept and all(self._is_folded(arg) for arg in args):
                number = self.constant(self._evaluate(node))
            else:
                number = len(self.nodes)
                self.nodes.append(node)
            self._known[key] = number
        return number

    def size(self, a: int) -> int:
        """How many numbers a node holds."""
        return self.nodes[a].size

    def input(self, name: str) -> int:
        """The whole of an input block."""
        position = self.input_names.index(name)
        return self.emit(op.INPUT, (), self.input_sizes[position], position)

    def constant(self, values: Any) -> int:
        """A constant; equal numbers are kept as one number repeated."""
        flat = _flattened(values)
        if flat.size > 1 and flat[0] == flat[-1] and np.all(flat == flat[0]):
            return self.fill(self.constant(flat[0]), flat.size)
        return self.emit(op.CONSTANT, (), flat.size, flat)

    def zeros(self, size: int) -> int:
        """A vector of zeros."""
        return self.constant(np.zeros(size))

    def is_constant(self, a: int) -> bool:
        """Whether a node holds numbers that are known now."""
        return self.nodes[a].op == op.CONSTANT

    def _is_folded(self, a: int) -> bool:
        """Whether results of a node are computed now."""
        return self.is_constant(a) and not is_on_disk(self.nodes[a].data)

    def scalar_value(self, a: int) -> float | None:
        """The number, if the node is a constant with equal entries."""
        node = self.nodes[self._unfilled(a)]
        return float(node.data[0]) if node.op == op.CONSTANT and node.size == 1 else None

    def _unfilled(self, a: int) -> int:
        return self.nodes[a].args[0] if self.nodes[a].op == op.FILL else a

    def _evaluate(self, node: Node) -> np.ndarray:
        """Run one instruction on constants."""
        operands = [self.nodes[arg] for arg in node.args]
        own = Node(node.op, tuple(range(len(operands))), node.size, node.data)
        return Tape((), (), [*operands, own], len(operands))()

    # Elementwise functions

    def unary(self, opcode: int, a: int) -> int:
        """An elementwise function of one operand; of a repeated scalar it is computed once."""
        node = self.nodes[a]
        if node.op == op.FILL:
            return self.fill(self.unary(opcode, node.args[0]), node.size)
        if opcode == op.NEG:
            if node.op == op.NEG:
                return node.args[0]
            if node.op == op.SUB:
                return self.binary(op.SUB, node.args[1], node.args[0], node.size)
        return self.emit(opcode, (a,), node.size)

    def binary(self, opcode: int, a: int, b: int, size: int | None = None) -> int:
        """An elementwise function of two operands; ``size`` only where both may be scalars."""
        size = max(self.size(a), self.size(b)) if size is None else size
        a, b = self._unfilled(a), self._unfilled(b)
        if self.size(a) == 1 and self.size(b) == 1:
            return self.fill(self._simplified(opcode, a, b, 1), size)
        return self._simplified(opcode, a, b, size)

    def _simplified(self, opcode: int, a: int, b: int, size: int) -> int:
        left, right = self.scalar_value(a), self.scalar_value(b)
        if opcode == op.ADD:
            if left == 0.0:
                return self.fill(b, size)
            if right == 0.0:
                return self.fill(a, size)
            if self.nodes[b].op == op.NEG:
                return self._simplified(op.SUB, a, self.nodes[b].args[0], size)
            if self.nodes[a].op == op.NEG:
                return self._simplified(op.SUB, b, self.nodes[a].args[0], size)
            a, b = min(a, b), max(a, b)
        elif opcode == op.SUB:
            if left == 0.0:
                return self.unary(op.NEG, self.fill(b, size))
            if right == 0.0:
                return self.fill(a, size)
            if self.nodes[b].op == op.NEG:
                return self._simplified(op.ADD, a, self.nodes[b].args[0], size)
        elif opcode == op.MUL:
            return self._product(a, b, size)
        elif opcode in (op.DIV, op.SAFE_DIV) and (right == 1.0 or left == 0.0):
            return self.fill(a, size)
        elif opcode == op.POWER and right in (0.0, 0.5, 1.0, 2.0, -1.0):
            if right == 0.0:
                return self.fill(self.constant(1.0), size)
            if right == 1.0:
                return self.fill(a, size)
            if right == 2.0:
                return self._product(a, a, size)
            if right == 0.5:
                return self.unary(op.SQRT, self.fill(a, size))
            return self._simplified(op.DIV, self.constant(1.0), a, size)
        return self.emit(opcode, (a, b), size)

    def _product(self, a: int, b: int, size: int) -> int:
        for factor, other in ((a, b), (b, a)):
            value = self.scalar_value(factor)
            if value == 0.0:
                return self.zeros(size)
            if value == 1.0:
                return self.fill(other, size)
            if value == -1.0:
                return self.unary(op.NEG, self.fill(other, size))
            inner = self.nodes[other]
            if value is not None and inner.op == op.MUL:
                # c (d z) = (c d) z for numbers c and d
                for d, z in (inner.args, inner.args[::-1]):
                    if self.scalar_value(d) is not None:
                        return self.binary(op.MUL, self.binary(op.MUL, factor, d), z, size)
        return self.emit(op.MUL, (min(a, b), max(a, b)), size)

    def add(self, a: int, b: int, size: int | None = None) -> int:
        """The sum of two operands; see ``binary`` for ``size``."""
        return self.binary(op.ADD, a, b, size)

    def sub(self, a: int, b: int, size: int | None = None) -> int:
        """The first operand less the second; see ``binary`` for ``size``."""
        return self.binary(op.SUB, a, b, size)

    def mul(self, a: int, b: int, size: int | None = None) -> int:
        """The product, element by element; see ``binary`` for ``size``."""
        return self.binary(op.MUL, a, b, size)

    def div(self, a: int, b: int, size: int | None = None) -> int:
        """The quotient, element by element; see ``binary`` for ``size``."""
        return self.binary(op.DIV, a, b, size)

    def scale(self, number: float, a: int) -> int:
        """A number times an operand."""
        return self.mul(self.constant(number), a, self.size(a))

    def freeze(self, a: int) -> int:
        """The same value, held fixed in differentiation."""
        return self.emit(op.FREEZE, (a,), self.size(a))

    # Rearrangements and sums

    def fill(self, a: int, size: int) -> int:
        """A scalar repeated; a vector of that size already is left as it is."""
        if self.size(a) == size:
            return a
        return self.emit(op.FILL, (a,), size)

    def gather(self, a: int, source: np.ndarray) -> int:
        """The elements of ``a`` at the given positions."""
        return self.select(len(source), [(a, source, np.arange(len(source)))])

    def select(self, size: int, pieces: Sequence[Piece]) -> int:
        """A vector of zeros to which each piece adds chosen elements at chosen positions."""
        pieces = [self._traced(*piece) for piece in pieces]
        pieces = [piece for piece in pieces if len(piece[1])]
        if not pieces:
            return self.zeros(size)
        order: dict[int, int] = {}
        length = 0
        for a, _, _ in pieces:
            if a not in order:
                order[a] = length
                length += self.size(a)
        source = _joined([order[a] + source for a, source, _ in pieces])
        target = _joined([target for _, _, target in pieces])
        if len(target) == size:
            if _counts_up(target, size):
                return self._rearranged(tuple(order), length, source)
            arrangement = np.argsort(target, kind="stable")
            if np.array_equal(target[arrangement], np.arange(size)):
                return self._rearranged(tuple(order), length, source[arrangement])
        if size == 1 and len(order) == 1 and np.array_equal(source, np.arange(length)):
            return self.sum(pieces[0][0])
        return self.emit(op.SELECT, tuple(order), size, (source, target))

    def _rearranged(self, args: tuple[int, ...], length: int, source: np.ndarray) -> int:
        size = len(source)
        if len(args) == 1 and size == length and _counts_up(source, size):
            return args[0]
        if size > 1 and source[0] == source[-1] and np.all(source == source[0]):
            return self.fill(self._rearranged(args, length, source[:1]), size)
        if size == 1 and len(args) > 1:
            begin = 0
            for arg in args:
                if begin <= source[0] < begin + self.size(arg):
                    return self._rearranged((arg,), self.size(arg), source - begin)
                begin += self.size(arg)
        source.flags.writeable = False  # so that its key is kept for the tapes that take it over
        return self.emit(op.SELECT, args, size, (source, None))

    def _traced(self, a: int, source: np.ndarray, target: np.ndarray) -> Piece:
        """The same piece, taken from where ``a`` itself takes its elements."""
        node = self.nodes[a]
        if node.op == op.FILL:
            return node.args[0], np.zeros_like(source), target
        if node.op == op.SELECT and len(node.args) == 1:
            inner_source, inner_target = node.data
            if inner_target is None:
                return node.args[0], inner_source[source], target
            if np.unique(inner_target).size == inner_target.size:
                origin = np.full(node.size, -1)
                origin[inner_target] = inner_source
                found = origin[source] >= 0
                return node.args[0], origin[source][found], target[found]
        return a, source, target

    def concatenate(self, parts: Sequence[int]) -> int:
        """The parts, one after another in one vector."""
        pieces, begin = [], 0
        for part in parts:
            size = self.size(part)
            pieces.append((part, np.arange(size), np.arange(begin, begin + size)))
            begin += size
        return self.select(begin, pieces)

    def segments(self, opcode: int, a: int, length: int, k: int = 0) -> int:
        """A function of the consecutive runs of the given length."""
        if length == 0 and opcode == op.NORM:
            return self.constant(0.0)
        count = self.size(a) // length
        if opcode in (op.CUMSUM, op.FIRST_MAX, op.LARGEST):
            size = self.size(a)
        elif opcode in (op.SUM, op.SEGMENT_MAX, op.NORM):
            size = count
        else:
            raise unknown_instruction(opcode, "the builder's functions of runs")
        return self.emit(opcode, (a,), size, (count, length, k))

    def sum(self, a: int, length: int | None = None) -> int:
        """Sums of the consecutive runs of the given length, of all elements by default."""
        length = self.size(a) if length is None else length
        node = self.nodes[a]
        if length == 0:  # of nothing
            return self.constant(0.0)
        if length == 1:
            return a
        if node.op == op.FILL:
            total = self.scale(float(length), node.args[0])
            return self.fill(total, node.size // length)
        if node.op == op.MUL and length == node.size:
            left, right = node.args
            if self.size(left) == 1:
                return self.mul(left, self.sum(right))
            if self.size(right) == 1:
                return self.mul(right, self.sum(left))
            return self.dot(left, right)
        if node.op == op.NEG and length == node.size:
            return self.unary(op.NEG, self.sum(node.args[0]))
        return self.segments(op.SUM, a, length)

    def repeat(self, a: int, length: int) -> int:
        """Each element repeated: the adjoint of ``sum``."""
        if self.size(a) == 1:
            return self.fill(a, length)
        return self.gather(a, np.repeat(np.arange(self.size(a)), length))

    # Products with matrices

    def dot(self, a: int, b: int) -> int:
        """The inner product of two vectors of the same size."""
        return self.matmul(a, b, 1, self.size(a), 1)

    def matmul(
        self,
        a: int,
        b: int,
        m: int,
        k: int,
        n: int,
        a_transposed: bool = False,
        b_transposed: bool = False,
    ) -> int:
        """The m x n product of an m x k and a k x n matrix, each perhaps stored transposed."""
        if k == 1 and (m == 1 or n == 1):
            return self.mul(a, b, m * n)
        if m == 1 and n == 1:
            for one, other in ((a, b), (b, a)):
                if self.nodes[one].op == op.FILL:
                    return self.mul(self._unfilled(one), self.sum(other))
            a, b = min(a, b), max(a, b)
        for operand in (a, b):
            if self.scalar_value(operand) == 0.0:
                return self.zeros(m * n)
        # The orientation of a vector makes no difference to how it is stored.
        transposed = int(a_transposed and m > 1 and k > 1)
        transposed += 2 * int(b_transposed and k > 1 and n > 1)
        return self.emit(op.MATMUL, (a, b), m * n, (m, k, n, transposed))

    def sparse(self, matrix: SparseMatrix, a: int, columns: int = 1) -> int:
        """A constant sparse matrix times each of the columns stored in ``a``."""
        if matrix.csr.nnz == 0 or self.scalar_value(a) == 0.0:
            return self.zeros(matrix.shape[0] * columns)
        return self.emit(op.SPARSE, (a,), matrix.shape[0] * columns, (matrix, columns))


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _counts_up(numbers: np.ndarray, size: int) -> bool:
    """Whether these are 0, 1, ..., size - 1."""
    if len(numbers) != size or numbers[0] != 0 or numbers[-1] != size - 1:
        return False
    return bool(np.all(numbers[1:] > numbers[:-1]))


def _flattened(values: Any) -> np.ndarray:
    """A copy, column by column; a large array that cannot change is read where it lies."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float64 or not is_large(values):
        return np.array(values, dtype=float).ravel(order="F")
    if values.flags.writeable or not (values.ndim == 1 or values.flags.f_contiguous):
        values = np.array(values, dtype=float, order="F")
        values.flags.writeable = False
    return interned(values.ravel(order="F"))


def _data_key(data: Any) -> Any:
    if isinstance(data, np.ndarray):
        return digest(data)
    if isinstance(data, tuple) and data and isinstance(data[0], np.ndarray):
        return digest(*(part for part in data if part is not None)), data[1] is None
    if isinstance(data, tuple) and data and isinstance(data[0], SparseMatrix):
        return data[0].key, data[1]
    return data
