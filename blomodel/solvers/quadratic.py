"""Convex quadratic and linear programs, solved again and again with new numbers.

Three stages, each used only when the one before did not settle the matter: the active rows of the
last answer, OSQP warm-started to a moderate accuracy (enough to see the active rows), and
Clarabel (for large linear programs HiGHS). All end in an exact solve on the active rows, so an
answer is either accurate to rounding or the interior point method's own, which also has the last
word on infeasible and unbounded problems.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import osqp
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.solvers.active_set import ActivePoint, ActiveSetSolver
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.clarabel import solve_quadratic
from blomodel.solvers.highs import solve_linear

_SOLVED = osqp.SolverStatus.OSQP_SOLVED
_IDENTIFY = 1e-5  # the accuracy at which OSQP's multipliers tell active rows from inactive ones
_MAX_ITERATIONS = 500  # beyond them the interior point method is faster


class QuadraticPoint(NamedTuple):
    """Minimiser and multipliers (>= 0 on inequality rows) of one quadratic program."""

    status: InnerStatus
    y: np.ndarray
    multipliers: np.ndarray
    iterations: int
    solver: str
    reason: str = ""


class QuadraticSolver:
    """min .5 y'Py + q'y s.t. Ay <= b, with = on the rows marked in ``equality``.

    Parameters
    ----------
    P, A : scipy.sparse.csc_array
        The whole symmetric P, not a triangle of it.
    equality : array of bool
    lasting : bool
        Whether many calls with these P and A are to come, so that preparation pays.
    """

    def __init__(
        self, P: sp.csc_array, A: sp.csc_array, equality: np.ndarray, lasting: bool = True
    ) -> None:
        self.equality = equality
        self.n, self.m = P.shape[0], A.shape[0]
        self._osqp: Any = None
        self._active: np.ndarray | None = None
        self._y: np.ndarray | None = None
        self.lasting = lasting
        self.set_matrices(P, A)

    def set_matrices(self, P: sp.csc_array, A: sp.csc_array) -> None:
        """Replace P and A, keeping what is known of the last answer."""
        self.P, self.A = P, A
        self.is_linear = P.nnz == 0 or not P.data.any()
        self._exact = ActiveSetSolver(P, A, self.equality, self.lasting)
        self._osqp = None  # rarely reached, and its own set-up is what an update would cost

    def solve(
        self, q: np.ndarray, b: np.ndarray, warm: bool = True, accuracy: float = 1e-9
    ) -> QuadraticPoint:
        """Minimise for these vectors; a row whose b is infinite does not constrain."""
        # Not-a-number anywhere, or an impossible bound, would be passed on silently by the solvers.
        if not np.isfinite(q).all() or np.isnan(b).any():
            return self._without_point(InnerStatus.FAILED, "the data at this point is not finite")
        if self.m and (b.min() == -np.inf or np.isinf(b[self.equality]).any()):
            return self._without_point(InnerStatus.INFEASIBLE, "a bound is infinite the wrong way")
        tolerance = 0.01 * min(accuracy, 1e-9)
        if not warm:
            self._active = self._y = None
        exact = self._guess(q, b, tolerance)
        if exact is not None:
            return self._accept(exact, exact.changes, "active set")
        iterations = 0
        if not self.is_linear and self.m:
            result = self._run_osqp(q, b)
            iterations = int(result.info.iter)
            if result.info.status_val == _SOLVED:
                active = result.y > b - self.A @ result.x
                exact = self._exact.solve(q, b, active, result.x, tolerance)
                if exact is not None:
                    return self._accept(exact, iterations, "osqp")
        return self._interior_point(q, b, accuracy, tolerance, iterations)

    def _guess(self, q: np.ndarray, b: np.ndarray, tolerance: float) -> ActivePoint | None:
        if self._active is not None:
            # A vertex is left for a neighbour, which these corrections seldom find.
            changes = 12 if self._exact.is_strongly_convex else 0 if self.is_linear else 3
            return self._exact.solve(q, b, self._active, self._y, tolerance, changes)
        # Without a guess, corrections from no active row work well when P is well conditioned.
        if self._exact.is_strongly_convex or not self.m:
            return self._exact.solve(q, b, np.zeros(self.m, bool), None, tolerance, 12)
        return None

    def _accept(self, exact: ActivePoint, iterations: int, solver: str) -> QuadraticPoint:
        self._active, self._y = exact.active, exact.y
        status = InnerStatus.OPTIMAL
        return QuadraticPoint(status, exact.y, exact.multipliers, iterations, solver)

    def _run_osqp(self, q: np.ndarray, b: np.ndarray) -> Any:
        lower = np.where(self.equality, b, -np.inf)
        if self._osqp is None:
            self._osqp = osqp.OSQP()
            self._osqp.setup(
                P=sp.csc_matrix(sp.triu(self.P)),
                q=q,
                A=sp.csc_matrix(self.A),
                l=lower,
                u=b,
                eps_abs=_IDENTIFY,
                eps_rel=_IDENTIFY,
                max_iter=_MAX_ITERATIONS,
                check_termination=5,
                polishing=False,
                verbose=False,
            )
        else:
            self._osqp.update(q=q, l=lower, u=b)
        if self._y is not None:
            self._osqp.warm_start(x=self._y)
        else:
            self._osqp.warm_start(x=np.zeros(self.n), y=np.zeros(self.m))
        result = self._osqp.solve(raise_error=False)
        if result.info.status_val == osqp.SolverStatus.OSQP_SIGINT:
            raise KeyboardInterrupt  # OSQP keeps Ctrl-C to itself
        return result

    def _interior_point(
        self, q: np.ndarray, b: np.ndarray, accuracy: float, tolerance: float, spent: int
    ) -> QuadraticPoint:
        name = "clarabel"
        if self.is_linear and not limits.INTERIOR_POINT_LP.allows(self.n + self.m):
            name = "highs"
            result = solve_linear(q, self.A, b, self.equality)
        if name == "clarabel" or result.status is InnerStatus.FAILED:
            name = "clarabel"
            result = solve_quadratic(self.P, q, self.A, b, self.equality, accuracy)
        iterations = spent + result.iterations
        if not result.status.has_point:
            self._active = self._y = None
            status = result.status
            if status is InnerStatus.FAILED:
                status = self._decide(q, b)
            return self._without_point(status, f"{name}: {result.native}", iterations)
        exact = self._exact.solve(q, b, result.z > result.s, result.x, tolerance, 4)
        if exact is not None:
            return self._accept(exact, iterations, name)
        self._active, self._y = None, result.x
        return QuadraticPoint(result.status, result.x, result.z, iterations, name, result.native)

    def _decide(self, q: np.ndarray, b: np.ndarray) -> InnerStatus:
        """Tell infeasible from unbounded by the simplex method, when the others saw neither.

        A convex quadratic program that has feasible points is unbounded exactly when some direction
        d that keeps them feasible has Pd = 0 and q'd < 0.
        """
        feasible = solve_linear(np.zeros(self.n), self.A, b, self.equality)
        if feasible.status is not InnerStatus.OPTIMAL:
            return feasible.status
        unit = sp.eye_array(self.n)
        rows = sp.csc_array(sp.vstack([self.A, self.P, unit, -unit]))
        still = np.concatenate([self.equality, np.ones(self.n, bool), np.zeros(2 * self.n, bool)])
        away = np.where(np.isfinite(b), 0.0, np.inf)
        limits = np.concatenate([away, np.zeros(self.n), np.ones(2 * self.n)])
        direction = solve_linear(q, rows, limits, still)
        falls = direction.status is InnerStatus.OPTIMAL and q @ direction.x < -1e-7 * np.abs(q).max()
        return InnerStatus.UNBOUNDED if falls else InnerStatus.FAILED

    def _without_point(self, status: InnerStatus, reason: str, iterations: int = 0) -> QuadraticPoint:
        nothing = np.full(self.n, np.nan), np.full(self.m, np.nan)
        return QuadraticPoint(status, *nothing, iterations, "", reason)
