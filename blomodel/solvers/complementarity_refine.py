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
from blomodel.basics.arrays import largest_at
from blomodel.basics.deadline import end_of_work
from blomodel.solvers.answer import Answer, InnerStatus

if TYPE_CHECKING:
    from blomodel.solvers.convex_qp import ConvexProgram

Vector = NDArray[np.float64]
REGULARISATION = 1e-9  # of the equilibrated KKT matrix
EQUILIBRATION_ROUNDS = 6  # each takes the square root of what is out of balance
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
        solved = _solve_kkt(program, active, h[active], z, dual[active], scale)
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
    relative = max(best / scale, _worth(program, G, best_z, best_dual, is_equality))
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


def _worth(program: ConvexProgram, G: Any, z: Vector, dual: Vector, is_equality: Any) -> float:
    """What the residuals are worth, relative to the objective's terms, whatever the units of z are.

    A slope of 1e-7 left in an entry of size 1e4 is worth 1e-3: the value would be no bound.
    """
    curved = program.compact[0] @ z
    slope = curved + program.q + G.T @ dual
    gap = G @ z - program.stacked[1]
    slack = np.where(is_equality, np.abs(gap), np.maximum(gap, 0.0))
    terms = 1.0 + np.abs(program.q) @ np.abs(z) + 0.5 * abs(float(z @ curved))
    finite = np.isfinite(slack)
    return float(max(np.abs(slope) @ np.abs(z), slack[finite] @ np.abs(dual[finite])) / terms)


def _solve_kkt(
    program: ConvexProgram, active: Any, h: Vector, z: Vector, dual: Vector, scale: float
) -> tuple[Vector, Vector] | None:
    """Correct (z, dual) on the rows ``active``, as equalities: regularised solve, iterative refinement.

    Dependent rows make the matrix singular; the regularised iteration then still converges, to the
    solution nearest to where it starts.
    """
    P, G = program.compact[0], program.compact[1][active]
    n = z.size
    units, row_units = program.units
    try:
        solve = _factor(P, G, units, row_units[active])
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


def _factor(P: Any, G: Any, units: Vector, row_units: Vector) -> Callable[[Vector], Vector]:
    """Solver for the KKT matrix [[P, G'], [G, 0]], equilibrated and then regularised."""
    n, m = units.size, row_units.size
    both = np.concatenate([units, row_units])
    diagonal = np.concatenate([np.full(n, REGULARISATION), np.full(m, -REGULARISATION)])
    if not limits.DENSE_PIECE.allows(n + m):
        P, G = sp.csc_array(P), sp.csc_array(G)
        balance = sp.diags_array(both)
        K = balance @ sp.block_array([[P, G.T], [G, None]]) @ balance + sp.diags_array(diagonal)
        sparse_factors: Any = spla.splu(sp.csc_matrix(K))
        return lambda right: both * sparse_factors.solve(both * right)
    dense = np.zeros((n + m, n + m))
    dense[:n, :n] = P if isinstance(P, np.ndarray) else P.toarray()
    dense[n:, :n] = G if isinstance(G, np.ndarray) else G.toarray()
    dense[:n, n:] = dense[n:, :n].T
    dense *= both
    dense *= both[:, None]
    dense.flat[:: n + m + 1] += diagonal
    factors = la.lu_factor(dense, check_finite=False, overwrite_a=True)
    return lambda right: both * la.lu_solve(factors, both * right, check_finite=False)


def equilibrated(P: Any, G: Any) -> tuple[Vector, Vector]:
    """Powers of two for columns and rows, with which [[P, G'], [G, 0]] has entries of about one.

    Without them a regularisation that suits one column is far larger than the curvature of another.
    """
    curved, held = sp.coo_array(P), sp.coo_array(G)
    n, m = curved.shape[0], held.shape[0]
    first, second = (np.concatenate([curved.coords[k], held.coords[k] + n * (k == 0)]) for k in (0, 1))
    units = _balanced(first, second, np.abs(np.concatenate([curved.data, held.data])), n + m)
    powers = np.exp2(np.round(np.log2(units)))
    return powers[:n], powers[n:]


def _balanced(first: Vector, second: Vector, sizes: Vector, count: int) -> Vector:
    """Factors of the unknowns of a symmetric matrix, of which each pair of entries is given once."""
    units = np.ones(count)
    for _ in range(EQUILIBRATION_ROUNDS):
        now = units[first] * sizes * units[second]
        largest = np.maximum(largest_at(first, now, count), largest_at(second, now, count))
        units /= np.sqrt(np.where(largest > 0, largest, 1.0))
    return units


def compact_matrix(matrix: Any) -> Any:
    """Dense while small, since a small dense product costs a tenth of a sparse one's overhead."""
    rows, columns = matrix.shape
    is_small = limits.COMPACT_MATRIX.allows(rows * columns) or matrix.nnz > 0.3 * rows * columns
    return matrix.toarray() if is_small else sp.csr_array(matrix)
