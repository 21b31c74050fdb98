"""The upper level: where the validation loss phi is least over the logarithms of the weights.

A scan finds the valleys. One weight: in each valley the slope's zero is found by Brent's method. More
weights: quasi-Newton descent from the best places of the scan, with exact slopes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq

from blomodel.methods.search.descent import minimise_in_box
from blomodel.sklearn.followers import Evaluation, Followers

VALLEYS = 3  # that are searched to their bottoms
NARROW = 1e-5  # width of a valley, in logarithms, at which a kink is taken for its bottom


def search_one(
    phi: Followers, places: np.ndarray, bounds: tuple[float, float], tolerance: float
) -> Evaluation:
    """The least phi over one weight, from a scan of ``places`` in falling order."""
    scan = [phi(np.array([place])) for place in places]
    ordered = sorted(scan, key=lambda evaluation: evaluation.x[0])
    valleys = [
        (left, right)
        for left, right in zip(ordered, ordered[1:], strict=False)
        if left.gradient[0] < 0 < right.gradient[0]
    ]
    valleys.sort(key=lambda ends: min(end.value for end in ends))
    known = {evaluation.x[0]: evaluation for evaluation in scan}

    def slope(place: float) -> float:
        """The slope; zero where it is small enough, which ends the search."""
        found = known[place] if place in known else phi(np.array([place]))
        gradient = float(found.gradient[0])
        return 0.0 if abs(gradient) <= tolerance * abs(found.value) else gradient

    for left, right in valleys[:VALLEYS]:
        brentq(slope, left.x[0], right.x[0], xtol=NARROW, maxiter=30, disp=False)
    best = phi.best
    if best is scan[0] or best is scan[-1]:  # at an end of the scan phi may still fall up to the bound
        descend(phi, best.x, bounds, tolerance, 10)
    return phi.best


def search_many(
    phi: Followers,
    starts: Sequence[np.ndarray],
    bounds: tuple[float, float],
    tolerance: float,
    max_iterations: int,
) -> Evaluation:
    """The least phi over several weights: a scan of the starts, then descent from the best of them."""
    scan = [phi(start) for start in starts]
    scan.sort(key=lambda evaluation: evaluation.value)
    for begin in scan[:VALLEYS]:
        descend(phi, begin.x, bounds, tolerance, max_iterations)
    return phi.best


def descend(
    phi: Followers, start: np.ndarray, bounds: tuple[float, float], tolerance: float, max_iterations: int
) -> Evaluation:
    """The library's descent over a box, with the loss measured in units of its value at the start."""
    unit = max(abs(phi.best.value), np.finfo(float).tiny)

    def scaled(x: np.ndarray) -> Evaluation:
        found = phi(x)
        return Evaluation(found.x, found.value / unit, found.gradient / unit, found.answers)

    box = np.full(start.size, bounds[0]), np.full(start.size, bounds[1])
    return minimise_in_box(
        scaled, start, box, tolerance=tolerance, max_iterations=max_iterations, least_gain=1e-9
    )
