"""A node of a tape as a linear combination of vectors, with coefficients affine in the weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from blomodel.compiler.builder import TapeBuilder
from blomodel.kernels import machine as op


class Combination:
    """constant + sum_j coefficient_j * vector_j for a node of a builder whose input 0 is the weights.

    A coefficient is an array: a fixed part, then the factor of each weight. Sums, differences and
    products with numbers and weights are taken apart; every other node is a vector of its own.

    Attributes
    ----------
    constant : array
    vectors : dict
        From the number of a node to its coefficient.
    one : array
        The coefficient 1.
    """

    b: TapeBuilder
    size: int
    one: Any
    constant: Any

    def __init__(self, b: TapeBuilder, node: int) -> None:
        self.b, self.size = b, b.size(node)
        self.one = np.eye(1 + b.input_sizes[0])[0]
        self.constant = np.zeros_like(self.one)
        self.vectors: dict[int, np.ndarray] = {}
        self._add(node, self.one)
        self.vectors = {vector: c for vector, c in self.vectors.items() if c.any()}

    def _add(self, number: int, factor: np.ndarray) -> None:
        node = self.b.nodes[number]
        if node.op == op.FILL or node.size == 1:
            number_of = node.args[0] if node.op == op.FILL else number
            value = self._affine(number_of)
            product = None if value is None else _product(factor, value)
            if product is not None:
                self.constant = self.constant + product
                return
        if node.op in (op.NEG, op.FREEZE):
            self._add(node.args[0], -factor if node.op == op.NEG else factor)
            return
        if node.op in (op.ADD, op.SUB):
            left, right = node.args
            self._add(left, factor)
            self._add(right, factor if node.op == op.ADD else -factor)
            return
        if node.op == op.MUL:
            for scalar, vector in (node.args, node.args[::-1]):
                value = self._affine(scalar)
                product = None if value is None else _product(factor, value)
                if product is not None:
                    self._add(vector, product)
                    return
        if node.op == op.DIV:
            divisor = self.b.scalar_value(node.args[1])
            if divisor:
                self._add(node.args[0], factor / divisor)
                return
        vector = number if node.size == self.size else self.b.fill(number, self.size)
        self.vectors[vector] = self.vectors.get(vector, 0.0) + factor

    def _affine(self, number: int) -> np.ndarray | None:
        """A number that is affine in the weights; None for any other node."""
        node = self.b.nodes[number]
        value = self.b.scalar_value(number)
        if value is not None:
            return value * self.one
        if node.size != 1:
            return None
        if node.op == op.INPUT and node.data == 0:
            return np.eye(self.one.size)[1]
        if node.op == op.SELECT and self._is_weights(node.args) and node.data[1] is None:
            return np.eye(self.one.size)[1 + int(node.data[0][0])]
        if node.op not in _AFFINE:
            return None
        parts = [part for part in map(self._affine, node.args) if part is not None]
        if len(parts) < len(node.args):
            return None
        if node.op == op.NEG:
            return -parts[0]
        if node.op == op.MUL:
            return _product(parts[0], parts[1])
        return parts[0] + parts[1] if node.op == op.ADD else parts[0] - parts[1]

    def _is_weights(self, args: tuple[int, ...]) -> bool:
        first = self.b.nodes[args[0]]
        return len(args) == 1 and first.op == op.INPUT and first.data == 0


_AFFINE = (op.NEG, op.ADD, op.SUB, op.MUL)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """The product of two affine functions of the weights, where it is one too."""
    if not b[1:].any():
        return a * b[0]
    return a[0] * b if not a[1:].any() else None
