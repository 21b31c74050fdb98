"""Sums over the rows of data, and the same function of a few rows at a time.

The tapes are those of ``compiler/row_parts.py``. Rows of a sparse matrix have different numbers of
entries, for which a tape has no place. So their products with what stands behind the matrix are inputs
too, found outside of the tape, and slopes in these inputs are carried back by the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.passes.derivatives import jvp, vjp
from blomodel.compiler.row_parts import DATA, RowParts, take_apart
from blomodel.compiler.tape import Tape


@dataclass(eq=False)
class RowSum:
    """A function of x, y and p as a sum over rows, and its tape for some of them.

    Attributes
    ----------
    tape : Tape
        Of x, y, p, the data of the rows, those entries of x that belong to the rows, and the products of
        sparse rows.
    n_rows, batch_size : int
    """

    parts: RowParts = field(repr=False)

    def __post_init__(self) -> None:
        self.tape, self.n_rows, self.batch_size = self.parts.tape, self.parts.n_rows, self.parts.size
        self._products = self.parts.products
        self._data = np.zeros(self.tape.input_size(DATA))
        self._chosen: tuple[np.ndarray, list[sp.csr_array]] = (np.empty(0), [])

    def inputs(
        self, x: np.ndarray, y: np.ndarray, p: np.ndarray, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The last three inputs of the tape, for these rows; the next call uses the first one again."""
        self.parts.fill(self._data, rows)
        products = [
            product.forward(chosen, product.factor(x, y, p))
            for product, chosen in zip(self._products, self._sparse_rows(rows), strict=True)
        ]
        return self._data, x[self.places(rows)], np.concatenate([np.empty(0), *products])

    def _sparse_rows(self, rows: np.ndarray) -> list[sp.csr_array]:
        """These rows of each sparse matrix; several slopes are taken on one batch."""
        if self._chosen[0] is not rows:
            whole = len(rows) == self.n_rows
            found = [p.matrix if whole else p.matrix[rows] for p in self._products]
            self._chosen = (rows, found)
        return self._chosen[1]

    @property
    def has_products(self) -> bool:
        """Whether there are sparse rows."""
        return bool(self._products)

    def through_products(
        self, block: str, point: tuple[np.ndarray, ...], rows: np.ndarray, slopes: np.ndarray
    ) -> np.ndarray | float:
        """The part of the slope in x or y that comes by the products, from the slope in these."""
        return sum(
            vjp(product.factor, block)(*point, product.backward(chosen, slopes))
            for product, chosen in zip(self._products, self._sparse_rows(rows), strict=True)
            if product.factor.depends_on(block)
        )

    def moved_products(
        self, point: tuple[np.ndarray, ...], rows: np.ndarray, direction: np.ndarray
    ) -> np.ndarray:
        """How the products change along a direction in y."""
        return np.concatenate([np.empty(0), *(
            product.forward(chosen, jvp(product.factor, "y")(*point, direction))
            for product, chosen in zip(self._products, self._sparse_rows(rows), strict=True)
        )])  # fmt: skip

    def moved_slope(
        self,
        point: tuple[np.ndarray, ...],
        rows: np.ndarray,
        slopes: np.ndarray,
        direction: np.ndarray,
        moved: np.ndarray,
    ) -> np.ndarray | float:
        """How ``through_products`` in y changes along a direction, along which the slopes move too."""
        total: np.ndarray | float = 0.0
        for product, chosen in zip(self._products, self._sparse_rows(rows), strict=True):
            back = vjp(product.factor, "y")
            tangent = np.concatenate([direction, product.backward(chosen, moved)])
            along = jvp(back, ("y", back.input_names[-1]))
            total = total + along(*point, product.backward(chosen, slopes), tangent)
        return total

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Which entries of x belong to the rows, in the order of the last input."""
        return self.parts.places(rows)


def row_sum(tape: Tape, batch_size: int, name: str) -> RowSum:
    """Take a scalar tape of x, y and p apart; NotASumError says why that is not possible.

    ``name`` is what the message calls the function.
    """
    return RowSum(take_apart(tape, batch_size, f"batch_size: {name}"))
