"""Linear programs by HiGHS's simplex method: large ones, and many over one feasible set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import highspy
import numpy as np
import scipy.sparse as sp

from blomodel.basics.deadline import NEVER, Deadline, end_of_work
from blomodel.basics.troubles import count_trouble, is_from_outside
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.question import ProblemClass, QuadraticQuestion
from blomodel.solvers.registry import InnerSolver, inner_solver

_STATUS = {
    highspy.HighsModelStatus.kOptimal: InnerStatus.OPTIMAL,
    highspy.HighsModelStatus.kModelEmpty: InnerStatus.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: InnerStatus.INFEASIBLE,
    highspy.HighsModelStatus.kObjectiveBound: InnerStatus.INFEASIBLE,  # nothing below the cutoff
    highspy.HighsModelStatus.kUnbounded: InnerStatus.UNBOUNDED,
}
_QUIET: dict[str, Any] = {"output_flag": False, "threads": 1, "solver": "simplex"}
# Solves in a row start from the last basis, which presolve would discard; and there the difference
# between two vertices decides between branches of a search.
_IN_A_ROW: dict[str, Any] = {
    "presolve": "off",
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}

SAFE = 1e-7  # relative: so far beyond a cutoff a program may be given up


class HighsModel:
    """A linear program as HiGHS holds it: cost'z over row and column bounds, which may be moved."""

    n: int
    cost: np.ndarray

    def __init__(
        self,
        matrix: sp.csc_array,
        rows: tuple[np.ndarray, np.ndarray],
        columns: tuple[np.ndarray, np.ndarray],
        cost: np.ndarray,
        options: Mapping[str, Any] = _IN_A_ROW,
    ) -> None:
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = matrix.shape
        lp.col_cost_ = cost
        lp.row_lower_, lp.row_upper_ = rows
        lp.col_lower_, lp.col_upper_ = columns
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = matrix.indptr, matrix.indices
        lp.a_matrix_.value_ = matrix.data
        self.n, self.cost = lp.num_col_, cost
        self.highs: Any = highspy.Highs()
        for name, setting in (_QUIET | dict(options)).items():
            self.highs.setOptionValue(name, setting)
        self.highs.passModel(lp)
        self._cutoff, self._is_limited = np.inf, False

    def set_cost(self, cost: np.ndarray) -> None:
        """Minimise another function."""
        self.cost = cost
        self.highs.changeColsCost(self.n, np.arange(self.n, dtype=np.int32), cost)

    def set_row_bounds(self, rows: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
        """Move the bounds of some rows."""
        self.highs.changeRowsBounds(rows.size, rows.astype(np.int32), lower, upper)

    def set_column_bounds(self, columns: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
        """Move the bounds of some variables."""
        self.highs.changeColsBounds(columns.size, columns.astype(np.int32), lower, upper)

    def solve(self, cutoff: float = np.inf, deadline: Deadline = NEVER) -> Answer:
        """Minimise from the basis of the solve before, or from none where that leads nowhere.

        Multipliers are those of the rows. An unbounded program may come with a feasible point and
        a ray. A program whose dual value passes ``cutoff`` counts as infeasible.
        """
        if cutoff != self._cutoff:
            self._cutoff = cutoff
            safe = cutoff + SAFE * (1 + abs(cutoff)) if np.isfinite(cutoff) else np.inf
            self.highs.setOptionValue("objective_bound", safe)
        deadline = min(deadline, end_of_work())
        if not deadline.is_never or self._is_limited:  # the end of an earlier solve does not count
            longest = np.inf
            if not deadline.is_never:
                longest = self.highs.getRunTime() + max(deadline.remaining, 0)
            self.highs.setOptionValue("time_limit", longest)
            self._is_limited = not deadline.is_never
        for _ in range(2):
            if deadline.is_over:
                break
            try:
                self.highs.run()
            except BaseException as error:
                if is_from_outside(error):
                    raise
                count_trouble("highs")
                self.highs.clearSolver()
                continue
            native = self.highs.getModelStatus()
            status = _STATUS.get(native, InnerStatus.FAILED)
            if status is not InnerStatus.FAILED:
                return self._read(status)
            if deadline.is_over:
                break
            count_trouble("highs")
            self.highs.clearSolver()  # a stale basis is the usual cause of trouble
        reason = self.highs.modelStatusToString(self.highs.getModelStatus())
        return Answer.without_point(InnerStatus.FAILED, self.n, reason, solver="highs")

    def _read(self, status: InnerStatus) -> Answer:
        if status is InnerStatus.INFEASIBLE:
            return Answer.without_point(status, self.n, solver="highs")
        solution = self.highs.getSolution()
        z = np.array(solution.col_value, dtype=float)
        if status is InnerStatus.UNBOUNDED:
            _, has_ray, ray = self.highs.getPrimalRay()
            ray = np.array(ray, dtype=float) if has_ray else None
            return Answer(status, -np.inf, z, reason=status.message, solver="highs", ray=ray)
        value = float(self.cost @ z)
        # HiGHS takes reduced cost = cost - A' row_dual, the opposite sign of our multipliers.
        multipliers = -np.array(solution.row_dual, dtype=float)
        iterations = int(self.highs.getInfo().simplex_iteration_count)
        return Answer(status, value, z, [], max(iterations, 0), multipliers, "", "highs", bound=value)

    @property
    def reduced_costs(self) -> np.ndarray:
        """Multipliers of the lower bounds of variables (negative: of the upper ones)."""
        return np.array(self.highs.getSolution().col_dual, dtype=float)


@inner_solver
class HiGHS(InnerSolver):
    """The dual simplex method."""

    name: ClassVar[str] = "highs"
    classes: ClassVar[frozenset[ProblemClass]] = frozenset({ProblemClass.LP})
    module: ClassVar[str] = "highspy"
    is_trusted: ClassVar[bool] = True

    def solve(self, question: QuadraticQuestion) -> Answer:
        """Minimise; rows without a bound are left out."""
        q, A, b, equality = question.q, question.A, question.b, question.equality
        bounded = np.isfinite(b)
        matrix = sp.csc_array(sp.csr_array(A)[np.flatnonzero(bounded)])
        rows = np.where(equality, b, -np.inf)[bounded], b[bounded]
        open_sides = np.full(len(q), -np.inf), np.full(len(q), np.inf)
        answer = HighsModel(matrix, rows, open_sides, q, self.options).solve()
        if answer.multipliers is not None:
            every = np.zeros(len(b))
            every[bounded] = answer.multipliers
            answer.multipliers, answer.slack = every, b - A @ answer.y
        return answer

    @classmethod
    def known_options(cls) -> frozenset[str]:
        """The fields of HiGHS's options."""
        return frozenset(name for name in dir(highspy.HighsOptions) if not name.startswith("_"))

    @classmethod
    def try_options(cls, options: Mapping[str, Any]) -> None:
        """Set each on a HiGHS without a model."""
        highs: Any = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        for name, value in options.items():
            if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
                raise ValueError(f"{name} = {value!r} is no possible value")


class BoundedProgram(HighsModel):
    """One linear feasible set, over which many linear functions are minimised in turn.

    ``A_eq z = b_eq``, ``A_in z <= b_in``, ``low <= z <= high``. Each solve starts from the basis of
    the one before. Matrices may be dense or sparse.
    """

    def __init__(
        self,
        A_eq: Any,
        b_eq: np.ndarray,
        A_in: Any,
        b_in: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
    ) -> None:
        matrix = sp.csc_array(sp.vstack([sp.csr_array(A_eq), sp.csr_array(A_in)]))
        rows = np.concatenate([b_eq, np.full(len(b_in), -np.inf)]), np.concatenate([b_eq, b_in])
        super().__init__(matrix, rows, (low, high), np.zeros(matrix.shape[1]))

    def minimise(self, cost: np.ndarray, deadline: Deadline = NEVER) -> Answer:
        """Least value of ``cost . z`` and a point that has it; none where time is over."""
        self.set_cost(cost)
        return self.solve(deadline=deadline)
