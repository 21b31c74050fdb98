"""A lower level that is concave along each coordinate over a box has a minimiser at a corner.

Moving one coordinate at a time to the better of its ends never raises such a function, so that its
least value over all corners is the least value of all. Where corners are few this is exact.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from blomodel.basics import limits
from blomodel.compiler.passes.derivatives import hessian
from blomodel.compiler.passes.polynomial import polynomial
from blomodel.programs.hoisting import Hoister

if TYPE_CHECKING:
    from blomodel.model.local_search import LocalSearch
    from blomodel.model.model import Model


class BoxCorners:
    """The lower answers of a model whose objective is concave along each coordinate."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @cached_property
    def _is_quadratic(self) -> bool:
        return bool(polynomial(self.model.g, variable="y", coefficient="x").degree[0] <= 2)

    @cached_property
    def _is_concave(self) -> bool:
        """Whether g is concave in y at every x by cvxpy's rules."""
        with np.errstate(invalid="ignore"):  # cvxpy multiplies infinite bounds by zero
            hoisted = Hoister(self.model.blocks, self.model.x_bounds)(self.model.g_expression)
            return bool(hoisted.is_concave())

    @cached_property
    def _signs(self) -> np.ndarray:
        """Which end of each coordinate, one corner to a row."""
        n = self.model.y.size
        return (np.arange(2**n)[:, None] >> np.arange(n)) % 2 == 1

    def answer(self, search: LocalSearch) -> np.ndarray | None:
        """The minimiser at the search's x; None where corners need not hold one, or are many."""
        n = self.model.y.size
        if not limits.BOX_CORNERS.allows(n) or search.has_rows:
            return None
        low, high = search.low, search.high
        if not np.isfinite(low).all() or not np.isfinite(high).all() or np.any(low > high):
            return None
        if self._is_quadratic:
            return self._least_corner_of_quadratic(search)
        if not self._is_concave:
            return None
        corners = np.where(self._signs, high, low)
        values = np.array([search.value(corner) for corner in corners])
        return corners[np.argmin(values)] if np.isfinite(values).all() else None

    def _least_corner_of_quadratic(self, search: LocalSearch) -> np.ndarray | None:
        model, x, p = self.model, search.x, search.p
        origin = np.zeros(model.y.size)
        matrix = hessian(model.g, ("y",), (x, origin, p)).toarray()
        slope = model.g_grad(x, origin, p)[model.x.size :]
        if not (np.isfinite(matrix).all() and np.isfinite(slope).all()):
            return None
        if np.any(np.diag(matrix) > 0):
            return None
        corners = np.where(self._signs, search.high, search.low)
        values = np.einsum("ki,ij,kj->k", corners, matrix, corners, optimize=True) / 2 + corners @ slope
        return corners[np.argmin(values)]
