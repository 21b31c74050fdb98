"""The first-order test where a lower answer has several multipliers, as at degenerate corners of LPs.

Pieces of all of them meet at the point. With linear KKT conditions they are polyhedra, and those that
hold the point are found with whole multipliers in place of changes: in a small box around (x, y), of
each active row the multiplier is zero or the row stays tight.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from blomodel.basics import limits
from blomodel.basics.deadline import Deadline
from blomodel.certification.factor import DEPENDENT
from blomodel.certification.surroundings import Surroundings
from blomodel.solvers.complementarity import (
    ComplementarityQP,
    ComplementarityStatus,
    affordable_nodes,
    solve_globally,
)

RADIUS = 1e-3  # of the box, relative to the point
NODES = 2000  # of the tree
UNMOVED = 1e-9  # entry of a dependence, a vector of length one, that counts as zero
SURE = 1e-2  # least multiplier, relative, of a row that presses whatever the multipliers


def smallest_slope_of_all(here: Surroundings, deadline: Deadline) -> float | None:
    """The largest decrease of f for each unit that (x, y) moves; None where the tree did not end.

    Pieces that come near the point without holding it count too, so that zero proves more than is
    asked, and a positive number need not mean that f falls.
    """
    place, model = here.place, here.place.model
    x, y, p = place.x, place.y, place.p
    n_x, n_y = x.size, y.size
    active = model.conditions.rows[np.sort(np.concatenate([here.strong, here.weak]))]
    below, equal = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
    gradients = sp.csr_array(sp.vstack([below.in_y[active], equal.in_y]))
    cross, hessian = model.lower_hessian(x, y, p, place.multipliers)
    slope = model.g_grad(x, y, p)[n_x:]
    known = place.multipliers[active]
    always = _always_pressing(gradients, slope, known, deadline)
    if always is None:
        return None
    pairs = np.flatnonzero(~always)
    n_dual = gradients.shape[0]

    def pad(in_x: sp.csr_array, in_y: sp.csr_array) -> sp.csr_array:
        return sp.csr_array(sp.hstack([in_x, in_y, sp.csr_array((in_x.shape[0], n_dual))]))

    radius = RADIUS * (1 + max(np.abs(x).max(initial=0.0), np.abs(y).max(initial=0.0)))
    # In units of the radius, so that the numbers are of order one.
    stationarity = sp.hstack([radius * cross, radius * hessian, gradients.T])
    rows = pad(below.in_x[active], below.in_y[active])
    upper_eq = model.upper_eq.linearise(x, y, p)
    a_eq = sp.vstack(
        [
            stationarity,
            pad(equal.in_x, equal.in_y),
            rows[np.flatnonzero(always)],
            pad(upper_eq.in_x, upper_eq.in_y),
        ]
    )
    b_eq = np.zeros(a_eq.shape[0])
    b_eq[:n_y] = -slope
    n_all = n_x + n_y + n_dual
    unit = sp.eye_array(n_all, format="csr")
    upper = model.upper_in.linearise(x, y, p)
    tight = pad(upper.in_x[here.above_rows], upper.in_y[here.above_rows])
    signs = -unit[n_x + n_y + np.flatnonzero(always)]
    box = unit[: n_x + n_y]
    a_in = sp.vstack([rows[pairs], tight, signs, box, -box])
    n_zero = len(pairs) + tight.shape[0] + signs.shape[0]
    linear = np.zeros(n_all)
    linear[: n_x + n_y] = model.f_grad(x, y, p)
    problem = ComplementarityQP(
        P=sp.csc_array((n_all, n_all), dtype=float),
        q=linear,
        A_eq=sp.csc_array(a_eq),
        b_eq=b_eq,
        A_in=sp.csc_array(a_in),
        b_in=np.concatenate([np.zeros(n_zero), np.ones(2 * (n_x + n_y))]),
        rows=np.arange(len(pairs)),
        columns=n_x + n_y + pairs,
    )
    result = solve_globally(problem, node_limit=affordable_nodes(problem, NODES), deadline=deadline)
    if result.status is not ComplementarityStatus.OPTIMAL or result.z is None:
        return None
    return max(0.0, -float(result.value))


def _always_pressing(
    gradients: sp.csr_array, slope: np.ndarray, known: np.ndarray, deadline: Deadline
) -> np.ndarray | None:
    """Which active rows press with each of the multipliers; None where these are not found.

    ``known``: one choice of them, which most rows share with all others.
    """
    n_active = len(known)
    size = 1 + np.abs(slope).max(initial=0.0)
    is_open = known > SURE * size  # whether each of the multipliers seen so far presses
    is_same = _is_same_in_all(gradients)[:n_active]
    always = is_open & is_same
    is_open &= ~is_same
    asked = 0
    n = gradients.shape[0]
    bounds = [(0, None)] * n_active + [(None, None)] * (n - n_active)
    for k in range(n_active):
        if not is_open[k]:
            continue
        if deadline.is_over:
            return None
        asked += 1
        if not limits.FIXED_MULTIPLIERS.allows(asked):
            break
        cost = np.zeros(n)
        cost[k] = 1.0
        least = linprog(cost, A_eq=gradients.T, b_eq=-slope, bounds=bounds, method="highs")
        if least.status != 0:
            return always
        always[k] = bool(least.fun > SURE * size)
        is_open &= least.x[:n_active] > SURE * size
    return always


def _is_same_in_all(gradients: sp.csr_array) -> np.ndarray:
    """Which rows have one multiplier only: those that no dependence among the gradients moves."""
    is_same = np.zeros(gradients.shape[0], dtype=bool)
    if not limits.DENSE_ACTIVE_SET.allows(max(gradients.shape)):
        return is_same  # found by linear programs
    _, values, vectors = np.linalg.svd(gradients.toarray().T)
    rank = int((values > DEPENDENT * values.max(initial=0.0)).sum())
    return np.abs(vectors[rank:]).max(axis=0, initial=0.0) <= UNMOVED
