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

import time
from functools import cached_property, partial
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blomodel.basics import limits
from blomodel.basics.deadline import NEVER, Deadline, end_of_work
from blomodel.errors import DataError
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.choice import Preferred, count
from blomodel.solvers.clarabel import (
    CAREFUL,
    STATUS,
    ClarabelPanic,
    Pace,
    native_cones,
    rows_in_cones,
    settings,
    without_panic,
)
from blomodel.solvers.complementarity_refine import (
    EXACT,
    compact_matrix,
    equilibrated,
    refine_active_set,
)
from blomodel.solvers.linear_pieces import LinearPieces
from blomodel.solvers.question import ProblemClass, QuadraticQuestion
from blomodel.solvers.reduced_pieces import ReducedPieces, reduced_pieces
from blomodel.solvers.registry import InnerSolver

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

NO_INDICES: Indices = np.zeros(0, dtype=np.intp)
REDUCED_FROM = 4  # solves of a quadratic program, before its reduced form is worth its while
MAX_MISSES = 10  # failed warm starts, less the successful ones, before they are given up
ACCEPTED_RESIDUAL = 1e-6  # relative; an answer with larger residuals counts as failed


def solve_convex_qp(
    P: Any,
    q: Any,
    A_eq: Any,
    b_eq: Any,
    A_in: Any,
    b_in: Any,
    *,
    accuracy: float = 1e-9,
) -> Answer:
    """Minimise ``1/2 z'Pz + q'z`` subject to ``A_eq z = b_eq`` and ``A_in z <= b_in``.

    ``P``, ``A_eq`` and ``A_in`` may be None or empty, dense or sparse. ``value`` is ``inf`` when
    the program is infeasible, ``-inf`` when it is unbounded, ``nan`` when the solvers failed; the
    multipliers of ``A_eq`` come first.
    """
    return ConvexProgram(P, q, A_eq, b_eq, A_in, b_in).solve(accuracy=accuracy, refine=True)


class ConvexProgram:
    """A convex QP or LP solved again and again with some rows tight and some variables zero."""

    q: np.ndarray
    n: int
    A_eq: Any
    b_eq: Vector
    A_in: Any
    b_in: Vector
    nonnegative: np.ndarray
    scale: Any
    sign_row: np.ndarray

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
            raise DataError("the data of a convex program must be finite")
        self.is_linear: bool = self.P.nnz == 0 or not np.any(self.P.data)
        self._linear: LinearPieces | None = None
        self._feasibility: LinearPieces | None = None
        self._quadratic: _QuadraticBackend | None = None
        self._reduced: ReducedPieces | None = None
        self._solves = 0
        self._last: Answer | None = None
        self._misses = 0  # recent failures to solve from the last answer
        self._preferred = Preferred()
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

    @cached_property
    def units(self) -> tuple[Vector, Vector]:
        """Units of the variables and of the stacked rows, in which all are of order one."""
        return equilibrated(self.P, self.stacked[0])

    def objective(self, z: Vector) -> float:
        """``1/2 z'Pz + q'z``."""
        linear = float(self.q @ z)
        return linear if self.is_linear else linear + 0.5 * float(z @ (self.compact[0] @ z))

    def violation(self, z: Vector) -> float:
        """Largest violation of a constraint at ``z`` (complementarity not counted)."""
        excess = self.compact[1] @ z - self.stacked[1]
        n_eq = self.b_eq.size
        return float(max(np.abs(excess[:n_eq]).max(initial=0.0), excess[n_eq:].max(initial=0.0)))

    def is_equality(self, tight: Indices, zero: Indices) -> NDArray[np.bool_]:
        """Which of the stacked rows hold with equality."""
        n_eq = self.b_eq.size
        equality = np.zeros(n_eq + self.b_in.size + self.nonnegative.size, dtype=bool)
        equality[:n_eq] = True
        equality[n_eq + tight] = True
        equality[self.sign_row[zero]] = True
        return equality

    def split(self, multipliers: Vector) -> tuple[Vector, Vector, Vector]:
        """Multipliers of the stacked rows as those of ``A_eq``, ``A_in`` and of the signs."""
        n_eq, n_in = self.b_eq.size, self.b_in.size
        return multipliers[:n_eq], multipliers[n_eq : n_eq + n_in], multipliers[n_eq + n_in :]

    def solve(
        self,
        tight: Indices = NO_INDICES,
        zero: Indices = NO_INDICES,
        *,
        accuracy: float = 1e-9,
        refine: bool = False,
        deadline: Deadline = NEVER,
        cutoff: float = np.inf,
    ) -> Answer:
        """Solve with the inequality rows ``tight`` as equalities and ``z[zero] = 0``.

        ``zero`` indexes variables and must lie in ``nonnegative``. With ``refine`` the answer of an
        interior point solve is corrected on its active set. After ``deadline`` a solve ends as failed.
        A program without a value below ``cutoff`` may count as infeasible. The multipliers are those
        of the stacked rows.
        """
        if not np.all(np.isfinite(self.b_in[tight])) or np.any(self.b_in == -np.inf):
            return Answer.without_point(InnerStatus.INFEASIBLE, self.n)
        if self.n == 0:
            return self._solve_empty(tight)
        problem_class = ProblemClass.LP if self.is_linear else ProblemClass.QP
        preferred = self._preferred.solver(problem_class)
        if preferred is not None:
            answer = self._solve_as_preferred(preferred, tight, zero, accuracy, deadline)
        if preferred is None or answer is None:
            if self.is_linear:
                answer = self._solve_linear(tight, zero, accuracy, deadline, cutoff)
            else:
                answer = self._solve_reduced(tight, zero, refine, cutoff)
                if answer is None:
                    answer = self._solve_quadratic(tight, zero, accuracy, refine, deadline)
        if answer.status is not InnerStatus.FAILED and answer.solver:
            count(answer.solver)
        return answer

    def _solve_empty(self, tight: Indices) -> Answer:
        bad = np.any(self.b_eq != 0.0) or np.any(self.b_in < 0.0) or np.any(self.b_in[tight] != 0.0)
        if bad:
            return Answer.without_point(InnerStatus.INFEASIBLE, 0)
        multipliers = np.zeros(self.b_eq.size + self.b_in.size)
        return Answer(InnerStatus.OPTIMAL, 0.0, np.zeros(0), multipliers=multipliers, bound=0.0)

    def _solve_as_preferred(
        self, solver: InnerSolver, tight: Indices, zero: Indices, accuracy: float, deadline: Deadline
    ) -> Answer | None:
        """The answer of the solver that the user prefers; None unless it can be shown to be right."""
        matrix, right = self.stacked
        equality = self.is_equality(tight, zero)
        answer = solver.solve(
            QuadraticQuestion(self.P, self.q, matrix, right, equality, accuracy, deadline=deadline)
        )
        if not answer.has_point or answer.multipliers is None:
            return None
        if not (np.isfinite(answer.y).all() and np.isfinite(answer.multipliers).all()):
            return None
        refined, residual = refine_active_set(self, answer, tight, zero)
        refined.solver = solver.name
        return refined if residual <= EXACT else None

    def _solve_linear(
        self, tight: Indices, zero: Indices, accuracy: float, deadline: Deadline, cutoff: float
    ) -> Answer:
        if self._linear is None:
            self._linear = LinearPieces(self, self.q)
        answer = self._linear.solve(tight, zero, cutoff, deadline)
        if answer.status is InnerStatus.FAILED and not deadline.is_over:
            answer = self._solve_quadratic(tight, zero, accuracy, True, deadline)
        return answer

    def _solve_reduced(
        self, tight: Indices, zero: Indices, refine: bool, cutoff: float
    ) -> Answer | None:
        """In the space of the multipliers; None where that does not pay or does not work out."""
        self._solves += 1
        if self._solves == REDUCED_FROM:
            self._reduced = reduced_pieces(self)
        if self._reduced is None:
            return None
        answer = self._reduced.solve(self.is_equality(tight, zero), cutoff)
        if answer is None or not answer.has_point or not refine:
            return answer
        answer, residual = refine_active_set(self, answer, tight, zero)
        if residual > EXACT:
            return None
        self._last = answer
        return answer

    def _solve_quadratic(
        self, tight: Indices, zero: Indices, accuracy: float, refine: bool, deadline: Deadline
    ) -> Answer:
        again = self._solve_from_last(tight, zero)
        if again is not None:
            return again
        if self._quadratic is None:
            self._quadratic = _QuadraticBackend(self)
        answer = self._quadratic.solve(tight, zero, accuracy, deadline)
        if answer.status is InnerStatus.FAILED and deadline.is_over:
            return answer
        if answer.status is not InnerStatus.OPTIMAL:
            # A dual certificate says only "unbounded or infeasible", and a primal one can be
            # false when the feasible points are large: an LP without objective decides.
            feasibility = self.find_feasible(tight, zero, deadline)
            if feasibility.status is InnerStatus.INFEASIBLE:
                return feasibility
            is_feasible = feasibility.status is InnerStatus.OPTIMAL
            if answer.status is InnerStatus.UNBOUNDED and is_feasible:
                answer.y = feasibility.y
                return answer
            answer = self._quadratic.solve(tight, zero, accuracy, deadline, careful=True)
            if answer.status is not InnerStatus.OPTIMAL:
                return Answer.without_point(InnerStatus.FAILED, self.n)
        if refine:
            answer, _ = refine_active_set(self, answer, tight, zero)
        self._last = answer
        return answer

    def _solve_from_last(self, tight: Indices, zero: Indices) -> Answer | None:
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
        answer.solver = "active-set"
        self._last = answer
        return answer

    def find_feasible(self, tight: Indices, zero: Indices, deadline: Deadline = NEVER) -> Answer:
        """Find a feasible point, or show that there is none."""
        if self._feasibility is None:
            self._feasibility = LinearPieces(self, np.zeros(self.n))
        return self._feasibility.solve(tight, zero, deadline=deadline)


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
        self,
        tight: Indices,
        zero: Indices,
        accuracy: float,
        deadline: Deadline,
        careful: bool = False,
    ) -> Answer:
        program, m = self.program, self.m
        is_equality = program.is_equality(tight, zero)
        order = np.argsort(~is_equality, kind="stable")
        place = np.empty(m, dtype=np.int64)
        place[order] = np.arange(m)
        indices = place[self.matrix.indices]
        entries = np.argsort(self.column_key + indices)
        self.permuted.indices[:] = indices[entries]
        self.permuted.data[:] = self.matrix.data[entries]
        cones = native_cones(rows_in_cones(int(is_equality.sum()), m))
        data = (self.P, program.q, self.permuted, self.right[order], cones)
        end, began = min(deadline, end_of_work()), time.perf_counter()
        if end.is_over:
            return Answer.without_point(InnerStatus.FAILED, program.n, "no time is left")
        further = {
            "time_limit": max(end.remaining, 0.0),
            "direct_solve_method": "qdldl" if limits.FIRST_FACTORISATION.allows(program.n) else "faer",
        }
        chosen = settings(accuracy, further, CAREFUL if careful else {})
        try:
            solver = without_panic(lambda: clarabel.DefaultSolver(*data, chosen))
            is_short = end.is_never or limits.UNWATCHED_ITERATIONS.allows(self.P.nnz + self.matrix.nnz)
            work = solver.solve if is_short else partial(Pace(end, began).solve, solver)
            result = without_panic(work)
        except ClarabelPanic as panic:  # the caller has other ways to go on
            return Answer.without_point(InnerStatus.FAILED, program.n, str(panic))
        multipliers = np.empty(m)
        multipliers[order] = result.z
        return self._read(result, multipliers)

    def _read(self, result: Any, multipliers: Vector) -> Answer:
        n, native = self.program.n, str(result.status)
        status = STATUS.get(native, InnerStatus.FAILED)
        if status is InnerStatus.INFEASIBLE:
            return Answer.without_point(status, n, native, solver="clarabel")
        z = np.array(result.x)
        if status is InnerStatus.UNBOUNDED:
            answer = Answer.without_point(status, n, native, solver="clarabel")
            answer.ray = z
            return answer
        residual = max(result.r_prim, result.r_dual)
        value, bound = float(result.obj_val), float(result.obj_val_dual)
        gap = abs(value - bound) / max(1.0, abs(value))
        if not (residual <= ACCEPTED_RESIDUAL and gap <= ACCEPTED_RESIDUAL):
            return Answer.without_point(InnerStatus.FAILED, n, native)
        return Answer(
            InnerStatus.OPTIMAL,
            value,
            z,
            [],
            int(result.iterations),
            multipliers,
            "",
            "clarabel",
            bound=min(value, bound),
            error=max(residual, gap),
        )


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
        raise DataError("the data of a convex program must be finite")
    return rows, right
