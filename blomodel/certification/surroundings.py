"""What meets at a lower answer: equations, pairs, upper rows; sharp values and first derivatives.

The unknowns are z = (x, y, multipliers). Around a point the lower level's KKT conditions are equations,
rows that press (equations too), multipliers of loose rows (zero, left out), and pairs that may become
either: the weakly active ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from blomodel.basics.arrays import largest_in_rows
from blomodel.certification.factor import Factor, independent_rows, rows_are_independent
from blomodel.model.model import Model

TIGHT = 1e-7  # slack of a row that counts as tight, relative to the row's own terms
PRESSING = 1e-6  # multiplier of a row that presses, relative to the forces it balances
SHARP = 1e-12  # residual of the equations, relative, at which they count as solved
ROUNDS = 6  # Newton steps towards the exact lower answer
AGREES = 1e-4  # relative distance within which the sharp answer is the same answer

Array = np.ndarray


@dataclass(frozen=True)
class Place:
    """A point of the model with multipliers of the lower level, inequalities first."""

    model: Model
    p: Array
    x: Array
    y: Array
    multipliers: Array  # empty where y holds them

    @property
    def z(self) -> Array:
        """All unknowns of the KKT conditions."""
        return np.concatenate([self.x, self.y, self.multipliers])

    def at(self, z: Array) -> Place:
        """The place with other unknowns."""
        n_x, n_y = self.x.size, self.y.size
        return replace(self, x=z[:n_x], y=z[n_x : n_x + n_y], multipliers=z[n_x + n_y :])


@dataclass(frozen=True)
class Surroundings:
    """First derivatives of all that matters near a place, by columns of z that may move.

    Attributes
    ----------
    kept : array of int
        Columns of z that may move: all but the multipliers of loose rows.
    equations : sparse matrix
        Stationarity, lower equalities, pressing rows, in the kept columns.
    n_stationarity, eq_rows, strong : int and arrays of int
        Which equations these are, in this order.
    weak : array of int
        Pairs that are weakly active.
    weak_rows, weak_columns : sparse matrix and array of int
        Their rows, and their multipliers' places among the kept columns.
    above, above_rows : sparse matrix and array of int
        Upper inequalities that are tight.
    equal_above : sparse matrix
        Upper equalities.
    slope : array
        Gradient of f.
    factor : Factor or None
        Of the equations in all columns but x and the weak multipliers; None: they settle nothing.
    derivatives : sparse matrix
        Of the stationarity in z.
    worst : float
        The most violated row or the most negative multiplier of a pair, relative; zero for none.
    """

    place: Place
    kept: Array
    equations: sp.csr_array
    n_stationarity: int
    eq_rows: Array
    strong: Array
    weak: Array
    weak_rows: sp.csr_array
    weak_columns: Array
    above: sp.csr_array
    above_rows: Array
    equal_above: sp.csr_array
    slope: Array
    residual: Array
    factor: Factor | None
    derivatives: sp.csr_array
    worst: float

    @property
    def free(self) -> Array:
        """Places among the kept columns of x and of the weak multipliers."""
        return np.concatenate([np.arange(self.place.x.size), self.weak_columns])

    @property
    def settled(self) -> Array:
        """Places among the kept columns of all others."""
        others = np.ones(len(self.kept), dtype=bool)
        others[self.free] = False
        return np.flatnonzero(others)

    @property
    def active_gradients(self) -> sp.csr_array:
        """Gradients in y of all active lower rows: independent where multipliers are unique."""
        model, place = self.place.model, self.place
        pairs = model.conditions.rows[np.concatenate([self.strong, self.weak])]
        below = model.lower_in.linearise(place.x, place.y, place.p).in_y[pairs]
        equal = model.lower_eq.linearise(place.x, place.y, place.p).in_y[self.eq_rows]
        return sp.csr_array(sp.vstack([below, equal]))

    @property
    def has_unique_multipliers(self) -> bool:
        """Whether the active rows' gradients are independent, or multipliers are part of y."""
        if not self.place.model.conditions.multipliers_are_unknowns:
            return True
        return rows_are_independent(self.active_gradients)

    @property
    def spread(self) -> tuple[float, float] | None:
        """How f moves with y where the lower level loses a little, by its curvature and by rows.

        A loss of e moves y by up to sqrt(2 e) in the norm of the curvature, and lets go of pressing
        rows by e over their multipliers; None where y holds multipliers, or is not settled.
        """
        model = self.place.model
        if self.factor is None or not model.conditions.multipliers_are_unknowns:
            return None
        adjoint = self.factor.solve_transposed(self.slope[self.settled])
        n_x, n_s = self.place.x.size, self.n_stationarity
        below = np.zeros(len(self.place.z))
        below[self.kept] = self.slope
        curved = float(below[n_x : n_x + n_s] @ adjoint[:n_s])
        pressing = self.place.multipliers[model.conditions.rows[self.strong]]
        freed = np.abs(adjoint[n_s + len(self.eq_rows) :]) / np.maximum(pressing, 1e-300)
        return max(curved, 0.0), float(freed.max(initial=0.0))

    @property
    def is_settled(self) -> bool:
        """Whether the equations settle y, and a Newton step would not move it visibly.

        Where g is as flat as a fourth power, small residuals do not mean that the answer is near.
        """
        if self.factor is None or not np.all(np.isfinite(self.residual)):
            return False
        step = np.zeros(len(self.place.z))
        step[self.kept[self.settled]] = self.factor.solve(-self.residual)
        y, n_x = self.place.y, self.place.x.size
        moved = np.abs(step[n_x : n_x + y.size]).max(initial=0.0)
        return bool(moved <= AGREES * (1 + np.abs(y).max(initial=0.0)))

    @property
    def misfit(self) -> float:
        """Residual of the equations, relative to their terms."""
        return _misfit(self, self.residual)

    @property
    def is_finite(self) -> bool:
        """Whether every function of the model has its derivatives here."""
        parts = (self.equations.data, self.weak_rows.data, self.above.data, self.equal_above.data)
        return all(bool(np.all(np.isfinite(part))) for part in (*parts, self.slope))


@dataclass(frozen=True)
class _Below:
    """The lower level's rows at a place."""

    place: Place
    value: Array  # of the pairs' rows
    slack: Array  # of the pairs, relative
    pressure: Array  # of the pairs, relative
    row: sp.csr_array  # of the pairs, in z
    equal: sp.csr_array  # lower equalities, in z
    equal_value: Array
    stationarity: sp.csr_array
    stationarity_value: Array


def _look_below(place: Place, derivatives: sp.csr_array | None) -> _Below:
    model, x, y, p = place.model, place.x, place.y, place.p
    conditions = model.conditions
    below, equal = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
    n_z = len(place.z)

    def widen(in_x: sp.csr_array, in_y: sp.csr_array) -> sp.csr_array:
        empty = sp.csr_array((in_x.shape[0], n_z - x.size - y.size), dtype=float)
        return sp.csr_array(sp.hstack([in_x, in_y, empty]))

    rows = widen(below.in_x[conditions.rows], below.in_y[conditions.rows])
    value = below.value[conditions.rows]
    slack = -value / np.maximum(largest_in_rows(rows, 1 + np.abs(place.z)), 1e-300)
    if derivatives is None:
        slopes = (below.in_y, equal.in_y)
        derivatives = conditions.jacobian(x, y, p, place.multipliers, slopes)
    forces = place.z[conditions.columns]
    return _Below(
        place,
        value,
        slack,
        _pressure(place, forces, sp.csr_array(below.in_y[conditions.rows]), derivatives),
        rows,
        widen(equal.in_x, equal.in_y),
        equal.value,
        derivatives,
        conditions.stationarity(x, y, p, place.multipliers),
    )


def _pressure(place: Place, forces: Array, in_y: sp.csr_array, stationarity: sp.csr_array) -> Array:
    """Multipliers of the pairs, relative to the forces in y that they are part of."""
    model, n_x, n_y = place.model, place.x.size, place.y.size
    if not model.conditions.multipliers_are_unknowns:
        return forces / (1 + np.abs(forces).max(initial=0.0))
    slope = model.g_grad(place.x, place.y, place.p)[n_x:]
    # What the slope of g changes by when the point moves by about its own size.
    change = largest_in_rows(stationarity[:, : n_x + n_y], 1 + np.abs(place.z[: n_x + n_y]))
    pattern = abs(in_y)
    balance = np.maximum(np.maximum(pattern.T @ np.abs(forces), change), np.abs(slope))
    balance = np.where(np.isfinite(balance), balance, 0.0)
    size = np.maximum(largest_in_rows(pattern), 1e-300)
    reach = largest_in_rows(pattern, balance) / size
    return forces * size / np.maximum(reach, 1e-12 * (1 + np.abs(balance).max(initial=0.0)))


def look_around(place: Place) -> Surroundings:
    """First derivatives at the exact lower answer near a place, or at the place where that is not one.

    The exact answer solves the equations of the pieces by Newton's method; where they do not settle y,
    the lower level has several answers, and the given one is kept.
    """
    here = _linearise(place)
    if here.factor is None:
        return here
    z, error = _solved(here)
    if not error < _misfit(here, here.residual):
        return here
    moved = np.abs(z - place.z)[: place.x.size + place.y.size].max(initial=0.0)
    if moved > AGREES * (1 + np.abs(place.y).max(initial=0.0)):
        return here  # another answer
    kept = here.derivatives if place.model.has_linear_kkt else None
    there = _linearise(place.at(z), kept)
    return there if there.worst >= min(-TIGHT, here.worst) and there.factor is not None else here


def _solved(here: Surroundings) -> tuple[Array, float]:
    """Newton steps with one factor on the equations at fixed x; what they reach, and the misfit."""
    assert here.factor is not None
    best, residual = here.place.z, here.residual
    error, target = _misfit(here, residual), here.kept[here.settled]
    loose = np.zeros(len(best), dtype=bool)
    loose[here.place.model.conditions.columns] = True
    loose[here.kept] = False
    best = np.where(loose, 0.0, best)
    for _ in range(ROUNDS):
        if error <= SHARP:
            break
        z = best.copy()
        z[target] += here.factor.solve(-residual)
        residual = _residual(here.place.at(z), here.eq_rows, here.strong)
        now = _misfit(here, residual)
        if not now < 0.5 * error:
            break
        best, error = z, now
    return best, error


def _residual(place: Place, eq_rows: Array, strong: Array) -> Array:
    model, at = place.model, (place.x, place.y, place.p)
    return np.concatenate(
        [
            model.conditions.stationarity(*at, place.multipliers),
            model.lower_eq.values(*at)[eq_rows],
            model.lower_in.values(*at)[model.conditions.rows[strong]],
        ]
    )


def _misfit(here: Surroundings, residual: Array) -> float:
    size = 1 + largest_in_rows(here.equations, 1 + np.abs(here.place.z[here.kept]))
    return float((np.abs(residual) / size).max(initial=0.0))


def _linearise(place: Place, derivatives: sp.csr_array | None = None) -> Surroundings:
    """What is near a place; ``derivatives`` of the stationarity are given where they are known."""
    model, x, y, p = place.model, place.x, place.y, place.p
    conditions, below = model.conditions, _look_below(place, derivatives)
    n_z = len(place.z)
    is_loose = (below.slack > TIGHT) & (below.slack >= below.pressure)
    is_strong = ~is_loose & (below.pressure > PRESSING)
    strong, loose = np.flatnonzero(is_strong), np.flatnonzero(is_loose)
    weak = np.flatnonzero(~(is_strong | is_loose))
    moves = np.ones(n_z, dtype=bool)
    moves[conditions.columns[loose]] = False
    eq_rows = np.arange(below.equal.shape[0])
    built = _equations(below, strong, eq_rows)
    settled = moves.copy()
    settled[: x.size] = settled[conditions.columns[weak]] = False
    factor = Factor.of(sp.csr_array(built[0][:, np.flatnonzero(settled)]))
    if factor is None and len(eq_rows) and conditions.multipliers_are_unknowns:
        # Rows that follow from others, such as the last node's balance in a network, may be dropped.
        few = independent_rows(sp.csr_array(below.equal))
        if len(few) < len(eq_rows) and model.lower_eq.is_affine:
            dropped = np.setdiff1d(eq_rows, few)
            eq_rows, n_in = few, len(model.lower_in)
            moves[x.size + y.size + n_in + dropped] = False
            settled &= moves
            built = _equations(below, strong, eq_rows)
            factor = Factor.of(sp.csr_array(built[0][:, np.flatnonzero(settled)]))
    kept = np.flatnonzero(moves)
    position = np.full(n_z, -1)
    position[kept] = np.arange(len(kept))
    upper_in, upper_eq = model.upper_in.linearise(x, y, p), model.upper_eq.linearise(x, y, p)

    def widen(in_x: sp.csr_array, in_y: sp.csr_array) -> sp.csr_array:
        empty = sp.csr_array((in_x.shape[0], n_z - x.size - y.size), dtype=float)
        return sp.csr_array(sp.csr_array(sp.hstack([in_x, in_y, empty]))[:, kept])

    above = widen(upper_in.in_x, upper_in.in_y)
    reach = largest_in_rows(above, 1 + np.abs(place.z[kept]))
    tight = np.flatnonzero(-upper_in.value <= 10 * TIGHT * np.maximum(reach, 1e-300))
    slope = np.zeros(n_z)
    slope[: x.size + y.size] = model.f_grad(x, y, p)
    return Surroundings(
        place=place,
        kept=kept,
        equations=sp.csr_array(built[0][:, kept]),
        n_stationarity=below.stationarity.shape[0],
        eq_rows=eq_rows,
        strong=strong,
        weak=weak,
        weak_rows=sp.csr_array(below.row[weak][:, kept]),
        weak_columns=position[conditions.columns[weak]],
        above=sp.csr_array(above[tight]),
        above_rows=tight,
        equal_above=widen(upper_eq.in_x, upper_eq.in_y),
        slope=slope[kept],
        residual=built[1],
        factor=factor,
        derivatives=below.stationarity,
        worst=float(np.minimum(below.slack, below.pressure).min(initial=0.0)),
    )


def _equations(below: _Below, strong: Array, eq_rows: Array) -> tuple[sp.csr_array, Array]:
    matrix = sp.vstack([below.stationarity, below.equal[eq_rows], below.row[strong]])
    value = [below.stationarity_value, below.equal_value[eq_rows], below.value[strong]]
    return sp.csr_array(matrix), np.concatenate(value)
