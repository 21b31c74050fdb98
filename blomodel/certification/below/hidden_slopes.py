"""Slopes of the lower objective that no tolerance sees, along directions in which it is flat otherwise.

A lower level that is indifferent but for a slope of 1e-12 has one answer, at the end to which the slope
leads, and every other y loses less than a solver can tell. It counts unless x, which is known to a
solver's accuracy only, has an x nearby at which the lower level is truly indifferent: such ties are
often the best choices above, and there are often several of them at one x.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from blomodel.basics import limits
from blomodel.certification.below.free_directions import RANK, TOUCHES, FreeDirections, free_directions
from blomodel.certification.below.lower_check import LowerCheck
from blomodel.certification.judged import Judged
from blomodel.certification.study import without_kinks
from blomodel.certification.surroundings import Place
from blomodel.model.flat_lower import SNAPS, room_for_x

Array = np.ndarray
HALVINGS = 30
MOST = 1e3  # largest multiplier, in units of the slopes: dependent rows would have no largest one
ROUNDS = 2  # steps to an exact tie: the first is exact but for rounding where g is linear in x


@dataclass(frozen=True)
class HiddenSlope:
    """An answer that the lower level prefers by less than tolerances see.

    Attributes
    ----------
    y : array
        At the end of the direction.
    slope : float
        Of g, for a move of one in some entry of y; negative.
    """

    y: Array
    slope: float


def find_hidden_slope(
    judged: Judged, x: Array, y: Array, checked: LowerCheck, tolerance: float
) -> HiddenSlope | None:
    """A feasible direction along which g falls, if only a little; None where none is known.

    ``tolerance``: a step of x within it may make the lower level truly indifferent.
    """
    model, p = judged.model, judged.p
    if not checked.is_convex or checked.y is None or not model.has_smooth_kkt:
        return None
    if not limits.UNIQUENESS_TEST.allows(y.size):
        return None
    duals = model.split_duals(checked.duals)
    place, manifold = without_kinks(Place(model, p, x, y, duals))
    if manifold is not None:
        return None
    free = free_directions(place)
    slopes = None if free is None else free.slopes(place)
    found = None if free is None or slopes is None else free.steepest(slopes)
    if free is None or slopes is None or found is None:
        return None
    direction, slope = found
    length = _length(place, direction)
    better = y + length * direction[: y.size]
    if length == 0.0 or np.array_equal(better, y) or _has_tie_nearby(free, slopes, tolerance):
        return None
    return HiddenSlope(better, slope)


def _has_tie_nearby(free: FreeDirections, slopes: Array, tolerance: float) -> bool:
    """Whether an x within the tolerance, which keeps the upper rows, leaves nothing to fall along."""
    place = free.place
    step = _step_to_a_tie(free, slopes, tolerance)
    if step is None:
        return False
    there = replace(place, x=place.x + step.move)
    for _ in range(ROUNDS):
        left = free.slopes(there)
        if left is None:
            return False
        there = replace(there, x=there.x + step.correction(left))
    free_there = free_directions(there)
    left = None if free_there is None else free_there.slopes(there)
    return free_there is None or (left is not None and free_there.steepest(left) is None)


@dataclass(frozen=True)
class _Step:
    """A step of x to where rows that touch balance the slopes, and which unknowns it leaves free."""

    move: Array
    in_x: Array  # how the slopes change with x
    weak: Array  # how multipliers of touching rows change them
    is_between: Array  # entries of x away from the ends of their step
    is_pressed: Array  # touching rows with a multiplier

    def correction(self, left: Array) -> Array:
        """The smallest change of what is free that takes away the slopes that are left."""
        columns = np.hstack([self.in_x[:, self.is_between], self.weak.T[:, self.is_pressed]])
        sizes = np.abs(columns).max(axis=0, initial=0.0)
        columns = columns[:, sizes > 0] / sizes[sizes > 0]
        change = np.zeros(sizes.size)
        change[sizes > 0] = np.linalg.lstsq(columns, -left, rcond=None)[0] / sizes[sizes > 0]
        moved = np.zeros(self.move.size)
        moved[self.is_between] = change[: int(self.is_between.sum())]
        return moved


def _step_to_a_tie(free: FreeDirections, slopes: Array, tolerance: float) -> _Step | None:
    """The step that speaks most for y: with the largest multipliers of rows that only touch."""
    place = free.place
    model, n_weak = place.model, len(free.weak)
    low, high = room_for_x(model, place.x, place.p, tolerance)
    size = max(float(np.maximum(-low, high).max(initial=0.0)), 1e-300)
    in_x = free.basis.T @ free.cross.toarray()
    # Each equation in units of what can stand in it, multipliers in units of the largest of them.
    units = np.maximum(np.abs(slopes), np.abs(in_x).max(axis=1, initial=0.0) * size)
    is_held = units > 0
    both = np.hstack([in_x * size, free.weak.T * units.max()])[is_held] / units[is_held, None]
    upper, equal = (
        rows.linearise(place.x, place.y, place.p) for rows in (model.upper_in, model.upper_eq)
    )
    nothing = sp.csr_array((upper.in_x.shape[0], n_weak)), sp.csr_array((equal.in_x.shape[0], n_weak))
    found = linprog(
        np.append(np.zeros(place.x.size), -np.ones(n_weak)),
        A_ub=sp.csr_array(sp.hstack([upper.in_x, nothing[0]])),
        b_ub=np.maximum(-upper.value, 0.0) / size,
        A_eq=sp.csr_array(sp.vstack([both, sp.hstack([equal.in_x, nothing[1]])])),
        b_eq=np.append(-slopes[is_held] / units[is_held], np.zeros(equal.in_x.shape[0])),
        bounds=np.column_stack(
            [np.append(low / size, np.zeros(n_weak)), np.append(high / size, np.full(n_weak, MOST))]
        ),
    )
    if found.status != 0:
        return None
    move = found.x[: place.x.size] * size
    is_between = np.ones(move.size, dtype=bool)
    for end in (low, high):  # exactly on a bound, where the program's rounding leaves it beside
        is_at_end = np.abs(move - end) <= SNAPS * size
        move, is_between = np.where(is_at_end, end, move), is_between & ~is_at_end
    return _Step(move, in_x, free.weak, is_between, found.x[place.x.size :] > 0)


def _length(place: Place, direction: Array) -> float:
    """How far the lower rows, and g, let y go."""
    model, x, y, p = place.model, place.x, place.y, place.p
    rows = model.lower_in.linearise(x, y, p)
    rises = rows.in_y @ direction
    room = np.maximum(-rows.value, 0.0)
    held = rises > RANK * np.abs(rises).max(initial=0.0)
    ends = room[held] / rises[held]
    length = float(ends.min()) if ends.size else 1 + np.abs(y).max(initial=0.0)
    here = float(model.g(x, y, p)[0])
    left = np.maximum(rows.value, 0.0) + TOUCHES
    for _ in range(HALVINGS):
        at = y + length * direction
        value = float(model.g(x, at, p)[0])
        is_inside = np.all(model.lower_in.values(x, at, p) <= left)
        if is_inside and value <= here + np.spacing(abs(here)) * 4:
            return length
        length /= 2
    return 0.0
