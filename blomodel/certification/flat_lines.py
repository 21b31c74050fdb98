"""A line along which f neither curves nor changes, as where all weights may be multiplied by one number.

Curvature alone then shows nothing. But where f keeps its value along the line, and is level at both ends
of a piece of it with positive curvature across, no point near the line is better than those on it.
"""

from __future__ import annotations

import itertools

import numpy as np

from blomodel.basics.deadline import Deadline
from blomodel.certification.certificate_text import STATIONARY
from blomodel.certification.curvature import growth
from blomodel.certification.directions import find_directions
from blomodel.certification.surroundings import Place, Surroundings, look_around

REACHES = (0.5, 0.05)  # how far the line is looked at, relative to the size of x
NOTHING = 1e-10  # relative: a change of f that is due to solvers' accuracy
LEVEL = 1e-16  # the same of what a Newton step gains, which is the square of a slope
MORE = 2.0  # times what a Newton step gains here: a little that it still gains, it gains on the line too


def is_level_along(here: Surroundings, move: np.ndarray, gain: float, deadline: Deadline) -> bool:
    """Whether f is the same, and as level as here, on both sides along a move of x.

    Parameters
    ----------
    gain : float
        What a Newton step would gain here.
    """
    place = here.place
    model = place.model
    if here.factor is None or not (model.is_convex_below and model.conditions.multipliers_are_unknowns):
        return False
    step = (1 + np.abs(place.x).max(initial=0.0)) / np.abs(move).max() * move
    sides = itertools.product(REACHES, (1.0, -1.0))
    return all(_is_level_at(here, reach * side * step, gain, deadline) for reach, side in sides)


def _is_level_at(here: Surroundings, step: np.ndarray, gain: float, deadline: Deadline) -> bool:
    """Whether f is as it is here, and a Newton step gains no more, where a step within bounds leads."""
    place = here.place
    model, value = place.model, float(place.model.f(place.x, place.y, place.p)[0])
    x = _within(place.x, step, *model.bounds(place.p))
    answer = model.lower_program.solve(x, place.p)
    if deadline.is_over or not answer.status.has_point:
        return False
    there = look_around(Place(model, place.p, x, answer.y, model.split_duals(answer.duals)))
    if there.factor is None or not there.is_finite or len(there.weak) != len(here.weak):
        return False
    size, moved = 1 + abs(value), there.place
    if not abs(float(model.f(moved.x, moved.y, moved.p)[0]) - value) <= NOTHING * size:
        return False
    directions = find_directions(there)
    level = directions.relaxed()
    steepness = 1 + np.abs(there.slope).max(initial=0.0)
    if level is None or not level.decrease <= STATIONARY * steepness:
        return False
    grown = growth(directions, level, deadline)
    return (grown.is_positive or grown.flat is not None) and grown.gain <= MORE * gain + LEVEL * size


def _within(x: np.ndarray, step: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The end of a step, or the place where it meets the first bound."""
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(step > 0, (high - x) / step, np.where(step < 0, (low - x) / step, np.inf))
    return x + min(1.0, max(0.0, float(np.nanmin(room, initial=1.0)))) * step
