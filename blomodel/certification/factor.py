"""Square linear systems of the lower level, solved forth and back with one factorisation."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from scipy.sparse.csgraph import connected_components

from blomodel.basics import limits

SINGULAR = 1e13  # condition number, of the scaled matrix, of equations that settle nothing
FULL = 0.15  # share of nonzeros from which LAPACK is faster
DEPENDENT = 1e-9  # relative singular value of rows that depend on one another

Solve = Callable[[np.ndarray], np.ndarray]


class Factor:
    """An invertible matrix, scaled to entries of about one, with solves for it and its transpose."""

    def __init__(self, solve: Solve, solve_transposed: Solve, condition: float) -> None:
        self.solve = solve
        self.solve_transposed = solve_transposed
        self.condition = condition

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Factor | None:
        """The factor; None where the matrix is singular to working accuracy."""
        n = matrix.shape[0]
        if n == 0:
            return cls(lambda right: right, lambda right: right, 1.0)
        if matrix.shape[1] != n or not np.all(np.isfinite(matrix.data)):
            return None
        rows, columns = _scales(matrix)
        if rows is None or columns is None:
            return None
        scaled = sp.csc_array(sp.diags_array(rows) @ matrix @ sp.diags_array(columns))
        pair = _factorise(scaled)
        if pair is None:
            return None
        solve, back, condition = pair
        if not condition < SINGULAR:
            return None

        def forth(right: np.ndarray) -> np.ndarray:
            return _times(columns, solve(_times(rows, right)))

        def transposed(right: np.ndarray) -> np.ndarray:
            return _times(rows, back(_times(columns, right)))

        return cls(forth, transposed, condition)


def _times(scale: np.ndarray, right: np.ndarray) -> np.ndarray:
    return scale * right if right.ndim == 1 else scale[:, None] * right


def _scales(matrix: sp.csr_array) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Factors of rows and columns that bring the largest entry of each to about one."""
    size = abs(sp.csr_array(matrix))
    rows, columns = np.ones(matrix.shape[0]), np.ones(matrix.shape[1])
    for _ in range(3):
        now = sp.csr_array(sp.diags_array(rows) @ size @ sp.diags_array(columns))
        in_rows = now.max(axis=1).toarray().ravel()
        in_columns = now.max(axis=0).toarray().ravel()
        if not (np.all(in_rows > 0) and np.all(in_columns > 0)):
            return None, None
        rows, columns = rows / np.sqrt(in_rows), columns / np.sqrt(in_columns)
    return rows, columns


def _factorise(matrix: sp.csc_array) -> tuple[Solve, Solve, float] | None:
    n = matrix.shape[0]
    is_dense = limits.DENSE_ACTIVE_SET.allows(n) or (
        matrix.nnz > FULL * n**2 and limits.DENSE_ACTIVE_SET_IF_FULL.allows(n)
    )
    if is_dense:
        plain = matrix.toarray()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            factor = scipy.linalg.lu_factor(plain, check_finite=False)
        if not np.all(np.diag(factor[0]) != 0):
            return None
        reciprocal, _ = scipy.linalg.lapack.dgecon(factor[0], np.linalg.norm(plain, 1))
        return (
            lambda right: scipy.linalg.lu_solve(factor, right, check_finite=False),
            lambda right: scipy.linalg.lu_solve(factor, right, trans=1, check_finite=False),
            np.inf if reciprocal <= 0 else 1.0 / reciprocal,
        )
    try:
        sparse = spl.splu(matrix)
    except RuntimeError:
        return None

    def back(right: np.ndarray) -> np.ndarray:
        return sparse.solve(right, trans="T")

    inverse = spl.LinearOperator(
        matrix.shape, matvec=sparse.solve, rmatvec=back, matmat=sparse.solve, rmatmat=back, dtype=float
    )
    return sparse.solve, back, float(spl.norm(matrix, 1) * spl.onenormest(inverse))


def rows_are_independent(rows: sp.csr_array) -> bool:
    """Whether the rows of a matrix are linearly independent."""
    m, n = rows.shape
    if m == 0:
        return True
    if m > n or not np.all(np.isfinite(rows.data)):
        return False
    if limits.DENSE_ACTIVE_SET.allows(m):
        used = np.unique(sp.csr_array(rows).indices)
        if len(used) < m:
            return False
        values = np.linalg.svd(rows[:, used].toarray(), compute_uv=False)
        return bool(values[-1] > DEPENDENT * max(values[0], 1e-300))
    upper = sp.hstack([sp.eye_array(n), rows.T])
    lower = sp.hstack([rows, sp.csr_array((m, m))])
    return Factor.of(sp.csr_array(sp.vstack([upper, lower]))) is not None


def independent_rows(rows: sp.csr_array) -> np.ndarray:
    """Numbers of rows that span all of them, found block by block."""
    chosen = [np.zeros(0, dtype=int)]
    m, n = rows.shape
    if m == 0:
        return chosen[0]
    for numbers in _row_groups(rows):
        part = rows[numbers]
        used = np.unique(part.indices)
        if len(used) == 0:
            continue
        _, r, order = scipy.linalg.qr(part[:, used].toarray().T, mode="economic", pivoting=True)
        size = np.abs(np.diag(r))
        chosen.append(numbers[order[: int((size > DEPENDENT * max(size[0], 1e-300)).sum())]])
    return np.sort(np.concatenate(chosen))


def _row_groups(rows: sp.csr_array) -> list[np.ndarray]:
    """Rows that share columns, directly or through others."""
    pattern = sp.csr_array((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)
    both = sp.block_array([[None, pattern], [pattern.T, None]], format="csr")
    _, labels = connected_components(both, directed=False)
    labels = labels[: rows.shape[0]]
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
