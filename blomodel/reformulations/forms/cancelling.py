r"""Products of prices and quantities, written away by what holds at every lower answer.

Where y holds the lower level's multipliers, a lower answer satisfies equations
:math:`a_r'z + b_r = 0` and pairs :math:`z_k(a_i'z + b_i) = 0`, with z = (x, y). Each pair, and each
equation times an entry of z, is a quadratic form that vanishes there, so any multiple of it may be
added to the upper objective. Revenue, a price times a quantity, becomes linear or convex this way.
Of the equations, those of stationarity are multiplied by the variable they belong to, and those
that were stated by their multiplier; together they say that primal and dual value agree.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.sparse.csgraph import connected_components

from blomodel.basics import limits
from blomodel.model.model import Model

ROUNDING = 64 * np.finfo(float).eps  # of a sum, relative to its parts


def cancel_products(
    model: Model, p: np.ndarray, hessian: np.ndarray | sp.csc_array
) -> tuple[sp.csc_array, np.ndarray] | None:
    """Quadratic and linear part of a vanishing form that takes the products out of ``hessian``.

    Parameters
    ----------
    hessian : array or sparse array
        Of the upper objective over (x, y).

    Returns
    -------
    tuple of a sparse array and an array, or None
        To be added to the upper objective's Hessian and gradient at zero. None where y holds no
        multipliers, or the forms are too many.
    """
    if not model.conditions.vanishing_products():
        return None
    rows, constants, entries = _vanishing_forms(model, p)
    n = hessian.shape[0]
    # Form k is z[entries[k]] times an affine row; its Hessian has two copies of the row's slope.
    row, column = entries[rows.row], rows.col
    above, below = np.minimum(row, column), np.maximum(row, column)
    slopes = rows.data * np.where(row == column, 2.0, 1.0)
    of_f = sp.triu(sp.coo_array(hessian)).tocoo()
    positions, where = np.unique(
        np.concatenate([above * n + below, of_f.row * n + of_f.col]), return_inverse=True
    )
    shape = (len(positions), len(entries))
    forms = sp.csr_array((slopes, (where[: len(slopes)], rows.row)), shape)
    target = np.zeros(len(positions))
    target[where[len(slopes) :]] = of_f.data
    upper, lower = np.divmod(positions, n)
    weights = np.zeros(len(entries))
    # Followers that share no variable are seen apart.
    for at, chosen in _independent(forms):
        if not limits.CANCELLING_ENTRIES.allows(len(at) * len(chosen)):
            return None
        part = forms[at][:, chosen].toarray()
        weights[chosen] = _weights(part, target[at], (upper == lower)[at])
    sums, parts = forms @ weights, abs(forms) @ np.abs(weights) + np.abs(target)
    # What rounding leaves of products that cancel would make linear objectives quadratic.
    sums = np.where(np.abs(sums + target) <= ROUNDING * parts, -target, sums)
    total = sp.csc_array((sums, (upper, lower)), shape=(n, n))
    total = sp.csc_array(total + sp.triu(total, 1).T)
    return total, np.bincount(entries, weights * constants, minlength=n)


def _independent(forms: sp.csr_array) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and columns that have no entry in common with the others; rows without entries are left."""
    n_rows, n_columns = forms.shape
    graph = sp.block_array([[None, forms], [forms.T, None]], format="csr")
    count, component = connected_components(graph, directed=False)
    order = np.argsort(component, kind="stable")
    for members in np.split(order, np.searchsorted(component[order], np.arange(1, count))):
        at, chosen = members[members < n_rows], members[members >= n_rows] - n_rows
        if len(chosen):
            yield at, chosen


def _weights(forms: np.ndarray, target: np.ndarray, is_square: np.ndarray) -> np.ndarray:
    """Multiples of the forms that cancel all products and, where possible, leave no negative square."""
    products, squares = forms[~is_square], forms[is_square]
    weights = np.linalg.lstsq(products, -target[~is_square], rcond=None)[0]
    remainder = products @ weights + target[~is_square]
    if np.abs(remainder).max(initial=0) > 1e-9 * (1 + np.abs(target).max(initial=0)):
        return weights
    # Minimise the sum of the shortfalls s with squares.w + s >= -target.
    n_forms, n_squares = forms.shape[1], len(squares)
    found = linprog(
        np.concatenate([np.zeros(n_forms), np.ones(n_squares)]),
        A_ub=np.hstack([-squares, -np.eye(n_squares)]),
        b_ub=target[is_square],
        A_eq=np.hstack([products, np.zeros((len(products), n_squares))]),
        b_eq=-target[~is_square],
        bounds=[(None, None)] * n_forms + [(0, None)] * n_squares,
    )
    return found.x[:n_forms] if found.status == 0 else weights


def _vanishing_forms(model: Model, p: np.ndarray) -> tuple[sp.coo_array, np.ndarray, np.ndarray]:
    """Affine rows, their constants, and the entries of (x, y) that they are multiplied by."""
    zeros = (np.zeros(model.x.size), np.zeros(model.y.size), p)
    rows, constants, entries = [], [], []
    for paired, chosen, partners in model.conditions.vanishing_products():
        linear = paired.linearise(*zeros)
        rows.append(sp.csr_array(sp.hstack([linear.in_x, linear.in_y]))[chosen])
        constants.append(linear.value[chosen])
        entries.append(partners)
    return sp.vstack(rows).tocoo(), np.concatenate(constants), np.concatenate(entries)
