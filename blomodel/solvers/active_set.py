"""Exact answers of convex quadratic programs from a guess of the active rows.

With the active rows known, the minimiser solves one linear system. The guess is corrected by the
primal-dual active set rule [1]_: drop rows whose multiplier is negative, add violated ones. What is
returned satisfies the optimality conditions, which suffice for a convex program, so a wrong guess
can cost time but not correctness.

.. [1] Hintermueller, Ito, Kunisch. The primal-dual active set strategy as a semismooth Newton
   method. SIAM J. Optim. 13 (2002).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg.lapack as lapack
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from blomodel.basics import limits
from blomodel.solvers.answer import Answer, InnerStatus, OptimalitySystem
from blomodel.solvers.question import ProblemClass, QuadraticQuestion
from blomodel.solvers.registry import InnerSolver, inner_solver
from blomodel.solvers.systems.banded import factorised_band
from blomodel.solvers.systems.held_variables import solver_of_free_variables

Solve = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

_FULL = 0.15  # share of nonzeros from which dense algebra is faster on larger matrices too
_REFINEMENTS = 6
# Corrections of the active rows tried, by what is known. A vertex is left for a neighbour, which they
# seldom find; without a guess they work well from no active row when P is well conditioned.
_CORRECTIONS_STRONGLY_CONVEX, _CORRECTIONS_CONVEX, _CORRECTIONS_LINEAR = 12, 3, 0


class ActivePoint(NamedTuple):
    """A point that satisfies the optimality conditions, and its active rows."""

    y: np.ndarray
    multipliers: np.ndarray
    active: np.ndarray
    changes: int


@dataclass(slots=True, eq=False)
class _Kept:
    """The factorised optimality system of one set of active rows."""

    rows: np.ndarray
    inequality: np.ndarray  # which of the rows are inequalities
    A: Any  # the active rows of A
    At: Any
    solve: Solve = field(default=lambda r, s: (r, s))  # [P A'; A 0] (y, l) = (r, s)
    # With P inverted beforehand (y eliminated):
    inverse_At: Any = None  # P^-1 A' in the active columns
    gram: Any = None  # A P^-1 A' in the active columns
    multipliers: Callable[[np.ndarray], np.ndarray] = field(default=lambda values: values)


@inner_solver
class ActiveSet(InnerSolver):
    """Corrects the active rows of the last answer; fails where a few corrections do not end it."""

    name: ClassVar[str] = "active-set"
    may_fail: ClassVar[bool] = True
    classes: ClassVar[frozenset[ProblemClass]] = frozenset({ProblemClass.LP, ProblemClass.QP})
    module: ClassVar[str] = "scipy"
    is_trusted: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self._system: ActiveSetSystem | None = None
        self._is_linear = False

    def solve(self, question: QuadraticQuestion) -> Answer:
        """The minimiser, from the rows that the question thinks active."""
        system, active = self._prepared(question), question.active
        corrections = _CORRECTIONS_STRONGLY_CONVEX
        if active is not None:
            if not system.is_strongly_convex:
                corrections = _CORRECTIONS_LINEAR if self._is_linear else _CORRECTIONS_CONVEX
        elif system.is_strongly_convex or not system.m:
            active = np.zeros(system.m, bool)
        if active is None:
            return _no_answer(system.n)
        start = question.start if question.active is not None else None
        return self.correct(question, active, start, corrections) or _no_answer(system.n)

    def correct(
        self, question: QuadraticQuestion, active: np.ndarray, start: np.ndarray | None, corrections: int
    ) -> Answer | None:
        """The minimiser by a number of corrections of ``active``; None when they do not reach it."""
        tolerance = 0.01 * min(question.accuracy, 1e-9)
        system = self._prepared(question)
        found = system.solve(question.q, question.b, active, start, tolerance, corrections)
        if found is None:
            return None
        y, multipliers, exact, changes = found
        answer = Answer(
            InnerStatus.OPTIMAL, np.nan, y, [], changes, multipliers, "", self.name, active=exact
        )
        answer.system = system.kept_system
        return answer

    def _prepared(self, question: QuadraticQuestion) -> ActiveSetSystem:
        system, P, A = self._system, question.P, question.A
        if system is None or system.given[0] is not P or system.given[1] is not A:
            system = self._system = ActiveSetSystem(P, A, question.equality, question.is_lasting)
            self._is_linear = P.nnz == 0 or not P.data.any()
        return system


def _no_answer(n: int) -> Answer:
    return Answer.without_point(InnerStatus.FAILED, n, "corrections of the active rows did not end")


class ActiveSetSystem:
    """min .5 y'Py + q'y s.t. Ay <= b (= on the rows in ``equality``), for fixed P and A.

    The factorisation belonging to the last active rows is kept: a new q or b with the same active
    rows costs two triangular solves.
    """

    n: Any
    m: Any
    given: tuple[Any, Any]
    equality: np.ndarray

    def __init__(
        self, P: sp.csc_array, A: sp.csc_array, equality: np.ndarray, lasting: bool = True
    ) -> None:
        self.n, self.m = P.shape[0], A.shape[0]
        self.given, self.equality = (P, A), equality
        size, stored = self.n + self.m, P.nnz + A.nnz
        total = self.n * size
        is_full = stored > _FULL * total and limits.DENSE_ACTIVE_SET_IF_FULL.allows(size)
        self.is_dense: bool = limits.DENSE_ACTIVE_SET.allows(size) or is_full
        self.P: Any = P.toarray() if self.is_dense else sp.csr_array(P)
        self.A: Any = A.toarray() if self.is_dense else sp.csr_array(A)
        self.At: Any = np.ascontiguousarray(self.A.T) if self.is_dense else sp.csr_array(A.T)
        self._key: bytes | None = None
        self._kept: _Kept | None = None
        self._inverse: np.ndarray | None = None
        # Eliminating y pays only when its matrix is inverted once for many calls.
        if self.is_dense and lasting:
            self._invert()

    @property
    def is_strongly_convex(self) -> bool:
        """Whether P was found well enough conditioned to be inverted."""
        return self._inverse is not None

    @property
    def kept_system(self) -> OptimalitySystem | None:
        """The optimality system of the last active rows."""
        kept = self._kept
        return None if kept is None else OptimalitySystem(self.P, kept.A, kept.solve)

    def _invert(self) -> None:
        factor, info = lapack.dpotrf(self.P, lower=1, clean=1)
        if info != 0:
            return
        reciprocal, _ = lapack.dpocon(factor, np.abs(self.P).sum(0).max(), uplo="L")
        if reciprocal < 1e-8:
            return
        inverse, info = lapack.dpotri(factor, lower=1)
        if info == 0:
            self._inverse = inverse + np.tril(inverse, -1).T
            self._inverse_At = self._inverse @ self.At
            self._gram = self.A @ self._inverse_At  # A P^-1 A'

    def solve(
        self,
        q: np.ndarray,
        b: np.ndarray,
        active: np.ndarray,
        y: np.ndarray | None = None,
        tolerance: float = 1e-11,
        max_changes: int = 10,
    ) -> ActivePoint | None:
        """The minimiser, or None when ``max_changes`` corrections do not reach it."""
        finite = np.isfinite(b)
        bounded = bool(finite.all())
        active = active | self.equality
        if not bounded:
            active &= finite
        reach = np.abs(b if bounded else b[finite]).max(initial=1.0)
        seen: set[bytes] = set()
        start = y if y is not None and np.isfinite(y).all() else np.zeros(self.n)
        free = values = None
        if self._inverse is not None:
            free = self._inverse @ -q
            values = self.A @ free - b
        for change in range(max_changes + 1):
            key = active.tobytes()
            if key in seen:
                return None
            seen.add(key)
            if key != self._key and not self._factor(active, key):
                return None
            kept = self._kept
            assert kept is not None
            if free is not None and values is not None:
                multipliers = kept.multipliers(values)
                at_y = values - kept.gram @ multipliers
                found, size = True, reach
            else:
                found, y_new, multipliers = self._refine(q, b, start, tolerance)
                at_y = self.A @ y_new - b
                size = max(reach, 10.0 * _largest(y_new))
            if not found:
                return None
            rows = kept.rows
            wrong_row = at_y > tolerance * size
            wrong_row[rows] = False
            too_small = -tolerance * max(1.0, _largest(multipliers))
            wrong_sign = (multipliers < too_small) & kept.inequality
            if not wrong_sign.any() and not wrong_row.any():
                if free is not None:
                    guess = free - kept.inverse_At @ multipliers
                    found, y_new, multipliers = self._refine(q, b, guess, tolerance, multipliers)
                    if not found:
                        return None
                every = np.zeros(self.m)
                every[rows] = np.where(kept.inequality, np.maximum(multipliers, 0.0), multipliers)
                return ActivePoint(y_new, every, active, change)
            active = active | wrong_row
            active[rows[wrong_sign]] = False
        return None

    def _refine(
        self,
        q: np.ndarray,
        b: np.ndarray,
        y: np.ndarray,
        tolerance: float,
        multipliers: np.ndarray | None = None,
    ) -> tuple[bool, np.ndarray, np.ndarray]:
        """Solve the optimality system of the active rows by refinement with the kept factor.

        Starting from the old point keeps whatever the system leaves undetermined near it.
        """
        kept = self._kept
        assert kept is not None
        b_rows = b[kept.rows]
        if multipliers is None:
            y_step, multipliers = kept.solve(-q - self.P @ y, b_rows - kept.A @ y)
            y = y + y_step
        previous = np.inf
        for _ in range(_REFINEMENTS):
            Py, pull = self.P @ y, kept.At @ multipliers
            residual_y, residual_b = q + Py + pull, b_rows - kept.A @ y
            scale_y = max(_largest(q), _largest(pull), _largest(Py), 1e-8)
            scale_b = max(_largest(b_rows), _largest(y), 1e-8)
            error = max(_largest(residual_y) / scale_y, _largest(residual_b) / scale_b)
            if error <= 0.01 * tolerance:
                return True, y, multipliers
            if not error < 0.5 * previous:
                return error <= tolerance, y, multipliers
            previous = error
            y_step, step = kept.solve(-residual_y, residual_b)
            y, multipliers = y + y_step, multipliers + step
        return False, y, multipliers

    def _factor(self, active: np.ndarray, key: bytes) -> bool:
        rows = np.flatnonzero(active)
        kept = _Kept(rows, ~self.equality[rows], self.A[rows], self.At[:, rows])
        if self._inverse is not None:
            solve = self._eliminate(kept)
        elif self.is_dense:
            solve = self._factor_dense(kept)
        else:
            solve = self._factor_sparse(kept)
        if solve is None:
            self._key = None
            return False
        kept.solve = solve
        self._key, self._kept = key, kept
        return True

    def _eliminate(self, kept: _Kept) -> Solve | None:
        """y = P^-1 (r - A'l) with (A P^-1 A') l = A P^-1 r - s."""
        inverse = self._inverse
        assert inverse is not None
        kept.inverse_At = inverse_At = self._inverse_At[:, kept.rows]
        kept.gram = self._gram[:, kept.rows]
        if len(kept.rows) == 0:
            kept.multipliers = lambda values: values[:0]
            return lambda r, s: (inverse @ r, s)
        square = kept.gram[kept.rows]
        # Dependent rows make the matrix singular; the small shift picks one of the multipliers, and
        # refinement removes its effect on everything that is determined.
        square.flat[:: len(square) + 1] += 1e-11 * max(square.diagonal().max(), 1e-300)
        factor, info = lapack.dpotrf(square, lower=1)
        if info != 0:
            return None
        kept.multipliers = lambda values: lapack.dpotrs(factor, values[kept.rows], lower=1)[0]

        def solve(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            multipliers, _ = lapack.dpotrs(factor, r @ inverse_At - s, lower=1)
            return inverse @ r - inverse_At @ multipliers, multipliers

        return solve

    def _shifts(self) -> tuple[float, float]:
        largest = abs(self.P).max() if self.n else 0.0
        return 1e-10 * max(largest, 1e-3), 1e-10

    def _factor_dense(self, kept: _Kept) -> Solve | None:
        n, k = kept.At.shape
        if k == 0:
            lower, info = lapack.dpotrf(self.P, lower=1)
            if info == 0 and lower.diagonal().min() > 1e-6 * lower.diagonal().max():
                return lambda r, s: (lapack.dpotrs(lower, r, lower=1)[0], s)
        K = np.zeros((n + k, n + k), order="F")
        K[:n, :n], K[:n, n:], K[n:, :n] = self.P, kept.At, kept.A
        shift_y, shift_b = self._shifts()
        diagonal = K.reshape(-1, order="F")[:: n + k + 1]
        diagonal[:n] += shift_y
        diagonal[n:] -= shift_b
        factor, pivots, info = lapack.dgetrf(K, overwrite_a=1)
        if info != 0:
            return None

        def solve(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            both, _ = lapack.dgetrs(factor, pivots, np.concatenate([r, s]))
            return both[:n], both[n:]

        return solve

    def _factor_sparse(self, kept: _Kept) -> Solve | None:
        of_free = solver_of_free_variables(self.P, kept.A)
        if of_free is not None:
            return of_free
        n, k = kept.At.shape
        shift_y, shift_b = self._shifts()
        K = sp.block_array(
            [
                [self.P + shift_y * sp.eye_array(n), kept.At],
                [kept.A, -shift_b * sp.eye_array(k)],
            ],
            format="csc",
        )
        in_band = factorised_band(K)
        if in_band is not None:
            whole = in_band[0]
        else:
            try:
                symmetric = {"SymmetricMode": True}
                whole = spl.splu(K, "MMD_AT_PLUS_A", diag_pivot_thresh=0.01, options=symmetric).solve
            except RuntimeError:
                return None

        def solve(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            both = whole(np.concatenate([r, s]))
            return both[:n], both[n:]

        return solve


def _largest(vector: np.ndarray) -> float:
    return float(np.abs(vector).max()) if vector.size else 0.0
