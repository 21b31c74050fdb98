"""KKT systems with a dense Hessian whose rows hold variables one by one or tie them in pairs.

At a kink such as abs(y) the rows y <= t and -y <= t hold both variables where y is zero, and tie t to y
elsewhere. What the rows leave free is often a small part of all variables, and only this part of the
Hessian has to be factorised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg.lapack as lapack
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from scipy.sparse.csgraph import connected_components

from blomodel.basics import limits

Array = np.ndarray
Solve = Callable[[Array, Array], tuple[Array, Array]]

FULL = 0.1  # share of nonzeros among curved variables from which a sparse factor fills up
SHARE_LEFT = 0.7  # of the curved variables: a reduced system of more would cost as much as the whole one
SHIFT = 1e-10  # relative, against free variables without curvature; refinement removes its effect


def solver_of_free_variables(P: Any, A: Any) -> Solve | None:
    """Solver of [P A'; A 0] for sparse P and A by its free variables; None where that does not pay."""
    lengths = np.diff(A.indptr)
    is_simple = (lengths == 1) | (lengths == 2)
    n_simple = int(np.count_nonzero(is_simple))
    n_left = P.shape[0] + A.shape[0] - 2 * n_simple
    curved = np.diff(P.indptr)
    n_curved = int(np.count_nonzero(curved))
    is_dense = P.nnz > FULL * n_curved**2
    if (
        not is_dense
        or n_left > SHARE_LEFT * n_curved
        or not limits.DENSE_ACTIVE_SET_IF_FULL.allows(n_left)
    ):
        return None
    ties = _Ties.of(A[is_simple], curved)
    return None if ties is None else _factorised(P, A, is_simple, ties)


@dataclass(frozen=True)
class _Ties:
    """How simple rows express variables by one free variable each.

    Attributes
    ----------
    free : array
        The variables that remain.
    pivots : array
        The others, one for each row.
    basis : SuperLU
        Of the rows in the pivots.
    place, factor : array
        For each variable the number of the free one that it moves with, and how fast: 0 if it is held.
    """

    free: Array
    pivots: Array
    basis: Any
    place: Array
    factor: Array

    @classmethod
    def of(cls, rows: sp.csr_array, curved: Array) -> _Ties | None:
        """Ties of rows with one or two entries; None where some of the rows depend on others."""
        m, n = rows.shape
        first, last = rows.indices[rows.indptr[:-1]], rows.indices[rows.indptr[1:] - 1]
        graph = sp.coo_array((np.ones(m), (first, last)), shape=(n, n))
        count, group = connected_components(graph, directed=False)
        n_free = np.bincount(group, minlength=count) - np.bincount(group[first], minlength=count)
        if np.any((n_free < 0) | (n_free > 1)):
            return None
        # Of each group the variable with most curvature stays.
        order = np.lexsort((curved, group))
        is_last = np.append(group[order][1:] != group[order][:-1], True)
        is_free = np.zeros(n, dtype=bool)
        is_free[order[is_last & (n_free[group[order]] == 1)]] = True
        free, pivots = np.flatnonzero(is_free), np.flatnonzero(~is_free)
        try:
            basis = spl.splu(sp.csc_array(rows[:, pivots]))
        except RuntimeError:
            return None
        factor = np.ones(n)
        factor[pivots] = -basis.solve(rows[:, free] @ np.ones(len(free)))
        number = np.full(count, -1)
        number[group[free]] = np.arange(len(free))
        place = number[group]
        factor[place < 0] = 0.0
        return cls(free, pivots, basis, np.maximum(place, 0), factor)


def _factorised(P: Any, A: Any, is_simple: Array, ties: _Ties) -> Solve | None:
    simple, other = np.flatnonzero(is_simple), np.flatnonzero(~is_simple)
    rest = sp.csr_array(A[other])
    n, k = len(ties.free), len(other)
    moving = np.flatnonzero(ties.factor)
    spread = sp.csr_array(
        (ties.factor[moving], (moving, ties.place[moving])), shape=(len(ties.place), n)
    )
    K = np.zeros((n + k, n + k), order="F")
    rows = (rest @ spread).toarray()
    K[:n, :n], K[:n, n:], K[n:, :n] = (spread.T @ (P @ spread)).toarray(), rows.T, rows
    diagonal = K.reshape(-1, order="F")[:: n + k + 1]
    diagonal[:n] += SHIFT * max(float(np.abs(P.data).max(initial=0.0)), 1e-3)
    diagonal[n:] -= SHIFT
    if n + k:
        factor, order, info = lapack.dgetrf(K, overwrite_a=1)
        if info != 0:
            return None

    def solve(r: Array, s: Array) -> tuple[Array, Array]:
        fixed = np.zeros_like(r)
        fixed[ties.pivots] = ties.basis.solve(s[simple])
        right = np.concatenate([spread.T @ (r - P @ fixed), s[other] - rest @ fixed])
        both = lapack.dgetrs(factor, order, right)[0] if n + k else right
        y = fixed + spread @ both[:n]
        multipliers = np.zeros_like(s)
        multipliers[other] = both[n:]
        left = r - P @ y - rest.T @ both[n:]
        multipliers[simple] = ties.basis.solve(left[ties.pivots], "T")
        return y, multipliers

    return solve
