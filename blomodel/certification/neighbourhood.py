"""Whether a bilevel feasible point is stationary, and whether it is a local optimum.

Both questions are asked of the KKT pieces that meet at the point. With unique multipliers the
directions that stay feasible form a union of polyhedral cones,

    H d + J' dlambda = 0,   c_i' d = 0 (strongly active),
    c_i' d = 0 <= dlambda_i   or   c_i' d <= 0 = dlambda_i (weakly active),

and the point is stationary when none of them holds a direction along which f falls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.basics.deadline import Deadline
from blomodel.model.model import Model
from blomodel.solvers.complementarity import (
    ComplementarityQP,
    ComplementarityStatus,
    solve_globally,
)

ACTIVE = 1e-6  # rows and multipliers below this, relative to the point, count as zero
STATIONARY = 1e-4  # relative slope below which a direction counts as level; see ACTIVE
SINGULAR = 1e12  # condition number of equations that settle nothing


@dataclass(frozen=True)
class LocalFacts:
    """What is known about the neighbourhood of a point."""

    stationarity: float | None  # largest first-order decrease of f in the unit box; None: unknown
    is_local_optimum: bool
    reason: str


@dataclass(frozen=True)
class _Point:
    model: Model
    p: np.ndarray
    x: np.ndarray
    y: np.ndarray
    multipliers: np.ndarray

    @property
    def scale(self) -> float:
        return 1 + max(np.abs(self.x).max(initial=0), np.abs(self.y).max(initial=0))


def study_neighbourhood(
    model: Model,
    p: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    multipliers: np.ndarray,
    *,
    has_convex_pieces: bool,
) -> LocalFacts:
    """First-order test on all pieces that meet at the point, then second-order where it applies."""
    point = _Point(model, p, x, y, multipliers)
    if not model.has_smooth_kkt or model.upper_in.spectral:
        return LocalFacts(None, False, "the lower level's KKT conditions cannot be written by rows")
    size = x.size + y.size + multipliers.size
    if not limits.NEIGHBOURHOOD_TEST.allows(size):
        return LocalFacts(None, False, f"too large for the test on pieces ({size} unknowns)")
    slope = model.f_grad(x, y, p)
    if not _is_differentiable(point, slope):
        return LocalFacts(None, False, "a function of the model is not differentiable here")
    cone = _critical_cone(point)
    if cone is None:
        return LocalFacts(
            None, False, "the lower multipliers are not unique, so the pieces here are not known"
        )
    steepness = 1 + np.abs(slope).max(initial=0)
    decrease = _largest_decrease(cone, slope, x.size)
    if decrease is None:
        return LocalFacts(None, False, "the test on pieces did not finish")
    stationarity = decrease / steepness
    if stationarity > STATIONARY:
        return LocalFacts(stationarity, False, "f falls along a feasible direction")
    if has_convex_pieces:
        return LocalFacts(stationarity, True, "stationary, and f is convex on each piece")
    if limits.PROBED_VARIABLES.allows(x.size) and _rises_everywhere(cone, slope, steepness):
        return LocalFacts(stationarity, True, "f rises to first order in every direction")
    can_curve = len(cone.rows) == 0 and limits.CURVED_DIRECTIONS.allows(x.size)
    if can_curve and _is_curved_upwards(point, steepness):
        return LocalFacts(stationarity, True, "stationary, with positive curvature")
    return LocalFacts(stationarity, False, "stationary to first order")


def _is_differentiable(point: _Point, slope: np.ndarray) -> bool:
    model, at = point.model, (point.x, point.y, point.p)
    parts = [slope, *(part.data for part in model.lower_hessian(*at, point.multipliers))]
    for rows in (model.lower_in, model.lower_eq, model.upper_in, model.upper_eq):
        linear = rows.linearise(*at)
        parts += [linear.in_x.data, linear.in_y.data]
    return all(bool(np.all(np.isfinite(part))) for part in parts)


def _critical_cone(point: _Point) -> ComplementarityQP | None:
    """Directions (dx, dy, dmultipliers) within the unit box; None where they are not known."""
    if not point.model.conditions.multipliers_are_unknowns:
        return _cone_with_multipliers_in_y(point)
    model, x, y, p = point.model, point.x, point.y, point.p
    lower_in, lower_eq = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
    upper_in, upper_eq = model.upper_in.linearise(x, y, p), model.upper_eq.linearise(x, y, p)
    n_in = len(lower_in.value)
    small = ACTIVE * point.scale
    active = np.flatnonzero(lower_in.value >= -small)
    pressure = point.multipliers[:n_in]
    strong = pressure[active] > ACTIVE * (1 + pressure.max(initial=0)) * 10
    gradients = np.vstack([lower_in.in_y.toarray()[active], lower_eq.in_y.toarray()])
    if gradients.size and np.linalg.matrix_rank(gradients, tol=1e-7) < len(gradients):
        return None
    cross, hessian = model.lower_hessian(x, y, p, point.multipliers)
    n_x, n_y, n_active, n_eq = x.size, y.size, len(active), len(lower_eq.value)
    n_dual = n_active + n_eq
    stationarity = sp.hstack([cross, hessian, sp.csr_array(gradients.T)])

    def pad(in_x: sp.csr_array, in_y: sp.csr_array) -> sp.csr_array:
        empty = sp.csr_array((in_x.shape[0], n_dual), dtype=float)
        return sp.csr_array(sp.hstack([in_x, in_y, empty]))

    row_of_active = pad(lower_in.in_x[active], lower_in.in_y[active])
    tight = upper_in.value >= -small
    equalities = [
        stationarity,
        row_of_active[strong],
        pad(lower_eq.in_x, lower_eq.in_y),
        pad(upper_eq.in_x, upper_eq.in_y),
    ]
    n_all = n_x + n_y + n_dual
    box = sp.eye_array(n_all, format="csr")[: n_x + n_y]
    weak = np.flatnonzero(~strong)
    inequalities = [
        row_of_active[weak],
        pad(upper_in.in_x[tight], upper_in.in_y[tight]),
        box,
        -box,
    ]
    right = np.concatenate([np.zeros(len(weak) + tight.sum()), np.ones(2 * (n_x + n_y))])
    a_eq = sp.csc_array(sp.vstack(equalities))
    return ComplementarityQP(
        P=sp.csc_array((n_all, n_all), dtype=float),
        q=np.zeros(n_all),
        A_eq=a_eq,
        b_eq=np.zeros(a_eq.shape[0]),
        A_in=sp.csc_array(sp.vstack(inequalities)),
        b_in=right,
        rows=np.arange(len(weak)),
        columns=n_x + n_y + weak,
    )


def _cone_with_multipliers_in_y(point: _Point) -> ComplementarityQP | None:
    """Directions (dx, dy) within the unit box where y holds the lower level's multipliers.

    The rows give the directions exactly where they are affine, or have independent gradients.
    """
    model, x, y, p = point.model, point.x, point.y, point.p
    lower_in, lower_eq = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
    upper_in, upper_eq = model.upper_in.linearise(x, y, p), model.upper_eq.linearise(x, y, p)
    pair_rows, pair_columns = model.conditions.rows, model.conditions.columns
    small = ACTIVE * point.scale
    pressure = np.concatenate([x, y])[pair_columns]
    is_tight = lower_in.value >= -small
    presses = pressure > ACTIVE * (1 + pressure.max(initial=0)) * 10
    is_loose = ~is_tight[pair_rows]
    weak = ~(presses | is_loose)
    below = sp.csr_array(sp.hstack([lower_in.in_x, lower_in.in_y]))
    above = sp.csr_array(sp.hstack([upper_in.in_x, upper_in.in_y]))
    n = x.size + y.size
    unit = sp.eye_array(n, format="csr")
    a_eq = sp.vstack(
        [
            sp.hstack([lower_eq.in_x, lower_eq.in_y]),
            sp.hstack([upper_eq.in_x, upper_eq.in_y]),
            below[pair_rows[presses]],
            unit[pair_columns[is_loose]],
        ]
    )
    tight_above = upper_in.value >= -small
    # The rows of lower_in that are no pair are signs of multipliers, which the pairs imply.
    cone = sp.vstack([below[pair_rows[weak]], above[tight_above]])
    if not model.has_linear_kkt:
        every = sp.vstack([a_eq, cone, unit[pair_columns[weak]]]).toarray()
        if np.linalg.matrix_rank(every, tol=1e-7) < len(every):
            return None
    n_weak = int(weak.sum())
    return ComplementarityQP(
        P=sp.csc_array((n, n), dtype=float),
        q=np.zeros(n),
        A_eq=sp.csc_array(a_eq),
        b_eq=np.zeros(a_eq.shape[0]),
        A_in=sp.csc_array(sp.vstack([cone, unit, -unit])),
        b_in=np.concatenate([np.zeros(cone.shape[0]), np.ones(2 * n)]),
        rows=np.arange(n_weak),
        columns=pair_columns[weak],
    )


def _minimise(cone: ComplementarityQP, linear: np.ndarray, **changes: object) -> float | None:
    """Smallest value of a linear function over the cone's directions; +inf when there are none."""
    parts = {
        "P": cone.P, "A_eq": cone.A_eq, "b_eq": cone.b_eq, "A_in": cone.A_in, "b_in": cone.b_in,
        "rows": cone.rows, "columns": cone.columns,
    }  # fmt: skip
    problem = ComplementarityQP(q=linear, **{**parts, **changes})
    result = solve_globally(problem, node_limit=500, deadline=Deadline.after(2.0))
    if result.status is ComplementarityStatus.OPTIMAL:
        return float(result.value)
    return np.inf if result.status is ComplementarityStatus.INFEASIBLE else None


def _pad_objective(cone: ComplementarityQP, slope: np.ndarray) -> np.ndarray:
    linear = np.zeros(cone.P.shape[0])
    linear[: slope.size] = slope
    return linear


def _largest_decrease(cone: ComplementarityQP, slope: np.ndarray, n_x: int) -> float | None:
    linear = _pad_objective(cone, slope)
    is_large = not limits.NEIGHBOURHOOD_ENTRIES.allows(cone.A_eq.nnz)
    reaction = _reaction(cone, n_x) if is_large or not len(cone.rows) else None
    if reaction is not None:
        n_free = reaction.shape[1]
        alone = {
            "P": sp.csc_array((n_free, n_free), dtype=float),
            "A_eq": sp.csc_array((0, n_free), dtype=float),
            "b_eq": np.zeros(0),
            "A_in": sp.csc_array(cone.A_in @ reaction),
            "columns": np.arange(n_x, n_free),
        }
        value = _minimise(cone, reaction.T @ linear, **alone)
    elif is_large:
        return None
    else:
        value = _minimise(cone, linear)
    return None if value is None else max(0.0, -value)


def _reaction(cone: ComplementarityQP, n_x: int) -> np.ndarray | None:
    """All directions as a linear map of dx and the multipliers of weakly active rows.

    This leaves far fewer unknowns; None where it is no map.
    """
    free = np.concatenate([np.arange(n_x), cone.columns])
    settled = np.setdiff1d(np.arange(cone.A_eq.shape[1]), free)
    if len(settled) != cone.A_eq.shape[0]:
        return None
    matrix = cone.A_eq[:, settled].toarray()
    if not np.linalg.cond(matrix) < SINGULAR:
        return None
    reaction = np.zeros((cone.A_eq.shape[1], len(free)))
    reaction[free, np.arange(len(free))] = 1.0
    reaction[settled] = np.linalg.solve(matrix, -cone.A_eq[:, free].toarray())
    return reaction


def _rises_everywhere(cone: ComplementarityQP, slope: np.ndarray, steepness: float) -> bool:
    """Whether f rises along every feasible direction, each coordinate of (x, y) fixed at +-1 in turn."""
    linear = _pad_objective(cone, slope)
    n_moves = slope.size
    if not limits.PROBED_DIRECTIONS.allows(n_moves):
        return False
    for coordinate in range(n_moves):
        for sign in (1.0, -1.0):
            row = sp.csc_array(([1.0], ([0], [coordinate])), shape=(1, cone.P.shape[0]))
            value = _minimise(
                cone,
                linear,
                A_eq=sp.csc_array(sp.vstack([cone.A_eq, row])),
                b_eq=np.append(cone.b_eq, sign),
            )
            if value is None or value <= 1e-5 * steepness:
                return False
    return True


def _is_curved_upwards(point: _Point, steepness: float) -> bool:
    """Second-order test on a smooth piece, from differences of the gradient of f along it."""
    model, p, x, n_x = point.model, point.p, point.x, point.x.size

    def gradient_along(where: np.ndarray) -> np.ndarray | None:
        answer = model.lower_program.solve(where, p)
        if not answer.status.has_point:
            return None
        jacobian = model.lower_program.solution_jacobian(where, p, (1.0,), answer)
        if jacobian is None:
            return None
        gradient = model.f_grad(where, answer.y, p)
        return gradient[:n_x] + jacobian.T @ gradient[n_x:]

    here = gradient_along(x)
    free = None if here is None else _free_directions(point, here, steepness)
    if free is None:
        return False
    step = 1e-4 * (1 + np.abs(x).max(initial=0))
    columns = []
    for direction in free.T:
        ahead, behind = gradient_along(x + step * direction), gradient_along(x - step * direction)
        if ahead is None or behind is None:
            return False
        columns.append(free.T @ (ahead - behind) / (2 * step))
    curvature = np.array(columns)
    if curvature.size == 0:
        return True
    lowest = np.linalg.eigvalsh((curvature + curvature.T) / 2).min()
    return bool(lowest > 1e-6 * (1 + np.abs(curvature).max()))


def _free_directions(point: _Point, gradient: np.ndarray, steepness: float) -> np.ndarray | None:
    """A basis of the dx that the pressing upper rows leave free; None where that is not linear.

    Tight rows with a zero multiplier do not press, so they leave their direction free.
    """
    from scipy.optimize import nnls

    model, x, y, p = point.model, point.x, point.y, point.p
    rows = model.upper_in.linearise(x, y, p)
    tight = rows.value >= -ACTIVE * point.scale
    equal = model.upper_eq.linearise(x, y, p)
    matrix = np.vstack([rows.in_x.toarray()[tight], equal.in_x.toarray()])
    holds_y = np.vstack([rows.in_y.toarray()[tight], equal.in_y.toarray()])
    if np.any(holds_y != 0) or (len(matrix) and not model.has_affine_upper_rows):
        return None
    if len(matrix) == 0:
        return np.eye(x.size)
    n_tight = int(tight.sum())
    columns = np.hstack([matrix.T, -matrix[n_tight:].T])  # equalities press either way
    pressure, _ = nnls(columns, -gradient)
    pressing = np.append(
        pressure[:n_tight] > 1e-4 * steepness, np.ones(len(matrix) - n_tight, dtype=bool)
    )
    kept = matrix[pressing]
    if len(kept) == 0:
        return np.eye(x.size)
    _, singular, basis = np.linalg.svd(kept)
    rank = int((singular > 1e-9 * singular.max(initial=1)).sum())
    return basis[rank:].T
