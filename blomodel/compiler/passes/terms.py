"""A scalar function as a sum of terms, so that one run tells the value of each of its parts.

``sum(cos(y)) + sum_squares(y - x)`` is one number, and which entry of y it is due to cannot be seen in
it. Here its tape is taken apart where numbers are added up: the result has an element for each summand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.passes.dependence import dependence
from blomodel.compiler.passes.linearisation import copied, selections
from blomodel.compiler.tape import Node, Tape
from blomodel.kernels import machine as op


def terms(tape: Tape, name: str = "y") -> Tape:
    """A tape whose elements, added up, are the value of a scalar one: all summands that hold a block.

    What does not hold the block is left out of it.
    """
    return _Summands(tape, name).result()


def owners_of_terms(summands: Tape, groups: list[np.ndarray], name: str = "y") -> np.ndarray | None:
    """Which group of the block's elements each summand holds; None where one holds several groups.

    A summand that seems to hold none gets the number of groups.
    """
    holds = dependence(summands, name)
    held = np.column_stack([holds[:, group].any(axis=1) for group in groups])
    if np.any(held.sum(axis=1) > 1):
        return None
    return np.where(held.any(axis=1), held.argmax(axis=1), len(groups))


@dataclass(frozen=True, eq=False)
class _Part:
    """Elements of a node that are added up, each with a factor, a node of the new tape."""

    number: int
    factor: int  # of one element, or of as many as the node has
    is_used: np.ndarray  # which elements there are: others may be undefined


class _Summands:
    """Goes back from the value through all that is linear."""

    def __init__(self, tape: Tape, name: str) -> None:
        self.tape = tape
        self.b = TapeBuilder(tape.input_names, tape.input_sizes)
        self.new, self.is_held = copied(tape, self.b, (name,))
        self.found: list[int] = []

    def result(self) -> Tape:
        waiting = [_Part(self.tape.output, self.b.constant(1.0), np.ones(1, bool))]
        while waiting:
            part = waiting.pop()
            if self.is_held[part.number] and part.is_used.any():
                waiting += self._parts(part)
        return self.b.finish(self.b.concatenate(self.found) if self.found else self.b.zeros(1))

    def _parts(self, part: _Part) -> list[_Part]:
        """Operands that a node adds up; a node of another kind is kept as it is."""
        b, node, factor = self.b, self.tape.nodes[part.number], part.factor
        is_dot = node.op == op.MATMUL and node.data[0] == node.data[2] == 1
        if node.op in (op.ADD, op.SUB):
            left, right = node.args
            second = factor if node.op == op.ADD else b.scale(-1.0, factor)
            return [self._fitted(left, part, factor), self._fitted(right, part, second)]
        if node.op == op.NEG:
            return [self._fitted(node.args[0], part, b.scale(-1.0, factor))]
        if node.op == op.FILL:
            return [self._fitted(node.args[0], part, factor)]
        if node.op == op.SUM:
            count, length, _ = node.data
            spread = factor if b.size(factor) == 1 else b.repeat(factor, length)
            return [_Part(node.args[0], spread, np.repeat(part.is_used, length))]
        if node.op == op.SPARSE:
            return [self._of_sparse(part)]
        if node.op == op.SELECT:
            return self._of_selection(part)
        if node.op == op.MUL or is_dot:
            return self._of_product(part)
        if node.op == op.DIV and not self.is_held[node.args[1]]:
            divisor = self.new[node.args[1]]
            share = b.div(factor, divisor, max(b.size(factor), b.size(divisor)))
            return [self._fitted(node.args[0], part, share)]
        self._keep(self.new[part.number], part.is_used, factor)
        return []

    def _of_sparse(self, part: _Part) -> _Part:
        b, node = self.b, self.tape.nodes[part.number]
        matrix, columns = node.data
        carried = b.sparse(matrix.transposed, b.fill(part.factor, node.size), columns)
        pattern = abs(matrix.csr.T).sign()
        used = [pattern @ own.astype(float) > 0 for own in part.is_used.reshape(columns, -1)]
        return _Part(node.args[0], carried, np.concatenate(used))

    def _of_selection(self, part: _Part) -> list[_Part]:
        b, node = self.b, self.tape.nodes[part.number]
        filled = b.fill(part.factor, node.size)
        here = Node(node.op, tuple(self.new[arg] for arg in node.args), node.size, node.data)
        found = []
        for arg, taken in zip(node.args, selections(b, here), strict=True):
            is_used = np.zeros(b.size(self.new[arg]), bool)
            is_used[taken.source[part.is_used[taken.target]]] = True
            carried = b.select(is_used.size, [(filled, taken.target, taken.source)])
            found.append(_Part(arg, carried, is_used))
        return found

    def _of_product(self, part: _Part) -> list[_Part]:
        """A product element by element, or an inner one, whose elements are all used."""
        b, node = self.b, self.tape.nodes[part.number]
        size = max(b.size(self.new[arg]) for arg in node.args)
        elements = _Part(part.number, part.factor, np.broadcast_to(part.is_used, size))
        for one, other in (node.args, node.args[::-1]):
            if not self.is_held[other]:
                fixed = self.new[other]
                both = b.mul(part.factor, fixed, max(b.size(part.factor), b.size(fixed)))
                return [self._fitted(one, elements, both)]
        product = b.mul(self.new[node.args[0]], self.new[node.args[1]], size)
        self._keep(product, elements.is_used, part.factor)
        return []

    def _fitted(self, arg: int, part: _Part, factor: int) -> _Part:
        """The same for an operand: a single number that is used for all elements counts for each."""
        b, used = self.b, part.is_used
        if b.size(self.new[arg]) > 1 or used.size == 1:
            return _Part(arg, factor, used)
        if b.size(factor) == 1:
            return _Part(arg, b.scale(float(used.sum()), factor), np.ones(1, bool))
        return _Part(arg, b.sum(b.gather(factor, np.flatnonzero(used))), np.ones(1, bool))

    def _keep(self, value: int, is_used: np.ndarray, factor: int) -> None:
        b, used = self.b, np.flatnonzero(is_used)
        own = b.gather(value, used)
        share = factor if b.size(factor) == 1 else b.gather(factor, used)
        self.found.append(b.mul(share, own, used.size))
