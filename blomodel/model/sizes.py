"""Absolute values with less below their bars: weights and known signs stand outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import multiply
from cvxpy.atoms.elementwise.abs import abs as abs_atom
from cvxpy.atoms.norm1 import norm1

from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.rewriting import rewrite, squares_for_norms
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.intervals import intervals


class SimplerSizes:
    """Says for ``rewrite`` what stands for a part of an expression.

    Squares are written without norms, |u| as u where u is nonnegative, and |x y| as x |y| where the
    bounds of x tell its sign.

    Parameters
    ----------
    blocks : sequence of Block
        The blocks "x", "y" and "p".
    x_bounds : tuple of arrays
    """

    blocks: Sequence[Block]
    x_bounds: tuple[np.ndarray, np.ndarray]

    def __init__(self, blocks: Sequence[Block], x_bounds: tuple[np.ndarray, np.ndarray]) -> None:
        self.blocks, self.x_bounds = blocks, x_bounds

    def __call__(self, part: Any) -> cp.Expression | None:
        """The simpler part; None where it stays as it is."""
        if not isinstance(part, abs_atom | norm1) or not part.variables():
            return squares_for_norms(part)
        size = self._size(part.args[0])
        if size is None:
            return None
        return size if isinstance(part, abs_atom) else cp.sum(size, part.axis, part.keepdims)

    def _size(self, argument: Any) -> cp.Expression | None:
        """|argument| with fewer parts below the bars; None where nothing can be taken out."""
        if argument.is_nonneg():
            return rewrite(argument, self)
        if isinstance(argument, multiply):
            for factor, other in (argument.args, argument.args[::-1]):
                weight = self._weight(factor)
                if weight is not None:
                    size = self._size(other)
                    return cp.multiply(weight, cp.abs(other) if size is None else size)
        return None

    def _weight(self, factor: cp.Expression) -> cp.Expression | None:
        """|factor| where it holds upper variables or parameters whose bounds tell its sign."""
        is_number = not (factor.variables() or factor.parameters())
        if is_number or any(variable in self.blocks[1] for variable in factor.variables()):
            return None
        if factor.is_nonneg():
            return factor
        low, high = intervals(lower([factor], self.blocks), {"x": self.x_bounds})
        if low.min(initial=0.0) >= 0:
            return factor
        return -factor if high.max(initial=0.0) <= 0 else None
