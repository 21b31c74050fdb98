"""Many short instructions of one kind put together as one long one.

A model with hundreds of followers is compiled to thousands of instructions on a few numbers each, and
every derivative to as many again; what a pass over a tape costs goes by their number. Instructions of
one kind that do not need each other's results become one instruction on all their operands: three
hundred products of five numbers are one product of fifteen hundred.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.builder import Piece, TapeBuilder
from blomodel.compiler.tape import Node, SparseMatrix, Tape
from blomodel.kernels import machine as op

WORTH = 60  # instructions below which there is nothing to gain
LONG_SUM = 6  # terms from which a sum is one instruction

_Group = tuple[Hashable, ...]
_ALONE: _Group = ("alone",)


def batch_nodes(tape: Tape) -> Tape:
    """The same function in fewer instructions, where there are many."""
    if len(tape.nodes) < WORTH:
        return tape
    batched = _Batching(tape).result()
    return batched if len(batched.nodes) < len(tape.nodes) / 2 else tape


class _Batching:
    """One pass over a tape. Each of its nodes becomes a part of a node of the new one."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.nodes = tape, tape.nodes
        self.b = TapeBuilder(tape.input_names, tape.input_sizes)
        self.place: dict[int, tuple[int, int]] = {}  # node of the new tape, and where in it
        uses = Counter(arg for node in self.nodes for arg in node.args)
        self.uses = uses + Counter({tape.output: 1})
        self.sums = self._long_sums()

    def result(self) -> Tape:
        """The new tape."""
        for level in self._levels():
            for kind, members in level.items():
                if len(members) == 1 or kind == _ALONE:
                    for number in members:
                        self._emit_alone(number)
                else:
                    self._emit_together(kind, members)
        return self.b.finish(self._whole(self.tape.output), self.tape.output_slices)

    # Sums of many terms

    def _long_sums(self) -> dict[int, list[tuple[float, int]]]:
        """For the last addition of every long sum: its terms, each with a sign."""
        inner: set[int] = set()
        sums: dict[int, list[tuple[float, int]]] = {}
        for number in range(len(self.nodes) - 1, -1, -1):
            if self.nodes[number].op in (op.ADD, op.SUB) and number not in inner:
                terms, within = self._terms(number)
                inner |= within
                if len(terms) >= LONG_SUM:
                    sums[number] = terms
        return sums

    def _terms(self, root: int) -> tuple[list[tuple[float, int]], set[int]]:
        """What a sum adds up, and the partial sums that nothing else uses."""
        size, terms, within = self.nodes[root].size, [], set()
        waiting = [(1.0, root)]
        while waiting:
            sign, number = waiting.pop()
            node = self.nodes[number]
            is_own = number == root or (self.uses[number] == 1 and node.size == size)
            if is_own and node.op in (op.ADD, op.SUB, op.NEG):
                within.add(number)
                signs = {op.ADD: (sign, sign), op.SUB: (sign, -sign), op.NEG: (-sign,)}[node.op]
                waiting += list(zip(signs, node.args, strict=True))[::-1]
            else:
                terms.append((sign, number))
        return terms, within

    def _levels(self) -> list[dict[_Group, list[int]]]:
        """The nodes that are needed, by how many come before them, and by kind."""
        level: dict[int, int] = {}
        levels: list[dict[_Group, list[int]]] = []
        needed = self._needed()
        for number in range(len(self.nodes)):
            if number not in needed:
                continue
            operands = self._operands(number)
            level[number] = 1 + max((level[arg] for arg in operands), default=-1)
            while len(levels) <= level[number]:
                levels.append(defaultdict(list))
            levels[level[number]][self._kind(number)].append(number)
        return levels

    def _operands(self, number: int) -> list[int]:
        if number in self.sums:
            return [term for _, term in self.sums[number]]
        return list(self.nodes[number].args)

    def _needed(self) -> set[int]:
        needed, waiting = {self.tape.output}, [self.tape.output]
        while waiting:
            fresh = set(self._operands(waiting.pop())) - needed
            needed |= fresh
            waiting += fresh
        return needed

    # Kinds

    def _kind(self, number: int) -> _Group:
        """Equal for nodes that may be one; those of the kind ``_ALONE`` stay as they are."""
        node = self.nodes[number]
        if number in self.sums or not node.args:
            return _ALONE
        if node.op in op.BINARY:
            left, right = node.args
            # Squares are known as such by their equal operands, powers by a number.
            exponent = self._number(right) if node.op == op.POWER else None
            return (
                _ALONE
                if node.op == op.POWER and exponent is None
                else (node.op, left == right, exponent)
            )
        if node.op in op.UNARY or node.op in (op.FREEZE, op.SELECT, op.FILL):
            return (node.op,)
        if node.op in op.SEGMENTS:
            return (node.op, *node.data[1:])
        if node.op == op.SPARSE and node.data[1] == 1:
            return (node.op,)
        if node.op == op.MATMUL:
            m, k, n, _ = node.data
            if m == n == 1:
                return (node.op, k, node.args[0] == node.args[1])
            if self._constant_factor(node) is not None:
                return (node.op, "constant")
        return _ALONE

    def _number(self, number: int) -> float | None:
        node = self.nodes[number]
        node = self.nodes[node.args[0]] if node.op == op.FILL else node
        return float(node.data[0]) if node.op == op.CONSTANT and node.size == 1 else None

    def _constant_factor(self, node: Node) -> tuple[np.ndarray, int] | None:
        """The matrix of a product of a constant matrix and a vector, and which operand the vector is."""
        m, k, n, transposed = node.data
        for which, (rows, columns, flipped) in enumerate(
            ((m, k, transposed % 2), (k, n, transposed // 2))
        ):
            factor = self.nodes[node.args[which]]
            if factor.op == op.CONSTANT and (n if which == 0 else m) == 1:
                shape = (columns, rows) if flipped else (rows, columns)
                matrix = factor.data.reshape(shape, order="F")
                matrix = matrix.T if flipped else matrix
                return (matrix if which == 0 else matrix.T), 1 - which
        return None

    # Emission

    def _whole(self, number: int) -> int:
        """A node of the old tape as a node of the new one."""
        node, begin = self.place[number]
        size = self.nodes[number].size
        if begin == 0 and self.b.size(node) == size:
            return node
        return self.b.gather(node, np.arange(begin, begin + size))

    def _emit_alone(self, number: int) -> None:
        node = self.nodes[number]
        if number in self.sums:
            made = self._sum(self.sums[number], node.size)
        elif node.op == op.SELECT:
            made = self._selected([node], [node.size])
        else:
            args = tuple(self._whole(arg) for arg in node.args)
            made = self.b.emit(node.op, args, node.size, node.data)
        self.place[number] = made, 0

    def _sum(self, terms: list[tuple[float, int]], size: int) -> int:
        """A sum of many terms: what is added, less what is subtracted."""
        totals = []
        for wanted in (1.0, -1.0):
            pieces = [self._piece(t, size, 0) for sign, t in terms if sign == wanted]
            totals.append(self.b.select(size, pieces) if pieces else None)
        added, taken = totals
        if added is None:
            return self.b.unary(op.NEG, taken) if taken is not None else self.b.zeros(size)
        return added if taken is None else self.b.sub(added, taken, size)

    def _piece(self, number: int, size: int, target: int) -> Piece:
        """The elements of a node, a single one repeated, at consecutive positions of a longer vector."""
        node, begin = self.place[number]
        own = self.nodes[number].size
        source = np.full(size, begin) if own == 1 else np.arange(begin, begin + own)
        return node, source, np.arange(target, target + size)

    def _joined(self, operands: list[int], sizes: list[int]) -> int:
        """The operands one after another, single numbers repeated to their sizes."""
        ends = np.cumsum(sizes)
        pieces = [
            self._piece(number, size, int(end) - size)
            for number, size, end in zip(operands, sizes, ends, strict=True)
        ]
        return self.b.select(int(ends[-1]), pieces)

    def _emit_together(self, kind: _Group, members: list[int]) -> None:
        nodes = [self.nodes[number] for number in members]
        sizes = [node.size for node in nodes]
        made = self._together(kind, nodes, sizes)
        for number, end, size in zip(members, np.cumsum(sizes), sizes, strict=True):
            self.place[number] = made, int(end) - size

    def _together(self, kind: _Group, nodes: list[Node], sizes: list[int]) -> int:
        b, opcode = self.b, nodes[0].op
        first = [node.args[0] for node in nodes]
        own_sizes = [self.nodes[number].size for number in first]
        if opcode in op.BINARY:
            left = self._joined(first, sizes)
            right = left if kind[1] else self._joined([node.args[1] for node in nodes], sizes)
            return b.binary(opcode, left, right, sum(sizes))
        if opcode == op.FREEZE:
            return b.freeze(self._joined(first, sizes))
        if opcode in op.UNARY:
            return b.unary(opcode, self._joined(first, sizes))
        if opcode == op.FILL:
            return self._joined(first, sizes)
        if opcode == op.SELECT:
            return self._selected(nodes, sizes)
        if opcode in op.SEGMENTS:
            _, length, k = nodes[0].data
            whole = self._joined(first, own_sizes)
            return b.sum(whole, length) if opcode == op.SUM else b.segments(opcode, whole, length, k)
        if opcode == op.SPARSE:
            blocks = [node.data[0].csr for node in nodes]
            return b.sparse(
                SparseMatrix(sp.block_diag(blocks, format="csr")), self._joined(first, own_sizes)
            )
        if kind[1] == "constant":
            parts = [part for part in map(self._constant_factor, nodes) if part is not None]
            vectors = [node.args[which] for node, (_, which) in zip(nodes, parts, strict=True)]
            blocks = sp.block_diag([matrix for matrix, _ in parts], format="csr")
            return b.sparse(SparseMatrix(blocks), self._joined(vectors, [m.shape[1] for m, _ in parts]))
        left = self._joined(first, own_sizes)
        right = left if kind[2] else self._joined([node.args[1] for node in nodes], own_sizes)
        return b.segments(op.SUM, b.mul(left, right, sum(own_sizes)), nodes[0].data[1])

    def _selected(self, nodes: list[Node], sizes: list[int]) -> int:
        """Selections one after another: one selection."""
        pieces: list[Piece] = []
        begin = 0
        for node, size in zip(nodes, sizes, strict=True):
            source, target = node.data
            target = np.arange(size) if target is None else target
            ends = np.cumsum([self.nodes[arg].size for arg in node.args])
            part = np.searchsorted(ends, source, side="right")
            for k, arg in enumerate(node.args):
                taken = part == k
                where, offset = self.place[arg]
                own = source[taken] - (ends[k] - self.nodes[arg].size)
                pieces.append((where, own + offset, target[taken] + begin))
            begin += size
        return self.b.select(begin, pieces)
