"""Solve one convex QP or LP accurately, or many that differ in which rows are equalities.

The program is

    minimise   1/2 z'Pz + q'z
    subject to A_eq z = b_eq,  A_in z <= b_in,  z[j] >= 0 for j in ``nonnegative``.

:class:`ConvexProgram` keeps the data in the solver's own form and turns chosen rows into equalities
and chosen variables into zeros, which is all that branching on complementarity pairs needs.
Linear programs go to HiGHS, whose simplex method starts from the basis of the solve before;
quadratic ones go to Clarabel. Neither alone is trusted when it says "infeasible" on a QP.
"""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import clarabel
import highspy
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blomodel.basics import limits
from blomodel.solvers.complementarity_refine import EXACT, compact_matrix, refine_active_set

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

NO_INDICES: Indices = np.zeros(0, dtype=np.intp)
MAX_MISSES = 10  # failed warm starts, less the successful ones, before they are given up
ACCEPTED_RESIDUAL = 1e-6  # relative; an answer with larger residuals counts as failed


class ConvexStatus(enum.Enum):
    """What is known about a convex program."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    FAILED = "failed"


@dataclass
class ConvexAnswer:
    """Minimiser and multipliers of a convex program; ``ray`` when it is unbounded.

    The Lagrangian is ``objective + dual_eq'(A_eq z - b_eq) + dual_in'(A_in z - b_in) - reduced'z``.
    """

    status: ConvexStatus
    z: Vector | None = None
    value: float = np.nan
    bound: float = -np.inf  # the dual objective: no feasible point lies below it
    dual_eq: Vector | None = None
    dual_in: Vector | None = None
    reduced: Vector | None = None  # multipliers of z[nonnegative] >= 0
    ray: Vector | None = None


class ConvexSolution(NamedTuple):
    """What :func:`solve_convex_qp` returns."""

    status: ConvexStatus
    z: Vector | None
    value: float
    dual_eq: Vector | None
    dual_in: Vector | None


def solve_convex_qp(
    P: Any,
    q: Any,
    A_eq: Any,
    b_eq: Any,
    A_in: Any,
    b_in: Any,
    *,
    accuracy: float = 1e-9,
) -> ConvexSolution:
    """Minimise ``1/2 z'Pz + q'z`` subject to ``A_eq z = b_eq`` and ``A_in z <= b_in``.

    ``P``, ``A_eq`` and ``A_in`` may be None or empty, dense or sparse. ``value`` is ``inf`` when
    the program is infeasible, ``-inf`` when it is unbounded, ``nan`` when the solvers failed.
    """
    program = ConvexProgram(P, q, A_eq, b_eq, A_in, b_in)
    answer = program.solve(accuracy=accuracy, refine=True)
    value = {ConvexStatus.INFEASIBLE: np.inf, ConvexStatus.UNBOUNDED: -np.inf}.get(
        answer.status, answer.value
    )
    z = answer.z if answer.status is ConvexStatus.OPTIMAL else None
    return ConvexSolution(answer.status, z, value, answer.dual_eq, answer.dual_in)


class ConvexProgram:
    """A convex QP or LP solved again and again with some rows tight and some variables zero."""

    def __init__(
        self,
        P: Any,
        q: Any,
        A_eq: Any,
        b_eq: Any,
        A_in: Any,
        b_in: Any,
        nonnegative: Any = NO_INDICES,
    ) -> None:
        self.q = np.ascontiguousarray(q, dtype=float).ravel()
        n = self.n = self.q.size
        self.A_eq, self.b_eq = _rows(A_eq, b_eq, n)
        self.A_in, self.b_in = _rows(A_in, b_in, n)
        self.P: Any = sp.csc_array((n, n)) if P is None else sp.csc_array(P, dtype=float)
        self.nonnegative = np.asarray(nonnegative, dtype=np.intp).ravel()
        if not all(np.all(np.isfinite(v)) for v in (self.q, self.P.data, self.A_eq.data)):
            raise ValueError("the data of a convex program must be finite")
        self.is_linear = self.P.nnz == 0 or not np.any(self.P.data)
        self._linear: _LinearBackend | None = None
        self._feasibility: _LinearBackend | None = None
        self._quadratic: _QuadraticBackend | None = None
        self._last: ConvexAnswer | None = None
        self._misses = 0  # recent failures to solve from the last answer
        self.deadline = np.inf  # of time.perf_counter(): an interior point solve ends then, as failed
        self.scale = 1.0 + max(
            np.abs(self.q).max(initial=0.0),
            np.abs(self.b_eq).max(initial=0.0),
            np.abs(self.b_in[np.isfinite(self.b_in)]).max(initial=0.0),
        )
        self.sign_row = np.full(n, -1, dtype=np.intp)  # of a variable, among the stacked rows
        first = self.b_eq.size + self.b_in.size
        self.sign_row[self.nonnegative] = first + np.arange(self.nonnegative.size)

    @cached_property
    def stacked(self) -> tuple[Any, Vector]:
        """All rows ``[A_eq; A_in; -I_nonnegative]``, as a csc array, and their right-hand side."""
        chosen, count = self.nonnegative, self.nonnegative.size
        signs = sp.csc_array((-np.ones(count), (np.arange(count), chosen)), shape=(count, self.n))
        matrix = sp.vstack([self.A_eq, self.A_in, signs], format="csc")
        matrix.sum_duplicates()
        return matrix, np.concatenate([self.b_eq, self.b_in, np.zeros(count)])

    @cached_property
    def compact(self) -> tuple[Any, Any]:
        """``P`` and the stacked rows for products with vectors: dense unless they are large."""
        return compact_matrix(self.P), compact_matrix(self.stacked[0])

    def objective(self, z: Vector) -> float:
        """``1/2 z'Pz + q'z``."""
        linear = float(self.q @ z)
        return linear if self.is_linear else linear + 0.5 * float(z @ (self.compact[0] @ z))

    def violation(self, z: Vector) -> float:
        """Largest violation of a constraint at ``z`` (complementarity not counted)."""
        excess = self.compact[1] @ z - self.stacked[1]
        n_eq = self.b_eq.size
        return float(max(np.abs(excess[:n_eq]).max(initial=0.0), excess[n_eq:].max(initial=0.0)))

    def solve(
        self,
        tight: Indices = NO_INDICES,
        zero: Indices = NO_INDICES,
        *,
        accuracy: float = 1e-9,
        refine: bool = False,
    ) -> ConvexAnswer:
        """Solve with the inequality rows ``tight`` as equalities and ``z[zero] = 0``.

        ``zero`` indexes variables and must lie in ``nonnegative``. With ``refine`` the answer of an
        interior point solve is corrected on its active set.
        """
        if not np.all(np.isfinite(self.b_in[tight])) or np.any(self.b_in == -np.inf):
            return ConvexAnswer(ConvexStatus.INFEASIBLE)
        if self.n == 0:
            return self._solve_empty(tight)
        if self.is_linear:
            return self._solve_linear(tight, zero, accuracy)
        return self._solve_quadratic(tight, zero, accuracy, refine)

    def _solve_empty(self, tight: Indices) -> ConvexAnswer:
        bad = np.any(self.b_eq != 0.0) or np.any(self.b_in < 0.0) or np.any(self.b_in[tight] != 0.0)
        if bad:
            return ConvexAnswer(ConvexStatus.INFEASIBLE)
        zeros = [np.zeros(size) for size in (0, self.b_eq.size, self.b_in.size, 0)]
        return ConvexAnswer(ConvexStatus.OPTIMAL, zeros[0], 0.0, 0.0, *zeros[1:])

    def _solve_linear(self, tight: Indices, zero: Indices, accuracy: float) -> ConvexAnswer:
        if self._linear is None:
            self._linear = _LinearBackend(self, self.q)
        answer = self._linear.solve(tight, zero)
        if answer.status is ConvexStatus.FAILED:
            answer = self._solve_quadratic(tight, zero, accuracy, refine=True)
        return answer

    def _solve_quadratic(
        self, tight: Indices, zero: Indices, accuracy: float, refine: bool
    ) -> ConvexAnswer:
        answer = self._solve_from_last(tight, zero)
        if answer is not None:
            return answer
        if self._quadratic is None:
            self._quadratic = _QuadraticBackend(self)
        answer = self._quadratic.solve(tight, zero, accuracy)
        if answer.status is ConvexStatus.FAILED and time.perf_counter() >= self.deadline:
            return answer
        if answer.status is not ConvexStatus.OPTIMAL:
            # A dual certificate says only "unbounded or infeasible", and a primal one can be
            # false when the feasible points are large: an LP without objective decides.
            feasibility = self.find_feasible(tight, zero)
            if feasibility.status is ConvexStatus.INFEASIBLE:
                return feasibility
            is_feasible = feasibility.status is ConvexStatus.OPTIMAL
            if answer.status is ConvexStatus.UNBOUNDED and is_feasible:
                answer.z = feasibility.z
                return answer
            answer = self._quadratic.solve(tight, zero, accuracy, careful=True)
            if answer.status is not ConvexStatus.OPTIMAL:
                return ConvexAnswer(ConvexStatus.FAILED)
        if refine:
            answer, _ = refine_active_set(self, answer, tight, zero)
        self._last = answer
        return answer

    def _solve_from_last(self, tight: Indices, zero: Indices) -> ConvexAnswer | None:
        """Correct the active set of the solve before; None if that does not end in a minimiser.

        The programs of a search differ in a few rows, so this nearly always succeeds, at a quarter
        of the cost of an interior point solve; where it keeps failing it is given up.
        """
        if self._last is None or self._misses > MAX_MISSES:
            return None
        answer, residual = refine_active_set(self, self._last, tight, zero)
        if residual > EXACT:
            self._misses += 1
            return None
        self._misses = max(0, self._misses - 1)
        self._last = answer
        return answer

    def find_feasible(self, tight: Indices, zero: Indices) -> ConvexAnswer:
        """Find a feasible point, or show that there is none."""
        if self._feasibility is None:
            self._feasibility = _LinearBackend(self, np.zeros(self.n))
        return self._feasibility.solve(tight, zero)


class _LinearBackend:
    """One HiGHS model; a solve moves its bounds and restarts from the last basis."""

    def __init__(self, program: ConvexProgram, cost: Vector) -> None:
        self.program, self.cost = program, cost
        self.n_eq = program.b_eq.size
        matrix = sp.vstack([program.A_eq, program.A_in], format="csc")
        rows, n = matrix.shape
        self.row_lower = np.concatenate([program.b_eq, np.full(program.b_in.size, -np.inf)])
        self.row_upper = np.concatenate([program.b_eq, program.b_in])
        self.column_lower = np.full(n, -np.inf)
        self.column_lower[program.nonnegative] = 0.0
        self.column_upper = np.full(n, np.inf)
        model = highspy.HighsLp()
        model.num_col_, model.num_row_, model.col_cost_ = n, rows, cost
        model.col_lower_, model.col_upper_ = self.column_lower, self.column_upper
        model.row_lower_, model.row_upper_ = self.row_lower, self.row_upper
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = matrix.indptr
        model.a_matrix_.index_ = matrix.indices
        model.a_matrix_.value_ = matrix.data
        self.highs: Any = highspy.Highs()
        for name, setting in (
            ("output_flag", False),
            ("threads", 1),
            ("presolve", "off"),
            ("solver", "simplex"),
            ("primal_feasibility_tolerance", 1e-9),
            ("dual_feasibility_tolerance", 1e-9),
        ):
            self.highs.setOptionValue(name, setting)
        self.highs.passModel(model)
        self.tight, self.zero = NO_INDICES, NO_INDICES

    def solve(self, tight: Indices, zero: Indices) -> ConvexAnswer:
        self._move_bounds(tight, zero)
        self.highs.run()
        status = self.highs.getModelStatus()
        answer = self._read(status)
        if answer is None:
            # A stale basis is the usual cause of trouble: start again from none.
            self.highs.clearSolver()
            self.highs.run()
            answer = self._read(self.highs.getModelStatus())
        return ConvexAnswer(ConvexStatus.FAILED) if answer is None else answer

    def _move_bounds(self, tight: Indices, zero: Indices) -> None:
        rows = np.concatenate([self.tight, tight]) + self.n_eq
        if rows.size:
            rows = np.unique(rows).astype(np.int32)
            lower = self.row_lower.copy()
            lower[tight + self.n_eq] = self.row_upper[tight + self.n_eq]
            self.highs.changeRowsBounds(rows.size, rows, lower[rows], self.row_upper[rows])
        columns = np.concatenate([self.zero, zero])
        if columns.size:
            columns = np.unique(columns).astype(np.int32)
            upper = self.column_upper.copy()
            upper[zero] = 0.0
            self.highs.changeColsBounds(
                columns.size, columns, self.column_lower[columns], upper[columns]
            )
        self.tight, self.zero = tight, zero

    def _read(self, status: Any) -> ConvexAnswer | None:
        kinds = highspy.HighsModelStatus
        if status == kinds.kInfeasible:
            return ConvexAnswer(ConvexStatus.INFEASIBLE)
        if status not in (kinds.kOptimal, kinds.kUnbounded, kinds.kModelEmpty):
            return None
        solution = self.highs.getSolution()
        z = np.array(solution.col_value, dtype=float)
        if status == kinds.kUnbounded:
            _, has_ray, ray = self.highs.getPrimalRay()
            ray = np.array(ray, dtype=float) if has_ray else None
            return ConvexAnswer(ConvexStatus.UNBOUNDED, z, -np.inf, ray=ray)
        program = self.program
        # HiGHS takes reduced cost = cost - A' row_dual, the opposite sign of our multipliers.
        dual = -np.array(solution.row_dual, dtype=float)
        reduced = np.array(solution.col_dual, dtype=float)[program.nonnegative]
        value = float(self.cost @ z)
        dual_eq, dual_in = dual[: self.n_eq], dual[self.n_eq :]
        return ConvexAnswer(ConvexStatus.OPTIMAL, z, value, value, dual_eq, dual_in, reduced)


class _QuadraticBackend:
    """Clarabel on all rows, those that are equalities permuted to the front."""

    def __init__(self, program: ConvexProgram) -> None:
        self.program = program
        self.matrix, self.right = program.stacked
        self.m = self.right.size
        self.permuted = self.matrix.copy()  # filled anew by every solve; Clarabel copies it
        self.column_key = np.repeat(np.arange(program.n), np.diff(self.matrix.indptr)) * self.m
        self.P = sp.csc_array(sp.triu(program.P))

    def solve(
        self, tight: Indices, zero: Indices, accuracy: float, careful: bool = False
    ) -> ConvexAnswer:
        program, m = self.program, self.m
        n_eq, n_in = program.b_eq.size, program.b_in.size
        is_equality = np.zeros(m, dtype=bool)
        is_equality[:n_eq] = True
        is_equality[n_eq + tight] = True
        is_equality[program.sign_row[zero]] = True
        order = np.argsort(~is_equality, kind="stable")
        place = np.empty(m, dtype=np.int64)
        place[order] = np.arange(m)
        indices = place[self.matrix.indices]
        entries = np.argsort(self.column_key + indices)
        self.permuted.indices[:] = indices[entries]
        self.permuted.data[:] = self.matrix.data[entries]
        n_equalities = int(is_equality.sum())
        cones = [clarabel.ZeroConeT(n_equalities)] if n_equalities else []
        if m > n_equalities:
            cones.append(clarabel.NonnegativeConeT(m - n_equalities))
        settings = self._settings(accuracy, careful)
        try:
            result = clarabel.DefaultSolver(
                self.P, program.q, self.permuted, self.right[order], cones, settings
            ).solve()
        except Exception:  # a panic of the Rust code; the caller has other ways to go on
            return ConvexAnswer(ConvexStatus.FAILED)
        dual = np.empty(m)
        dual[order] = result.z
        return self._read(result, dual, n_eq, n_in)

    def _settings(self, accuracy: float, careful: bool) -> Any:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.time_limit = max(self.program.deadline - time.perf_counter(), 0.0)
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = accuracy
        large = not limits.FIRST_FACTORISATION.allows(self.program.n)
        settings.direct_solve_method = "faer" if large else "qdldl"
        if careful:
            settings.max_step_fraction = 0.9
            settings.static_regularization_constant = 1e-7
            settings.equilibrate_max_iter = 50
            settings.iterative_refinement_max_iter = 50
        return settings

    def _read(self, result: Any, dual: Vector, n_eq: int, n_in: int) -> ConvexAnswer:
        kinds = clarabel.SolverStatus
        status = result.status
        if status in (kinds.PrimalInfeasible, kinds.AlmostPrimalInfeasible):
            return ConvexAnswer(ConvexStatus.INFEASIBLE)
        z = np.array(result.x)
        if status in (kinds.DualInfeasible, kinds.AlmostDualInfeasible):
            return ConvexAnswer(ConvexStatus.UNBOUNDED, None, -np.inf, ray=z)
        residual = max(result.r_prim, result.r_dual)
        value, bound = float(result.obj_val), float(result.obj_val_dual)
        gap = abs(value - bound) / max(1.0, abs(value))
        if not (residual <= ACCEPTED_RESIDUAL and gap <= ACCEPTED_RESIDUAL):
            return ConvexAnswer(ConvexStatus.FAILED)
        split = (dual[:n_eq], dual[n_eq : n_eq + n_in], dual[n_eq + n_in :])
        return ConvexAnswer(ConvexStatus.OPTIMAL, z, value, min(value, bound), *split)


def _rows(matrix: Any, right: Any, n: int) -> tuple[Any, Vector]:
    """Constraint rows as a csc array and a vector; None or an empty matrix means no rows."""
    right = np.zeros(0) if right is None else np.array(right, dtype=float).ravel()
    if matrix is None or right.size == 0:
        if right.size:
            raise ValueError("a right-hand side was given without its matrix")
        return sp.csc_array((0, n)), right
    rows = sp.csc_array(matrix, dtype=float)
    if rows.shape != (right.size, n):
        raise ValueError(f"constraint rows have shape {rows.shape}, expected {(right.size, n)}")
    if np.any(np.isnan(right)) or not np.all(np.isfinite(rows.data)):
        raise ValueError("the data of a convex program must be finite")
    return rows, right
