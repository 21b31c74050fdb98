r"""Quadratic programs that differ in which rows are equalities, in the space of their multipliers.

Where :math:`\tfrac12 z'Pz + q'z` is strictly convex on :math:`A_{eq} z = b_{eq}`, it has the dual

.. math:: \max_\lambda\; f_0 + v'\lambda - \tfrac12 \lambda'W\lambda, \quad
          \lambda_i \ge 0 \text{ for the rows that are inequalities},

with v the rows' excess at the minimiser on the equations alone, and :math:`W = G H^{-1} G'`. Everything
is computed once but for one Cholesky factor of active rows a step. Each feasible :math:`\lambda` bounds
the value from below, so a search may leave a program as soon as it passes its cutoff.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg as la
from scipy.linalg import lapack

from blomodel.basics import limits
from blomodel.solvers.answer import Answer, InnerStatus

if TYPE_CHECKING:
    from blomodel.solvers.convex_qp import ConvexProgram

Vector = np.ndarray
CONDITION = 1e-10  # reciprocal; below it the reduced data would lose too many digits
TOLERANCE = 1e-10  # relative, of excess and of multipliers' signs
QUICK_CHANGES = 12  # of many rows at once, before rows are changed one by one
SAFE = 1e-7  # relative: so far beyond a cutoff a program may be given up


class ReducedPieces:
    """The dual of one program, solved from the multipliers of the solve before."""

    rows: np.ndarray
    is_usable: bool
    centre: Any
    move: Any
    excess: Any
    least: float
    multipliers: Vector
    n_eq: int

    def __init__(self, program: ConvexProgram) -> None:
        self.program = program
        matrix, right = program.stacked
        n_eq = program.b_eq.size
        bounded = np.isfinite(right)
        bounded[:n_eq] = False
        self.rows = np.flatnonzero(bounded)  # inequalities, among the stacked rows
        dense: Vector = matrix.toarray()
        G, h = dense[self.rows], right[self.rows]
        P, A_eq = program.P.toarray(), dense[:n_eq]
        self.Q, self.R, kernel = _directions(A_eq)
        self.is_usable = kernel is not None
        if kernel is None:
            return
        base = self.Q @ la.solve_triangular(self.R, program.b_eq, trans="T")
        H = kernel.T @ P @ kernel
        factor, info = lapack.dpotrf(H, lower=1, clean=1)
        self.is_usable = info == 0 and _is_well_conditioned(factor, H)
        if not self.is_usable:
            return
        slope = kernel.T @ (P @ base + program.q)
        self.centre = base - kernel @ la.cho_solve((factor, True), slope)
        reduced = G @ kernel
        half = la.solve_triangular(factor, reduced.T, lower=True)
        self.W = half.T @ half
        self.move = kernel @ la.solve_triangular(factor, half, lower=True, trans="T")
        self.excess = G @ self.centre - h
        self.least = program.objective(self.centre)
        self.multipliers = np.zeros(self.rows.size)
        self.n_eq, self.G = n_eq, G

    def solve(self, is_equality: Any, cutoff: float) -> Answer | None:
        """Minimise with the stacked rows ``is_equality`` held tight; None where that fails."""
        fixed = is_equality[self.rows]
        beyond = np.inf
        if np.isfinite(cutoff):
            beyond = cutoff + SAFE * (1 + abs(cutoff)) - self.least
        found = self._change_many(fixed, beyond)
        if found is None:
            found = self._change_one_by_one(fixed, beyond)
        if found is None:
            return None
        multipliers, value = found
        self.multipliers = multipliers
        if value >= beyond:
            reason = "nothing below the cutoff"
            return Answer.without_point(InnerStatus.INFEASIBLE, self.program.n, reason)
        return self._answer(multipliers, value)

    def _answer(self, multipliers: Vector, value: float) -> Answer:
        program = self.program
        active = np.flatnonzero(multipliers)
        z = self.centre - self.move[:, active] @ multipliers[active]
        every = np.zeros(program.stacked[1].size)
        every[self.rows] = multipliers
        if self.n_eq:
            slope = program.compact[0] @ z + program.q + self.G[active].T @ multipliers[active]
            every[: self.n_eq] = -la.solve_triangular(self.R, self.Q.T @ slope, check_finite=False)
        least = self.least + value
        return Answer(InnerStatus.OPTIMAL, least, z, [], 1, every, "", "active-set", bound=least)

    def _change_many(self, fixed: Vector, beyond: float) -> tuple[Vector, float] | None:
        """The primal-dual active set method: drop all wrong signs, add all excess, at once."""
        excess, W = self.excess, self.W
        small = TOLERANCE * (1 + np.abs(excess).max(initial=0.0))
        active = fixed | (self.multipliers > 0)
        for _ in range(QUICK_CHANGES):
            held = np.flatnonzero(active)
            some = self._multipliers_of(held)
            if some is None:
                return None
            wrong = ~fixed[held] & (some < -TOLERANCE * (1 + np.abs(some).max(initial=0.0)))
            if not wrong.any():
                some = np.where(fixed[held], some, np.maximum(some, 0.0))
            pull = W[:, held] @ some
            over = excess - pull > small
            over[held] = False
            if not wrong.any():
                # Feasible in the dual, hence a bound, whatever rounding did to the equations.
                value = float(some @ (excess[held] - 0.5 * pull[held]))
                if value >= beyond or not over.any():
                    return self._spread(held, some), value
            active = active | over
            active[held[wrong]] = False
        return None

    def _change_one_by_one(self, fixed: Vector, beyond: float) -> tuple[Vector, float] | None:
        """Climb on the dual from the last multipliers, as in nonnegative least squares."""
        excess, W = self.excess, self.W
        small = TOLERANCE * (1 + np.abs(excess).max(initial=0.0))
        now = np.where(fixed, self.multipliers, np.maximum(self.multipliers, 0.0))
        active = fixed | (now > 0)
        for _ in range(5 * self.rows.size + 20):
            held = np.flatnonzero(active)
            some = self._multipliers_of(held)
            if some is None:
                return None
            falling = ~fixed[held] & (some < 0)
            if falling.any():
                before = now[held]
                steps = np.full(held.size, np.inf)
                steps[falling] = before[falling] / np.maximum(before[falling] - some[falling], 1e-300)
                step = min(float(steps.min()), 1.0)
                now[held] = before + step * (some - before)
                gone = held[falling & (steps <= step * (1 + 1e-12))]
                now[gone], active[gone] = 0.0, False
                continue
            now[:] = 0.0
            now[held] = some
            pull = W[:, held] @ some
            value = float(some @ (excess[held] - 0.5 * pull[held]))
            over = excess - pull
            over[held] = -np.inf
            if value >= beyond or not over.size or over.max() <= small:
                return now, value
            active[np.argmax(over)] = True
        return None

    def _multipliers_of(self, held: Vector) -> Vector | None:
        """Those that make the rows ``held`` tight; None where they depend on each other."""
        if not held.size:
            return np.zeros(0)
        square = self.W[np.ix_(held, held)]
        factor, info = lapack.dpotrf(square, lower=1, clean=0, overwrite_a=0)
        if info != 0 or factor.diagonal().min() ** 2 <= CONDITION * square.diagonal().min():
            return None
        return np.asarray(lapack.dpotrs(factor, self.excess[held], lower=1)[0])

    def _spread(self, held: Vector, some: Vector) -> Vector:
        every = np.zeros(self.rows.size)
        every[held] = some
        return every


def _directions(A_eq: Vector) -> tuple[Vector, Vector, Vector | None]:
    """``A_eq' = Q R``, and a basis of what ``A_eq`` maps to zero; None where rows are dependent."""
    m, n = A_eq.shape
    if m == 0:
        return np.zeros((n, 0)), np.zeros((0, 0)), np.eye(n)
    Q, R = np.linalg.qr(A_eq.T, mode="complete")
    diagonal = np.abs(np.diagonal(R))
    if m > n or diagonal.min() <= CONDITION * diagonal.max():
        return Q, R, None
    return Q[:, :m], R[:m], Q[:, m:]


def _is_well_conditioned(factor: Vector, H: Vector) -> bool:
    if not H.size:
        return True
    reciprocal, _ = lapack.dpocon(factor, np.abs(H).sum(axis=0).max(), uplo="L")
    return bool(reciprocal >= CONDITION)


def reduced_pieces(program: ConvexProgram) -> ReducedPieces | None:
    """The reduced form of a program; None where it has none or dense algebra would be slow."""
    if not limits.DENSE_PIECE.allows(program.n + program.b_in.size + program.b_eq.size):
        return None
    reduced = ReducedPieces(program)
    return reduced if reduced.is_usable else None
