"""Correct the answer of an interior point solve on its active set, to about machine accuracy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from numpy.typing import NDArray

from blomodel.basics import limits
from blomodel.basics.deadline import end_of_work
from blomodel.solvers.answer import Answer, InnerStatus

if TYPE_CHECKING:
    from blomodel.solvers.convex_qp import ConvexProgram

Vector = NDArray[np.float64]
REGULARISATION = 1e-9
MAX_ROUNDS = 8
EXACT = 1e-10  # relative KKT residual of an answer that needs no other proof
GOOD_ENOUGH = 1e-12  # relative KKT residual at which there is nothing left to gain


def refine_active_set(
    program: ConvexProgram, answer: Answer, tight: Any, zero: Any
) -> tuple[Answer, float]:
    """Solve the KKT equations of the active set; return the answer and its relative residual.

    The active rows are those whose multiplier exceeds their slack. Each round drops rows with a
    multiplier of the wrong sign and adds violated ones (the primal-dual active set method), so
    ``answer`` may also come from a program with other rows tight. The result with the smallest
    residual is kept, which is ``answer`` itself when nothing improves on it.
    """
    assert answer.multipliers is not None
    G, h = program.compact[1], program.stacked[1]
    is_equality = program.is_equality(tight, zero)
    z, dual = answer.y, answer.multipliers
    scale = program.scale + np.abs(z).max(initial=0.0)
    gap = G @ z - h
    best = _residual(program, G, gap, is_equality, z, dual)
    best_z, best_dual = z, dual
    active = is_equality | (dual > -gap)
    for _ in range(MAX_ROUNDS):
        if best <= GOOD_ENOUGH * scale or end_of_work().is_over:
            break
        solved = _solve_kkt(program, G[active], h[active], z, dual[active], scale)
        if solved is None:
            break
        z, active_dual = solved
        dual = np.zeros_like(dual)
        dual[active] = active_dual
        gap = G @ z - h
        residual = _residual(program, G, gap, is_equality, z, dual)
        if residual < best:
            best, best_z, best_dual = residual, z, dual
        violated = gap > GOOD_ENOUGH * scale
        wrong = ~is_equality & (dual < -GOOD_ENOUGH * scale)
        if not np.any(violated & ~active) and not np.any(wrong):
            break
        active = (active & ~wrong) | violated
    best_z = best_z.copy()
    best_z[zero] = 0.0
    value = program.objective(best_z)
    best_dual = np.where(is_equality, best_dual, np.maximum(best_dual, 0.0))
    relative = best / scale
    refined = replace(
        answer,
        status=InnerStatus.OPTIMAL,
        y=best_z,
        value=value,
        bound=value if relative <= EXACT else min(answer.bound, value),
        multipliers=best_dual,
    )
    return refined, relative


def _residual(
    program: ConvexProgram, G: Any, gap: Vector, is_equality: Any, z: Vector, dual: Vector
) -> float:
    """Largest violation of stationarity, feasibility, dual signs and complementarity."""
    P = program.compact[0]
    stationarity = P @ z + program.q + G.T @ dual
    inequality = ~is_equality
    parts = (
        np.abs(stationarity),
        np.abs(gap[is_equality]),
        gap[inequality],
        -dual[inequality],
        np.minimum(np.abs(gap[inequality]), np.abs(dual[inequality])),
    )
    return max((float(part.max()) for part in parts if part.size), default=0.0)


def _solve_kkt(
    program: ConvexProgram, G: Any, h: Vector, z: Vector, dual: Vector, scale: float
) -> tuple[Vector, Vector] | None:
    """Correct (z, dual) on the equalities ``G z = h``: regularised solve, iterative refinement.

    Dependent rows make the matrix singular; the regularised iteration then still converges, to the
    solution nearest to where it starts.
    """
    P = program.compact[0]
    n, m = z.size, h.size
    try:
        solve = _factor(P, G, n, m)
    except (ValueError, RuntimeError, la.LinAlgError):
        return None
    size = np.inf
    for _ in range(8):
        right = np.concatenate([-(P @ z + program.q + G.T @ dual), h - G @ z])
        previous, size = size, np.abs(right).max(initial=0.0)
        if size <= 1e-14 * scale or (size <= GOOD_ENOUGH * scale and size > 0.1 * previous):
            return z, dual
        step = solve(right)
        if not np.all(np.isfinite(step)):
            return None
        z, dual = z + step[:n], dual + step[n:]
    # Equalities that contradict each other leave a residual that no step removes.
    return (z, dual) if size <= 1e-6 * scale else None


def _factor(P: Any, G: Any, n: int, m: int) -> Callable[[Vector], Vector]:
    """Solver for the regularised KKT matrix [[P + delta, G'], [G, -delta]]."""
    delta = REGULARISATION * max(1.0, abs(P).max(), abs(G).max() if m else 0.0)
    diagonal = np.concatenate([np.full(n, delta), np.full(m, -delta)])
    if not limits.DENSE_PIECE.allows(n + m):
        P, G = sp.csc_array(P), sp.csc_array(G)
        K = sp.block_array([[P, G.T], [G, None]], format="csc") + sp.diags_array(diagonal)
        sparse_factors: Any = spla.splu(sp.csc_matrix(K))
        return lambda right: sparse_factors.solve(right)
    dense = np.diag(diagonal)
    dense[:n, :n] += P if isinstance(P, np.ndarray) else P.toarray()
    dense[n:, :n] = G if isinstance(G, np.ndarray) else G.toarray()
    dense[:n, n:] = dense[n:, :n].T
    factors = la.lu_factor(dense, check_finite=False, overwrite_a=True)
    return lambda right: la.lu_solve(factors, right, check_finite=False)


def compact_matrix(matrix: Any) -> Any:
    """Dense while small, since a small dense product costs a tenth of a sparse one's overhead."""
    rows, columns = matrix.shape
    is_small = limits.COMPACT_MATRIX.allows(rows * columns) or matrix.nnz > 0.3 * rows * columns
    return matrix.toarray() if is_small else sp.csr_array(matrix)
