"""Which variables meet: entries of inputs that no sum keeps apart, from the tapes of a model.

Every element of every value of a tape is a vertex of a graph. An element is tied to the elements that
it is made of, unless it is a plain sum of them and is itself only added to the result: terms of a sum do
not meet. What is connected in this graph belongs together; what is not could be computed apart. All of
it costs as much as reading the tapes once.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from blomodel.basics import limits
from blomodel.compiler.tape import Node, Tape, unknown_instruction
from blomodel.kernels import machine as op


class Meetings:
    """Entries of input blocks, and what ties them together.

    Parameters
    ----------
    sizes : dict
        The size of each block whose entries are told apart; others count as numbers.

    Examples
    --------
    >>> import cvxpy as cp
    >>> from blomodel.compiler.blocks import Block
    >>> from blomodel.compiler.lowering import lower
    >>> y = cp.Variable(4)
    >>> meetings = Meetings({"y": 4})
    >>> _ = meetings.add(lower([cp.sum_squares(y) + y[0] * y[1]], [Block("y", [y])]), is_sum=True)
    >>> meetings.groups()["y"].tolist()
    [0, 0, 1, 2]
    """

    sizes: dict[str, int]
    n_vertices: int
    n_entries: int

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        begins = np.cumsum([0, *self.sizes.values()])
        self._begin = dict(zip(self.sizes, begins, strict=False))
        self.n_vertices = self.n_entries = int(begins[-1])
        self._edges: list[tuple[np.ndarray, np.ndarray]] = []

    def entries(self, name: str) -> np.ndarray:
        """The vertices of a block's entries."""
        return self._begin[name] + np.arange(self.sizes[name])

    def tie(self, first: np.ndarray, second: np.ndarray) -> None:
        """Tie vertices pairwise, or one of them to all the others."""
        first, second = np.broadcast_arrays(first, second)
        if first.size:
            self._edges.append((first.ravel(), second.ravel()))

    def add(self, tape: Tape, *, is_sum: bool) -> np.ndarray:
        """Tie what meets in a tape; the vertices of its outputs.

        Parameters
        ----------
        is_sum : bool
            Whether terms of the outputs may go apart, as in an objective; rows may not.
        """
        walk = _Walk(self, tape)
        walk.tied[tape.output][:] = not is_sum
        for number in range(len(tape.nodes) - 1, -1, -1):
            walk.visit(number)
        return walk.vertices[tape.output]

    def components(self) -> np.ndarray:
        """The number of the component that each vertex lies in."""
        pairs = [np.concatenate(side) for side in zip(*self._edges, strict=True)]
        first, second = pairs if pairs else (np.empty(0, int), np.empty(0, int))
        shape = (self.n_vertices, self.n_vertices)
        graph = sp.coo_array((np.ones(first.size, dtype=np.int8), (first, second)), shape=shape)
        return np.asarray(connected_components(graph, directed=False)[1])

    def groups(self) -> dict[str, np.ndarray]:
        """For each block the number of the group that each entry lies in, counted from 0."""
        label = self.components()[: self.n_entries]
        _, first, number = np.unique(label, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))  # in the order of first occurrence
        return {name: rank[number][self.entries(name)] for name in self.sizes}

    def further(self, count: int) -> np.ndarray:
        """Vertices that are not used yet."""
        begin, self.n_vertices = self.n_vertices, self.n_vertices + count
        return np.arange(begin, self.n_vertices)


class _Walk:
    """A tape from its result back to its inputs."""

    def __init__(self, meetings: Meetings, tape: Tape) -> None:
        self.meetings, self.tape = meetings, tape
        # Constants are never tied to anything, and may be large: they have no vertices.
        self.tied = [np.zeros(_own_size(node), dtype=bool) for node in tape.nodes]
        self.vertices: list[np.ndarray] = []
        self.moves: list[np.ndarray] = []  # whether an element depends on a variable
        for node in tape.nodes:
            name = tape.input_names[node.data] if node.op == op.INPUT else None
            if name in meetings.sizes:
                self.vertices.append(meetings.entries(name))
            else:
                self.vertices.append(meetings.further(_own_size(node)))
            self.moves.append(self._moves(node, name))

    def _moves(self, node: Node, name: str | None) -> np.ndarray:
        if node.op == op.INPUT:
            return np.full(node.size, name in self.meetings.sizes)
        if node.op == op.CONSTANT:
            return np.broadcast_to(np.False_, node.size)
        moving = [self.moves[arg] for arg in node.args]
        if node.op in op.UNARY or node.op in (op.FILL, op.FREEZE):
            return np.broadcast_to(moving[0], node.size)
        if node.op in op.BINARY:
            return np.broadcast_to(moving[0] | moving[1], node.size)
        if node.op == op.SELECT:
            source, target = node.data
            taken = np.concatenate(moving)[source]
            if target is None:
                return taken
            return np.bincount(target, weights=taken, minlength=node.size) > 0
        if node.op == op.SPARSE:
            matrix, columns = node.data
            pattern = sp.csr_array(matrix.csr != 0, dtype=float)
            blocks = moving[0].astype(float).reshape(columns, -1).T
            return np.asarray(pattern @ blocks > 0).ravel(order="F")
        if node.op in op.SEGMENTS:
            count, length, _ = node.data
            return np.repeat(moving[0].reshape(count, length).any(axis=1), node.size // count)
        if node.op == op.MATMUL:
            a, b = self._factors(node, *moving)
            return np.logical_or.outer(a.any(axis=1), b.any(axis=0)).ravel(order="F")
        raise unknown_instruction(node.op, "the variables that meet")

    @staticmethod
    def _factors(node: Node, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Elements of both factors of a product, laid out as matrices (m, k) and (k, n)."""
        m, k, n, transposed = node.data
        left = a.reshape(m, k) if transposed % 2 else a.reshape(m, k, order="F")
        right = b.reshape(k, n) if transposed % 4 >= 2 else b.reshape(k, n, order="F")
        return left, right

    def visit(self, number: int) -> None:
        """Tie a node's elements to those that they are made of, where a sum does not keep them apart."""
        node = self.tape.nodes[number]
        if node.op in (op.INPUT, op.CONSTANT) or node.size == 0:
            return
        if node.op == op.MATMUL:
            self._visit_product(number, node)
        elif node.op in (op.SELECT, op.SPARSE):
            self._visit_map(number, node)
        elif node.op in op.SEGMENTS:
            count, length, _ = node.data
            inner = np.arange(count * length)
            if node.size == count:
                outer = np.repeat(np.arange(count), length)
            else:  # each element of a run may hold all of the run
                outer = np.repeat(np.arange(node.size), length)
                inner = np.repeat(inner.reshape(count, length), node.size // count, axis=0).ravel()
            if node.op not in (op.SUM, op.CUMSUM):
                self.tied[number][:] = True
            self._tie(number, outer, node.args[0], inner)
        else:
            self._visit_elements(number, node)

    def _visit_elements(self, number: int, node: Node) -> None:
        """Functions of one or two operands, element by element."""
        moving = [self.moves[arg] for arg in node.args]
        if node.op in op.BINARY and node.op not in (op.ADD, op.SUB):
            of_first, of_second = (np.broadcast_to(part, node.size) for part in moving)
            is_linear = np.zeros(node.size, dtype=bool)
            if node.op == op.MUL:
                is_linear = ~(of_first & of_second)
            elif node.op in (op.DIV, op.SAFE_DIV):
                is_linear = ~of_second
            self.tied[number] |= ~is_linear
        elif node.op in op.UNARY and node.op != op.NEG:
            self.tied[number][:] = True
        outer = np.arange(node.size)
        if node.op == op.MUL:
            zeros = [np.broadcast_to(self._is_zero(arg), node.size) for arg in node.args]
            outer = np.flatnonzero(~(zeros[0] | zeros[1]))
        for arg in node.args:
            size = self.tape.nodes[arg].size
            self._tie(number, outer, arg, outer if size == node.size else np.zeros_like(outer))

    def _visit_map(self, number: int, node: Node) -> None:
        """Gathered elements, and products with constant matrices."""
        if node.op == op.SELECT:
            source, target = node.data
            outer = np.arange(source.size) if target is None else np.asarray(target)
            ends = np.cumsum([self.tape.nodes[arg].size for arg in node.args])
            part = np.searchsorted(ends, source, side="right")
            for which, arg in enumerate(node.args):
                here = part == which
                begin = ends[which] - self.tape.nodes[arg].size
                self._tie(number, outer[here], arg, np.asarray(source)[here] - begin)
            return
        matrix, columns = node.data
        rows, width = matrix.csr.shape
        lengths = np.diff(matrix.csr.indptr)
        for column in range(columns):
            tied = self.tied[number][column * rows : (column + 1) * rows]
            if not tied.any():
                continue
            full = np.flatnonzero(tied & (lengths == width))
            if full.size and self.moves[node.args[0]][column * width : (column + 1) * width].all():
                # A full row ties all columns, so that of other rows one entry is enough.
                chosen = np.flatnonzero(tied & (lengths > 0))
                outer = np.concatenate([np.full(width, full[0]), chosen])
                inner = np.concatenate([np.arange(width), matrix.csr.indices[matrix.csr.indptr[chosen]]])
                self.tied[node.args[0]][column * width : (column + 1) * width] = True
            else:
                outer, inner = np.repeat(np.arange(rows), lengths), matrix.csr.indices
            self._tie(number, column * rows + outer, node.args[0], column * width + inner)

    def _visit_product(self, number: int, node: Node) -> None:
        """A product of two matrices: a sum of products of two elements each."""
        m, k, n, _ = node.data
        vector = self._vector_beside_full(node)
        if vector is not None:
            moving, tied = np.flatnonzero(self.moves[vector]), np.flatnonzero(self.tied[number])
            if moving.size and tied.size:
                # One row of the matrix ties all entries, so that of other rows one entry is enough.
                self._tie(number, np.full(moving.size, tied[0]), vector, moving)
                self._tie(number, tied, vector, np.full(tied.size, moving[0]))
            return
        if not limits.MEETING_PRODUCTS.allows(m * k * n):
            self.tied[number][:] = True
            for arg in node.args:
                where = np.flatnonzero(self.moves[arg])
                self._tie(number, np.zeros_like(where), arg, where)
            self.meetings.tie(self.vertices[number][0], self.vertices[number])
            return
        places = [np.arange(self.tape.nodes[arg].size) for arg in node.args]
        left, right = self._factors(node, *places)
        # Element (i, j) is the sum over l of a_il b_lj.
        a = np.broadcast_to(left[:, :, None], (m, k, n)).ravel()
        b = np.broadcast_to(right[None, :, :], (m, k, n)).ravel()
        out = np.broadcast_to(np.arange(m * n).reshape(m, n, order="F")[:, None, :], (m, k, n)).ravel()
        first, second = node.args
        both = self.moves[first][a] & self.moves[second][b]
        if both.any():
            self.meetings.tie(self.vertices[first][a[both]], self.vertices[second][b[both]])
            self.tied[first][a[both]] = True
            self.tied[second][b[both]] = True
        counts = ~self._is_zero(first)[a] & ~self._is_zero(second)[b]
        self._tie(number, out[counts], first, a[counts])
        self._tie(number, out[counts], second, b[counts])

    def _vector_beside_full(self, node: Node) -> int | None:
        """The vector of a product of a vector and a constant matrix without zeros."""
        m, _, n, _ = node.data
        for factor, vector, width in (node.args + (n,), node.args[::-1] + (m,)):
            constant = self.tape.nodes[factor]
            if width == 1 and constant.op == op.CONSTANT and np.all(constant.data):
                return vector
        return None

    def _is_zero(self, number: int) -> np.ndarray:
        """Which elements of a value are known to be zero."""
        node = self.tape.nodes[number]
        return np.asarray(node.data) == 0 if node.op == op.CONSTANT else np.zeros(node.size, dtype=bool)

    def _tie(self, number: int, outer: np.ndarray, arg: int, inner: np.ndarray) -> None:
        """Tie elements of a node to elements of an operand, pair by pair, where they must be."""
        wanted = self.tied[number][outer] & self.moves[arg][inner]
        outer, inner = outer[wanted], inner[wanted]
        if not outer.size:
            return
        self.meetings.tie(self.vertices[number][outer], self.vertices[arg][inner])
        self.tied[arg][inner] = True


def _own_size(node: Node) -> int:
    return 0 if node.op == op.CONSTANT else node.size
