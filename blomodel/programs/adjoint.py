"""How a function of the minimiser changes with x, by one linear solve with the optimality system.

On the active rows the minimiser y*(x) solves ``[H A'; A 0] (dy, dl) = -(R, B) dx``, where H and R are
the second derivatives of the Lagrangian in (y, y) and (y, x), and A and B the slopes of the active rows.
For a slope s in y the product ``(dy/dx)' s`` needs no dy/dx: with ``[H A'; A 0] (u, w) = (s, 0)`` it is
``-(R'u + B'w)``, and R'u and B'w are each one run of a tape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from blomodel.basics import limits
from blomodel.compiler.passes.derivatives import jvp, vjp
from blomodel.programs.lagrangian import Lagrangian, LagrangianPoint
from blomodel.programs.newton import last_input_only
from blomodel.programs.optimality_system import is_thin
from blomodel.solvers.answer import OptimalitySystem
from blomodel.solvers.systems.banded import factorised_band
from blomodel.solvers.systems.held_variables import solver_of_free_variables

_SHIFT = 1e-13  # relative to the Hessian, so that flat directions and dependent rows can be factored
_REFINEMENTS = 3
_EXACT = 1e-12  # relative residual that needs no refinement
_ACCURACY = 1e-6  # relative residual beyond which the system has no solution
# With the factor of a point nearby, such as that of the last Newton step.
_REFINEMENTS_NEARBY, _ACCURACY_NEARBY = 10, 1e-9
_PRODUCTS = 2000  # of conjugate gradients with the Hessian, at most
_FULL = 0.2  # share of nonzeros from which a large matrix is taken as dense


class Adjoint(NamedTuple):
    """The product (dy/dx)' slope at one x.

    Attributes
    ----------
    gradient : array
    is_smooth : bool
        Whether multipliers and slacks tell the active rows apart. Elsewhere y* has a kink, and the
        product is that of one of the pieces that meet there.
    """

    gradient: np.ndarray
    is_smooth: bool


class ActiveRows(NamedTuple):
    """The rows on which the minimiser moves, and whether no other choice was possible."""

    mask: np.ndarray
    is_strict: bool


def active_rows(
    lagrangian: Lagrangian, at: LagrangianPoint, tolerance: float, *, keeps_weak: bool = False
) -> ActiveRows:
    """Rows that push; with ``keeps_weak`` also those that touch without pushing."""
    if lagrangian.rows is None:
        return ActiveRows(np.zeros(0, bool), True)
    x, y, p, _, multipliers = at
    slack = -lagrangian.signs * lagrangian.rows(x, y, p)
    reach_slack = tolerance * max(1.0, np.abs(y).max(initial=0.0))
    reach_dual = tolerance * max(1.0, np.abs(multipliers).max(initial=0.0))
    pushes = (multipliers > reach_dual) & (multipliers / reach_dual > slack / reach_slack)
    touches = (slack <= reach_slack) & ~pushes & ~lagrangian.equality
    mask = pushes | lagrangian.equality
    return ActiveRows(mask | touches if keeps_weak else mask, not touches.any())


def pull_back(
    lagrangian: Lagrangian,
    at: LagrangianPoint,
    slope: np.ndarray,
    rows: ActiveRows,
    system: OptimalitySystem | None = None,
) -> Adjoint | None:
    """The product (dy/dx)' slope; None where the minimiser may move along the slope at fixed x.

    Parameters
    ----------
    slope : array
        In y, with all variables of the Lagrangian.
    system : OptimalitySystem, optional
        That of these rows, where it has been factorised already, here or nearby.
    """
    x, y, p, weights, multipliers = at
    chosen = np.flatnonzero(rows.mask)
    nothing = np.zeros(len(chosen))
    solved = None
    if system is not None and system.A.shape[0] == len(chosen):
        solved = _refined(system.solve, system.P, system.A, slope, _REFINEMENTS_NEARBY, _ACCURACY_NEARBY)
    if solved is not None:
        u, w = solved
    elif (lagrangian.is_large_and_dense or lagrangian.has_dear_hessian) and not len(chosen):
        found = _conjugate_gradients(lagrangian, at, slope)
        if found is None:
            return None
        u, w = found, nothing
    else:
        solved = _solve_directly(lagrangian, at, slope, chosen)
        if solved is None:
            return None
        u, w = solved
    gradient = -vjp(lagrangian.terms_grad_y, ("x",))(x, y, p, weights, u)
    if lagrangian.rows is not None and lagrangian.rows_move_with_x:
        signed = lagrangian.signs * multipliers
        gradient -= vjp(lagrangian.rows_grad_y, ("x",))(x, y, p, signed, u)
        every = np.zeros(lagrangian.n_rows)
        every[chosen] = lagrangian.signs[chosen] * w
        gradient -= lagrangian.rows_grad_x(x, y, p, every)
    return Adjoint(gradient, rows.is_strict) if np.isfinite(gradient).all() else None


def _solve_directly(
    lagrangian: Lagrangian, at: LagrangianPoint, slope: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    H, A = lagrangian.system_at(at, chosen)
    entries = (H, A) if isinstance(H, np.ndarray) else (H.data, A.data)
    if not all(np.isfinite(part).all() for part in entries):
        return None
    solve = factorised(H, A)
    return None if solve is None else _refined(solve, H, A, slope)


def _refined(
    solve: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    H: Any,
    A: Any,
    slope: np.ndarray,
    most: int = _REFINEMENTS,
    accuracy: float = _ACCURACY,
) -> tuple[np.ndarray, np.ndarray] | None:
    """(u, w) of [H A'; A 0] (u, w) = (slope, 0), refined; None where nothing solves the system.

    The factor may belong to a slightly shifted matrix: refinement removes the shift's effect where the
    system has a solution, and shows where it has none.
    """
    size = float(np.abs(slope).max(initial=0.0))
    u, w = np.zeros(H.shape[0]), np.zeros(A.shape[0])
    if size == 0.0:
        return u, w
    rest_y, rest_rows, error = slope, w, np.inf
    for _ in range(most):
        du, dw = solve(rest_y, rest_rows)
        u, w, before = u + du, w + dw, error
        rest_y, rest_rows = slope - H @ u - A.T @ w, -(A @ u)
        error = max(np.abs(rest_y).max(initial=0.0), np.abs(rest_rows).max(initial=0.0))
        if error <= _EXACT * size:
            return u, w
        if not error <= before:
            break
    return (u, w) if error <= accuracy * size else None


def factorised(
    H: Any, A: Any
) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]] | None:
    """Solver of [H A'; A 0], shifted a little: Cholesky without rows, else LU, sparse where it pays.

    The right sides may have several columns.
    """
    n, k = H.shape[0], A.shape[0]
    is_plain = isinstance(H, np.ndarray)
    scale = float(np.abs(H if is_plain else H.data).max(initial=1e-3))
    is_full = is_plain or (H.nnz > _FULL * n * n and k <= n)
    of_free = (
        None if is_plain or limits.DENSE_ACTIVE_SET.allows(n + k) else solver_of_free_variables(H, A)
    )
    if of_free is not None:
        return of_free
    whole: Callable[[np.ndarray], np.ndarray]
    is_large = not limits.DENSE_ACTIVE_SET.allows(n + k) and not is_full
    if is_large or (not is_plain and is_thin(H, A)):
        shift = sp.diags_array(np.concatenate([np.full(n, _SHIFT * scale), np.full(k, -_SHIFT)]))
        blocks: Any = [[H, A.T], [A, None]]
        matrix = sp.csc_array((sp.block_array(blocks) if k else H) + shift)
        in_band = factorised_band(matrix)
        try:
            whole = spl.splu(matrix).solve if in_band is None else in_band[0]
        except RuntimeError:
            return None
    else:
        dense, rows = (H.copy(), A) if is_plain else (H.toarray(), A.toarray())
        dense.flat[:: n + 1] += _SHIFT * scale
        if not k:
            lower, info = scipy.linalg.lapack.dpotrf(dense, lower=1)
            if info != 0:
                return None
            return lambda r, s: (scipy.linalg.lapack.dpotrs(lower, r, lower=1)[0], s)
        K = np.zeros((n + k, n + k))
        K[:n, :n], K[:n, n:], K[n:, :n] = dense, rows.T, rows
        K.flat[n * (n + k + 1) :: n + k + 1] -= _SHIFT
        factor, pivots, info = scipy.linalg.lapack.dgetrf(K)
        if info != 0:
            return None

        def whole(right: np.ndarray) -> np.ndarray:
            return np.asarray(scipy.linalg.lapack.dgetrs(factor, pivots, right)[0])

    def solve(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = whole(np.concatenate([r, s]))
        return both[:n], both[n:]

    return solve


def _conjugate_gradients(
    lagrangian: Lagrangian, at: LagrangianPoint, slope: np.ndarray
) -> np.ndarray | None:
    """H u = slope by products with H, for a level without rows whose Hessian is large and dense."""
    x, y, p, weights, _ = at
    n = len(y)
    apply = last_input_only(jvp(lagrangian.terms_grad_y, ("y",)), (x, y, p, weights))
    hessian = spl.LinearOperator((n, n), matvec=apply, dtype=float)
    u, info = spl.cg(hessian, slope, rtol=1e-9, maxiter=_PRODUCTS)
    if info != 0:
        rest = float(np.linalg.norm(hessian @ u - slope))
        if not rest <= _ACCURACY * np.linalg.norm(slope):
            return None
    return np.asarray(u)
