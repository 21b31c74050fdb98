"""The optimality system [H A'; A 0] of a lower minimiser: factors, and how the minimiser moves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.linalg.lapack as lapack
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from blomodel.basics import limits
from blomodel.solvers.blocks import Part, independent_parts

_THIN = 0.05  # share of nonzeros up to which a system is taken as sparse


def is_thin(H: sp.sparray, A: sp.sparray) -> bool:
    """Whether [H A'; A 0] has so few entries that a dense factor would mostly hold zeros.

    The followers of a problem that share only x are such a system: a block for each.
    """
    size = H.shape[0] + A.shape[0]
    if limits.THIN_SYSTEM.allows(size):
        return False
    return bool(H.nnz + 2 * A.nnz <= _THIN * size * size)


def factor_plain_system(H: np.ndarray, A: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """The same as ``factor_system`` for small plain matrices."""
    n, k = H.shape[0], A.shape[0]
    K = np.zeros((n + k, n + k), order="F")
    K[:n, :n], K[:n, n:], K[n:, :n] = H, A.T, A
    if not np.isfinite(K).all():
        return None
    shift = 1e-12 * max(float(np.abs(H).max(initial=0.0)), 1e-3)
    K[range(n), range(n)] += shift
    K[range(n, n + k), range(n, n + k)] -= 1e-12
    factor, pivots, info = lapack.dgetrf(K, overwrite_a=1)
    if info != 0:
        return None
    return lambda right: lapack.dgetrs(factor, pivots, right)[0]


def factor_system(H: sp.csc_array, A: sp.csr_array) -> Callable[[np.ndarray], np.ndarray] | None:
    """Solver of [H A'; A 0], shifted a little so that dependent rows do no harm."""
    n, k = H.shape[0], A.shape[0]
    scale = float(np.abs(H.data).max(initial=1e-3))
    if not np.isfinite(scale) or not np.isfinite(A.data).all():
        return None
    if not limits.DENSE_OPTIMALITY_SYSTEM.allows(n + k) or is_thin(H, A):
        shift = sp.diags_array(np.concatenate([np.full(n, 1e-12 * scale), np.full(k, -1e-12)]))
        blocks: Any = [[H, A.T], [A, None]]
        whole = sp.block_array(blocks) if k else H
        try:
            return spl.splu(sp.csc_array(whole + shift)).solve
        except RuntimeError:
            return None
    K = np.zeros((n + k, n + k))
    K[:n, :n], K[:n, n:], K[n:, :n] = H.toarray(), A.toarray().T, A.toarray()
    K.flat[: n * (n + k) : n + k + 1] += 1e-12 * scale
    K.flat[n * (n + k + 1) :: n + k + 1] -= 1e-12
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
            factor = scipy.linalg.lu_factor(K)
    except (scipy.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
        return None
    return lambda right: scipy.linalg.lu_solve(factor, right)


def solve_sensitivity(
    H: sp.csc_array, A: sp.csr_array, R: sp.csc_array, B: sp.csr_array
) -> np.ndarray | None:
    """dy of [H A'; A 0] (dy, dl) = -(R, B), or None when dy is not determined.

    Variables that nothing ties together are looked at apart.
    """
    parts = independent_parts(H, A)
    found, of_y, of_rows = np.zeros(R.shape), R.toarray(), B.toarray()
    pieces = [_in_parts(matrix, parts, is_square=k == 0) for k, matrix in enumerate((H, A))]
    for part, own, rows in zip(parts, *pieces, strict=True):
        right = -np.concatenate([of_y[part.variables], of_rows[part.rows]])
        columns = np.flatnonzero(right.any(axis=0))
        moves = _solve_part(own, rows, right[:, columns])
        if moves is None:
            return None
        found[np.ix_(part.variables, columns)] = moves
    return found


def _in_parts(matrix: sp.sparray, parts: list[Part], *, is_square: bool) -> list[Any]:
    """The blocks of a matrix whose entries all lie in one of them."""
    if len(parts) == 1:
        return [matrix]
    entries = sp.coo_array(matrix)
    inside, place = np.empty(matrix.shape[1], dtype=int), np.empty(matrix.shape[1], dtype=int)
    row_place = np.empty(matrix.shape[0], dtype=int)
    for number, part in enumerate(parts):
        rows = part.variables if is_square else part.rows
        inside[part.variables], place[part.variables] = number, np.arange(len(part.variables))
        row_place[rows] = np.arange(len(rows))
    of_entry = inside[entries.col]
    order = np.argsort(of_entry, kind="stable")
    cuts = np.searchsorted(of_entry[order], np.arange(1, len(parts)))
    blocks: list[Any] = []
    for part, chosen in zip(parts, np.split(order, cuts), strict=True):
        shape = len(part.variables if is_square else part.rows), len(part.variables)
        at = row_place[entries.row[chosen]], place[entries.col[chosen]]
        blocks.append(sp.csc_array((entries.data[chosen], at), shape))
    return blocks


def _solve_part(H: Any, A: Any, right: np.ndarray) -> np.ndarray | None:
    """dy of [H A'; A 0] (dy, dl) = right; None when dy is not determined."""
    n, k = H.shape[0], A.shape[0]
    if not limits.DENSE_OPTIMALITY_SYSTEM.allows(n + k):
        K = sp.block_array([[H, A.T], [A, None]], format="csc") if k else sp.csc_array(H)
        try:
            solution = spl.splu(K).solve(right)
        except RuntimeError:
            return None
        residual = np.abs(K @ solution - right).max(initial=0.0)
        return solution[:n] if residual <= 1e-8 * (1.0 + np.abs(right).max(initial=0.0)) else None
    dense = A.toarray()
    # dy = particular + Z u, with Z spanning the directions that keep the active rows active.
    rank, vt, particular = 0, np.eye(n), np.zeros((n, right.shape[1]))
    if k:
        u, values, vt = scipy.linalg.svd(dense, full_matrices=True)
        rank = int((values > 1e-10 * values.max(initial=0.0)).sum())
        image = u.T @ right[n:]
        if np.abs(image[rank:]).max(initial=0.0) > 1e-8 * (1.0 + np.abs(image).max(initial=0.0)):
            return None  # dependent rows that move apart: the active set cannot stay
        particular = vt[:rank].T @ (image[:rank] / values[:rank, None])
    Z = vt[rank:].T
    if Z.shape[1] == 0:
        return particular
    full = H.toarray()
    reduced = Z.T @ full @ Z if rank else full
    reduced = (reduced + reduced.T) / 2
    floor = 1e-9 * max(np.abs(full).max(), 1e-12)
    if lapack.dpotrf(reduced - floor * np.eye(len(reduced)), lower=1)[1] != 0:
        return None  # flat direction: the minimiser is not unique
    factor, _ = lapack.dpotrf(reduced, lower=1)
    if not rank:
        return np.asarray(lapack.dpotrs(factor, right[:n], lower=1)[0])
    moved, _ = lapack.dpotrs(factor, Z.T @ (right[:n] - full @ particular), lower=1)
    return particular + Z @ moved
