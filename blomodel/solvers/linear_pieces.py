"""Linear programs that differ in which rows are tight and which variables are zero, by HiGHS.

Rows that hold one variable become its bounds, so that the simplex method has fewer rows; their
multipliers are read off the reduced costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.highs import HighsModel

if TYPE_CHECKING:
    from blomodel.solvers.convex_qp import ConvexProgram

Vector = np.ndarray
BY_SIGN = -1  # the bound of a variable that stands for no row, but for its sign
CROSSED = 1e-9  # relative: bounds that cross by less are equal


class LinearPieces:
    """One HiGHS model; a solve moves its bounds and restarts from the last basis."""

    program: ConvexProgram
    n_eq: int
    general: np.ndarray
    place: np.ndarray
    column: np.ndarray
    slope: np.ndarray
    end: np.ndarray
    row_upper: np.ndarray
    row_lower: np.ndarray
    now: list[Vector]
    model: HighsModel
    lower: np.ndarray
    upper: np.ndarray
    lower_owner: np.ndarray
    upper_owner: np.ndarray

    def __init__(self, program: ConvexProgram, cost: Vector) -> None:
        self.program, self.n_eq = program, program.b_eq.size
        rows: Any = sp.csr_array(program.A_in)
        rows.eliminate_zeros()
        is_single = np.diff(rows.indptr) == 1
        self.general = np.flatnonzero(~is_single)
        self.place = np.full(program.b_in.size, -1)  # of a row among those that are kept
        self.place[self.general] = np.arange(self.general.size)
        first = rows.indptr[:-1][is_single]
        single = np.flatnonzero(is_single)
        self.column, self.slope = np.full(is_single.size, -1), np.ones(is_single.size)
        self.column[single], self.slope[single] = rows.indices[first], rows.data[first]
        self.end = program.b_in / self.slope  # where a single row is tight
        self._find_bounds(single)
        matrix = sp.vstack([program.A_eq, rows[self.general]], format="csc")
        right = program.b_in[self.general]
        self.row_upper = np.concatenate([program.b_eq, right])
        self.row_lower = np.concatenate([program.b_eq, np.full(right.size, -np.inf)])
        self.now = [self.row_lower, self.lower, self.upper]
        bounds = (self.row_lower, self.row_upper), (self.lower, self.upper)
        self.model = HighsModel(matrix, *bounds, cost)

    def _find_bounds(self, single: np.ndarray) -> None:
        """Bounds of the variables, and the row behind each."""
        n = self.program.n
        self.lower, self.upper = np.full(n, -np.inf), np.full(n, np.inf)
        self.lower[self.program.nonnegative] = 0.0
        self.lower_owner, self.upper_owner = np.full(n, BY_SIGN), np.full(n, BY_SIGN)
        for row in single:
            column, end = self.column[row], self.end[row]
            if self.slope[row] > 0 and end < self.upper[column]:
                self.upper[column], self.upper_owner[column] = end, row
            elif self.slope[row] < 0 and end > self.lower[column]:
                self.lower[column], self.lower_owner[column] = end, row

    def solve(
        self, tight: Vector, zero: Vector, cutoff: float = np.inf, deadline: Deadline = NEVER
    ) -> Answer:
        """Minimise; values from ``cutoff`` on may count as infeasible, after ``deadline`` it fails."""
        is_single = self.place[tight] < 0
        fixed = tight[is_single]
        lower, upper = self.lower.copy(), self.upper.copy()
        upper[zero] = np.minimum(upper[zero], 0.0)
        np.maximum.at(lower, self.column[fixed], self.end[fixed])
        np.minimum.at(upper, self.column[fixed], self.end[fixed])
        crossed = np.flatnonzero(lower > upper)
        if crossed.size:
            if np.any(lower[crossed] > upper[crossed] + CROSSED * (1 + np.abs(upper[crossed]))):
                return Answer.without_point(InnerStatus.INFEASIBLE, self.program.n, solver="highs")
            upper[crossed] = lower[crossed]
        row_lower = self.row_lower.copy()
        rows = self.n_eq + self.place[tight[~is_single]]
        row_lower[rows] = self.row_upper[rows]
        self._move(row_lower, lower, upper)
        answer = self.model.solve(cutoff, deadline)
        if answer.multipliers is not None:
            answer.multipliers = self._multipliers(answer.multipliers, fixed, zero)
        return answer

    def _move(self, row_lower: Vector, lower: Vector, upper: Vector) -> None:
        before_rows, before_lower, before_upper = self.now
        rows = np.flatnonzero(row_lower != before_rows)
        if rows.size:
            self.model.set_row_bounds(rows, row_lower[rows], self.row_upper[rows])
        columns = np.flatnonzero((lower != before_lower) | (upper != before_upper))
        if columns.size:
            self.model.set_column_bounds(columns, lower[columns], upper[columns])
        self.now = [row_lower, lower, upper]

    def _multipliers(self, of_rows: Vector, fixed: Vector, zero: Vector) -> Vector:
        """Those of all rows and signs, from HiGHS's rows and reduced costs."""
        program, n_eq = self.program, self.n_eq
        every = np.zeros(n_eq + program.b_in.size)
        every[:n_eq] = of_rows[:n_eq]
        every[n_eq + self.general] = of_rows[n_eq:]
        reduced = self.model.reduced_costs
        upper_owner = self.upper_owner.copy()
        upper_owner[zero] = BY_SIGN
        owner = np.where(reduced > 0, self.lower_owner, upper_owner)
        owner[self.column[fixed]] = fixed
        owned = np.flatnonzero(owner != BY_SIGN)
        every[n_eq + owner[owned]] = -reduced[owned] / self.slope[owner[owned]]
        signs = np.where(owner == BY_SIGN, reduced, 0.0)[program.nonnegative]
        return np.concatenate([every, signs])
