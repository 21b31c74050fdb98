"""The directions that stay feasible to first order, in as few unknowns as possible.

Where the lower answer is settled by x and the weakly active multipliers, these are all the unknowns:
slopes of f and of rows are reduced to them by adjoint solves with one sparse factor. Elsewhere all
unknowns of the KKT conditions stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from blomodel.certification.surroundings import Surroundings

CHUNK = 256  # right sides of one adjoint solve

Array = np.ndarray
AnyMatrix = Any  # a plain or a sparse matrix


@dataclass(frozen=True)
class Level:
    """The smallest slope of f over directions, and multipliers that show it.

    ``slope + rows' pressing + equal' balancing`` is ``rest``, which the unit box alone balances.
    """

    decrease: float
    direction: Array
    pressing: Array
    balancing: Array
    rest: Array


@dataclass(frozen=True)
class Directions:
    """min slope.v over equal v = 0, rows v <= 0, |v| <= reach, with pairs among rows and columns.

    The first rows are those of the weak pairs, row by row; then minus their multipliers; then tight
    upper rows.
    """

    around: Surroundings
    is_reduced: bool
    slope: Array
    rows: AnyMatrix
    equal: AnyMatrix
    reach: Array
    columns: Array  # of the weak multipliers
    is_tight: Array | None = None  # on one piece: which weak rows stay tight

    @property
    def n_weak(self) -> int:
        """Pairs that may become either."""
        return len(self.columns)

    def lift(self, v: Array) -> Array:
        """The direction in the kept columns of z; of each column where v is a matrix."""
        if not self.is_reduced:
            return v
        here = self.around
        assert here.factor is not None
        whole = np.zeros((len(here.kept), *v.shape[1:]))
        whole[here.free] = v
        whole[here.settled] = here.factor.solve(-(self._free_part @ v))
        return whole

    def pull(self, slope: Array) -> Array:
        """The slope in v, of a slope in the kept columns of z."""
        if not self.is_reduced:
            return slope
        here = self.around
        assert here.factor is not None
        back = here.factor.solve_transposed(slope[here.settled])
        return slope[here.free] - self._free_part.T @ back

    def row_multipliers(self, level: Level) -> Array:
        """Multipliers of weak rows, of minus weak multipliers, and of tight upper rows."""
        found = level.pressing.copy()
        if self.is_tight is not None:
            n_tight = int(self.is_tight.sum())
            tail = level.balancing[len(level.balancing) - self.n_weak :]
            found[: self.n_weak][self.is_tight] += tail[:n_tight]
            found[self.n_weak : 2 * self.n_weak][~self.is_tight] += tail[n_tight:]
        return found

    def upper_equality_multipliers(self, level: Level) -> Array:
        """Multipliers of the upper equalities."""
        here = self.around
        begin = 0 if self.is_reduced else here.equations.shape[0]
        return level.balancing[begin : begin + here.equal_above.shape[0]]

    def equation_multipliers(self, level: Level) -> Array:
        """Multipliers of the equations in the Lagrangian that belongs to a level."""
        here = self.around
        if not self.is_reduced:
            return level.balancing[: here.equations.shape[0]]
        assert here.factor is not None
        whole = here.slope + stacked_rows(here).T @ self.row_multipliers(level)
        whole = whole + here.equal_above.T @ self.upper_equality_multipliers(level)
        return -here.factor.solve_transposed(np.asarray(whole)[here.settled])

    @cached_property
    def _free_part(self) -> sp.csr_array:
        return sp.csr_array(self.around.equations[:, self.around.free])

    def relaxed(self) -> Level | None:
        """The smallest slope where each weak pair may leave both its sides; None: not found."""
        return smallest_slope(self.slope, self.rows, self.equal, self.reach)

    def on_piece(self, is_tight: Array) -> Directions:
        """The directions of one piece: of each weak pair, the row stays tight or the multiplier zero."""
        if sp.issparse(self.rows):
            first, second = self.rows[: self.n_weak], self.rows[self.n_weak : 2 * self.n_weak]
            fixed = sp.vstack([self.equal, first[is_tight], second[~is_tight]], format="csr")
        else:
            first, second = self.rows[: self.n_weak], self.rows[self.n_weak : 2 * self.n_weak]
            fixed = np.vstack([self.equal, first[is_tight], second[~is_tight]])
        return replace(self, equal=fixed, is_tight=is_tight)


def stacked_rows(here: Surroundings) -> sp.csr_array:
    """Weak rows, minus weak multipliers, tight upper rows, in the kept columns."""
    n_weak, n = len(here.weak), len(here.kept)
    signs = sp.csr_array((-np.ones(n_weak), (np.arange(n_weak), here.weak_columns)), shape=(n_weak, n))
    return sp.csr_array(sp.vstack([here.weak_rows, signs, here.above]))


def find_directions(here: Surroundings) -> Directions:
    """The directions around a place, reduced where that is possible."""
    rows = stacked_rows(here)
    n_x, n_y = here.place.x.size, here.place.y.size
    if here.factor is None:
        reach = np.where(here.kept < n_x + n_y, 1.0, np.inf)
        equal = sp.csr_array(sp.vstack([here.equations, here.equal_above]))
        return Directions(here, False, here.slope, rows, equal, reach, here.weak_columns)
    alone = Directions(here, True, here.slope, rows, rows, here.slope, here.weak_columns)
    slope = alone.pull(here.slope)
    below = np.vstack([_pulled(alone, rows), np.zeros((0, len(slope)))])
    equal = _pulled(alone, here.equal_above)
    # A weak multiplier may move so far that its row can stay tight wherever x goes.
    size = np.abs(np.vstack([below, equal, slope])).max(axis=0)
    reach = np.ones(len(slope))
    columns = np.arange(n_x, len(slope))
    n_weak = len(columns)
    own = np.abs(below[np.arange(n_weak), columns])
    needed = np.abs(below[:n_weak, :n_x]).sum(axis=1) / np.maximum(own, 1e-6 * size[n_x:])
    reach[n_x:] = np.maximum(1 / np.maximum(size[n_x:], 1e-6), 10 * needed)
    return Directions(here, True, slope, below, equal, reach, columns)


def _pulled(alone: Directions, rows: sp.csr_array) -> Array:
    """Rows in v."""
    here = alone.around
    assert here.factor is not None
    result = rows[:, here.free].toarray()
    held = rows[:, here.settled]
    touching = np.flatnonzero(np.diff(sp.csr_array(held).indptr))
    for begin in range(0, len(touching), CHUNK):
        chosen = touching[begin : begin + CHUNK]
        back = here.factor.solve_transposed(held[chosen].toarray().T)
        result[chosen] -= (alone._free_part.T @ back).T
    return result


def smallest_slope(slope: Array, rows: AnyMatrix, equal: AnyMatrix, reach: Array) -> Level | None:
    """min slope.v over rows v <= 0, equal v = 0, |v| <= reach, by HiGHS."""
    size = max(float(np.abs(slope).max(initial=0.0)), 1e-300)
    n_rows, n_equal = rows.shape[0], equal.shape[0]
    if not slope.size:  # nothing can move
        none = np.zeros(0)
        return Level(0.0, none, np.zeros(n_rows), np.zeros(n_equal), none)
    row_size = _sizes(rows)
    equal_size = _sizes(equal)
    result = linprog(
        slope / size,
        A_ub=_scaled(rows, row_size) if n_rows else None,
        b_ub=np.zeros(n_rows) if n_rows else None,
        A_eq=_scaled(equal, equal_size) if n_equal else None,
        b_eq=np.zeros(n_equal) if n_equal else None,
        bounds=np.column_stack([-reach, reach]),
        method="highs",
        options={"dual_feasibility_tolerance": 1e-9, "primal_feasibility_tolerance": 1e-9},
    )
    if result.status != 0:
        return None
    pressing = -result.ineqlin.marginals * size / row_size if n_rows else np.zeros(0)
    balancing = -result.eqlin.marginals * size / equal_size if n_equal else np.zeros(0)
    pressing = np.maximum(pressing, 0.0)
    rest = slope + rows.T @ pressing + equal.T @ balancing
    return Level(max(0.0, -result.fun * size), result.x, pressing, balancing, np.asarray(rest))


def _sizes(matrix: AnyMatrix) -> Array:
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        return np.ones(matrix.shape[0])
    largest = abs(matrix).max(axis=1)
    return np.maximum(np.asarray(largest.toarray() if sp.issparse(largest) else largest).ravel(), 1e-12)


def _scaled(matrix: AnyMatrix, size: Array) -> AnyMatrix:
    return sp.csr_array(sp.diags_array(1 / size) @ sp.csr_array(matrix))
