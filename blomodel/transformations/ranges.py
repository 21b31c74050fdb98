"""Ranges of variables that bounds and affine rows imply together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from blomodel.basics.memory import remembered
from blomodel.model.model import Model
from blomodel.model.rows import Linearisation, Rows

NEGLIGIBLE = 1e-14  # relative; coefficients below are what rounding leaves
ROUNDS = 3  # of implying ranges by rows

At = tuple[np.ndarray, np.ndarray, np.ndarray]  # x, y and parameters


@dataclass(frozen=True, eq=False)
class Line:
    """Rows linearised: slopes, and the constants that are left at the origin."""

    slopes: sp.coo_array
    constants: np.ndarray

    @classmethod
    def of(cls, rows: Rows, at: At) -> Line:
        """The rows at a point."""
        n_z = at[0].size + at[1].size
        if not len(rows):
            return cls(sp.coo_array((0, n_z)), np.empty(0))
        line: Linearisation = rows.linearise(*at)
        slopes = sp.coo_array(sp.hstack([line.in_x, line.in_y]))
        z = np.concatenate(at[:2])
        constants = line.value - slopes @ z
        # What is left of cancelling says nothing.
        reach = np.abs(line.value) + abs(slopes) @ np.abs(z)
        constants[np.abs(constants) <= NEGLIGIBLE * reach] = 0.0
        return cls(slopes, constants)


def middle_of(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The middle of each range; what is next to zero where it has no middle."""
    middle = np.clip(0.0, low, high)
    is_bounded = np.isfinite(low) & np.isfinite(high)
    middle[is_bounded] = (low[is_bounded] + high[is_bounded]) / 2
    return middle


@remembered
def implied_ranges(model: Model, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ranges of x and y that bounds and affine rows imply together."""
    kinds = (model.upper_in, model.upper_eq, model.lower_in, model.lower_eq)
    bounds = model.bounds(p), model.y_bounds
    low, high = (np.concatenate([bounds[0][k], bounds[1][k]]) for k in range(2))
    origin = (np.zeros(model.x.size), np.zeros(model.y.size), p)
    rows = []
    for kind, is_equality in zip(kinds, (False, True, False, True), strict=True):
        if len(kind) and kind.is_affine:
            line = Line.of(kind, origin)
            rows.append((sp.csr_array(line.slopes), line.constants))
            if is_equality:
                rows.append((sp.csr_array(-line.slopes), -line.constants))
    for _ in range(ROUNDS):
        for matrix, constants in rows:
            _imply(matrix, constants, low, high)
    return low, high


def _imply(A: sp.csr_array, b: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Tighten ranges by rows A z + b <= 0: no entry may use up more than the others leave."""
    row = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    column, slope = A.indices, A.data
    keep = slope != 0.0
    row, column, slope = row[keep], column[keep], slope[keep]
    least = slope * np.where(slope > 0, low[column], high[column])
    is_open = ~np.isfinite(least)
    n_open = np.bincount(row, is_open, A.shape[0])
    total = b + np.bincount(row, np.where(is_open, 0.0, least), A.shape[0])
    alone = n_open[row] - is_open == 0
    rest = total[row] - np.where(is_open, 0.0, least)
    limit = -rest[alone] / slope[alone]
    is_above = slope[alone] > 0
    np.minimum.at(high, column[alone][is_above], limit[is_above])
    np.maximum.at(low, column[alone][~is_above], limit[~is_above])
