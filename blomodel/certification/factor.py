"""Square linear systems of the lower level, solved forth and back with one factorisation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from scipy.sparse.csgraph import connected_components

from blomodel.basics import limits
from blomodel.basics.arrays import largest_at

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
        if matrix.shape[1] != n or not np.all(np.isfinite(matrix.data)):
            return None
        if not limits.DENSE_ACTIVE_SET.allows(n):
            parts = _Parts.of(matrix)
            if parts.n_easy:
                inner = cls._whole(parts.core)
                return None if inner is None else cls(*parts.solves(inner), inner.condition)
        return cls._whole(matrix)

    @classmethod
    def _whole(cls, matrix: sp.csr_array) -> Factor | None:
        if matrix.shape[0] == 0:
            return cls(lambda right: right, lambda right: right, 1.0)
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


@dataclass(frozen=True, eq=False)
class _Parts:
    """A matrix whose rows with one entry come first, columns with one entry last, the core between.

    Entries fixed at zero have such rows, and their multipliers such columns: what is left to factorise
    is as large as what moves, whatever the size of the whole.
    """

    rows: tuple[np.ndarray, np.ndarray, np.ndarray]  # first, core, last
    columns: tuple[np.ndarray, np.ndarray, np.ndarray]
    pivots: tuple[np.ndarray, np.ndarray]  # the entries of those that come first, and last
    core: sp.csr_array
    below_first: tuple[sp.csr_array, sp.csr_array]  # core and last rows in the first columns
    below_core: sp.csr_array  # last rows in the core's columns

    @classmethod
    def of(cls, matrix: sp.csr_array) -> _Parts:
        by_row, by_column = sp.csr_array(matrix), sp.csc_array(matrix)
        first = _single_entries(by_row)
        is_free = np.ones((2, matrix.shape[0]), dtype=bool)  # rows, then columns
        is_free[0, first[0]] = is_free[1, first[1]] = False
        single = _single_entries(by_column)
        usable = is_free[0, single[1]] & is_free[1, single[0]]
        last = single[1][usable], single[0][usable], single[2][usable]
        is_free[0, last[0]] = is_free[1, last[1]] = False
        rows, columns = (np.flatnonzero(part) for part in is_free)
        core, end = by_row[rows], by_row[last[0]]
        return cls(
            (first[0], rows, last[0]),
            (first[1], columns, last[1]),
            (first[2], last[2]),
            sp.csr_array(core[:, columns]),
            (sp.csr_array(core[:, first[1]]), sp.csr_array(end[:, first[1]])),
            sp.csr_array(end[:, columns]),
        )

    @property
    def n_easy(self) -> int:
        """Unknowns that need no factor."""
        return len(self.pivots[0]) + len(self.pivots[1])

    def solves(self, inner: Factor) -> tuple[Solve, Solve]:
        """Solves for the whole matrix and its transpose, from those for the core."""
        (rows_first, rows_core, rows_last), (first, core, last) = self.rows, self.columns
        by_first, by_last = (1.0 / pivots for pivots in self.pivots)
        core_in_first, last_in_first = self.below_first
        last_in_core = self.below_core

        def forth(right: np.ndarray) -> np.ndarray:
            found = np.empty_like(right, dtype=float)
            found[first] = _times(by_first, right[rows_first])
            found[core] = inner.solve(right[rows_core] - core_in_first @ found[first])
            rest = right[rows_last] - last_in_first @ found[first] - last_in_core @ found[core]
            found[last] = _times(by_last, rest)
            return found

        def back(right: np.ndarray) -> np.ndarray:
            found = np.empty_like(right, dtype=float)
            found[rows_last] = _times(by_last, right[last])
            found[rows_core] = inner.solve_transposed(right[core] - last_in_core.T @ found[rows_last])
            rest = right[first] - core_in_first.T @ found[rows_core]
            found[rows_first] = _times(by_first, rest - last_in_first.T @ found[rows_last])
            return found

        return forth, back


def _single_entries(matrix: sp.csr_array | sp.csc_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lines with one entry, the entry's place and value; one line for each place."""
    lines = np.flatnonzero(np.diff(matrix.indptr) == 1)
    places, values = matrix.indices[matrix.indptr[lines]], matrix.data[matrix.indptr[lines]]
    lines, places, values = (part[values != 0] for part in (lines, places, values))
    places, kept = np.unique(places, return_index=True)
    return lines[kept], places, values[kept]


def _scales(matrix: sp.csr_array) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Factors of rows and columns that bring the largest entry of each to about one."""
    entries = sp.coo_array(matrix)
    (row, column), sizes = entries.coords, np.abs(entries.data)
    rows, columns = np.ones(matrix.shape[0]), np.ones(matrix.shape[1])
    for _ in range(3):
        now = rows[row] * sizes * columns[column]
        in_rows, in_columns = largest_at(row, now, len(rows)), largest_at(column, now, len(columns))
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
