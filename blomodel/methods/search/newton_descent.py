"""Minimise a smooth function over a box by Newton steps: to full accuracy, and away from saddles.

Where the Hessian curves downwards somewhere, its eigenvalues are taken by their size, and a level point
is left along the lowest one. Variables that a step would carry out of the box stop at their bounds, and
the others move on as the quadratic model then asks. Steps keep within a radius, which the decrease they
bring moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import scipy.linalg

from blomodel.methods.search.evaluation import WithAnswer

DECREASE = 1e-4  # of what the quadratic model promises: a step that brings less is shortened
TRIALS = 12  # lengths of one step
NEGATIVE = 1e-7  # curvature, relative to the largest, from which a direction leads downwards
FLOOR = 1e-10  # relative to the largest curvature; a flat direction is not stepped along without end
ROUNDS = 30  # of variables that stop at their bounds or leave them
RADIUS = 2.0  # first one, in units of x's size or one

Found = TypeVar("Found", bound=WithAnswer)
Bounds = tuple[np.ndarray, np.ndarray]


class NewtonEnd(NamedTuple, Generic[Found]):
    """The best point of a descent.

    Attributes
    ----------
    point : evaluation
    is_minimum : bool
        Whether f is level there, with no direction left that curves downwards.
    """

    point: Found
    is_minimum: bool


def minimise_by_newton(
    evaluate: Callable[[np.ndarray], Found],
    hessian: Callable[[Found, np.ndarray], np.ndarray | None],
    start: Found,
    bounds: Bounds,
    *,
    tolerance: float,
    max_iterations: int,
    least_gain: float = 1e-14,
) -> NewtonEnd[Found]:
    """Descend from ``start`` to a projected slope of ``tolerance`` and beyond saddle points.

    Parameters
    ----------
    evaluate : callable
        The function at x, with its gradient.
    hessian : callable
        Of an evaluation and numbers of variables: the second derivatives in these; None ends it all.
    least_gain : float
        Relative to the value: what a step must promise.
    """
    current, radius = start, RADIUS * (1 + float(np.abs(start.x).max(initial=0.0)))
    for _ in range(max_iterations):
        free = np.flatnonzero(~_is_held(current, bounds))
        curvature = hessian(current, free) if len(free) else np.zeros((0, 0))
        if curvature is None:
            return NewtonEnd(current, False)
        slope = np.abs(current.gradient[free]).max(initial=0.0)
        step, promise = _newton_step(current, curvature, free, bounds, radius)
        small = least_gain * (1 + abs(current.value))
        is_level = slope <= tolerance
        if not is_level and promise <= small:  # the value no longer shows what is gained
            last = evaluate(np.clip(current.x + step, *bounds))
            if last.is_finite and last.value <= current.value + small:
                free_then = ~_is_held(last, bounds)
                if np.abs(last.gradient[free_then]).max(initial=0.0) < 0.5 * slope:
                    current = last
                    continue
            is_level = True
        if is_level:
            downward, most = _downward(current, curvature, free, bounds, radius)
            if most <= small:
                return NewtonEnd(current, True)
            if most > promise:  # else slopes that are small in all are worth more along many directions
                step, promise = downward, most
        found, share = _search(evaluate, current, step, promise, bounds)
        if found is None:
            return NewtonEnd(current, is_level)
        if share == 1.0 and np.abs(step).max() >= 0.9 * radius:
            radius *= 4
        elif share < 1.0:
            radius = max(2 * share * float(np.abs(step).max()), 1e-12)
        current = found
    return NewtonEnd(current, False)


def _is_held(current: WithAnswer, bounds: Bounds) -> np.ndarray:
    low, high = bounds
    return ((current.x <= low) & (current.gradient >= 0)) | (
        (current.x >= high) & (current.gradient <= 0)
    )


def _search(
    evaluate: Callable[[np.ndarray], Found],
    current: Found,
    step: np.ndarray,
    promise: float,
    bounds: Bounds,
) -> tuple[Found | None, float]:
    """The first shorter step that brings what the model promises; None where none does."""
    share = 1.0
    for _ in range(TRIALS):
        trial = evaluate(np.clip(current.x + share * step, *bounds))
        if trial.is_finite and trial.value < current.value - DECREASE * share * promise:
            return trial, share
        share *= 0.3
    return None, 0.0


def _newton_step(
    current: WithAnswer, curvature: np.ndarray, free: np.ndarray, bounds: Bounds, radius: float
) -> tuple[np.ndarray, float]:
    """The step of the quadratic model within box and radius, and the decrease that it promises."""
    x, slope = current.x[free], current.gradient[free]
    low = np.maximum(bounds[0][free] - x, -radius)
    high = np.minimum(bounds[1][free] - x, radius)
    matrix = _bent_upwards(curvature)
    move = _least_in_box(matrix, slope, low, high)
    step = np.zeros(current.x.size)
    step[free] = move
    promise = -float(slope @ move + 0.5 * move @ (matrix @ move))
    if promise <= 0:  # what stopped at bounds has spoiled it
        largest = float(np.abs(matrix).sum(axis=1).max(initial=1e-300))
        move = np.clip(-slope / largest, low, high)
        step[free] = move
        promise = -float(slope @ move + 0.5 * move @ (matrix @ move))
    return step, promise


def _least_in_box(
    matrix: np.ndarray, slope: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """The minimiser of a positive definite quadratic model over a box, or a point near it.

    Variables stop at bounds that they would cross, and are let go again where the slope that is left
    leads back: the primal-dual active set rule. It need not end, and is left after some rounds.
    """
    move, at_low, at_high = np.zeros(len(slope)), *np.zeros((2, len(slope)), dtype=bool)
    for _ in range(ROUNDS):
        stopped = at_low | at_high
        move[at_low], move[at_high] = low[at_low], high[at_high]
        moving = np.flatnonzero(~stopped)
        pull = slope[moving] + matrix[np.ix_(moving, np.flatnonzero(stopped))] @ move[stopped]
        move[moving] = _solve(matrix[np.ix_(moving, moving)], -pull)
        left = slope + matrix @ move
        below = np.where(stopped, at_low & (left > 0), move < low)
        above = np.where(stopped, at_high & (left < 0), move > high)
        if np.array_equal(below, at_low) and np.array_equal(above, at_high):
            break
        at_low, at_high = below, above
    return np.clip(move, low, high)


def _bent_upwards(curvature: np.ndarray) -> np.ndarray:
    """The matrix itself where it is positive definite; else with eigenvalues by their size."""
    if not len(curvature):
        return curvature
    size = float(np.abs(curvature).max())
    shifted = curvature.copy()
    shifted.flat[:: len(curvature) + 1] -= FLOOR * size
    if scipy.linalg.lapack.dpotrf(shifted, lower=1)[1] == 0:
        return curvature
    values, vectors = np.linalg.eigh(curvature)
    bent = np.maximum(np.abs(values), max(FLOOR * np.abs(values).max(), 1e-300))
    return (vectors * bent) @ vectors.T


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    if not len(right):
        return right
    factor, info = scipy.linalg.lapack.dpotrf(matrix, lower=1)
    if info != 0:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])
    return np.asarray(scipy.linalg.lapack.dpotrs(factor, right, lower=1)[0])


def _downward(
    current: WithAnswer, curvature: np.ndarray, free: np.ndarray, bounds: Bounds, radius: float
) -> tuple[np.ndarray, float]:
    """A move along the lowest curvature, and what it promises; nothing where none is negative."""
    nothing = np.zeros(current.x.size), 0.0
    if not len(free):
        return nothing
    values, vectors = np.linalg.eigh(curvature)
    if values[0] >= -NEGATIVE * np.abs(values).max():
        return nothing
    best, most = nothing
    for sign in (1.0, -1.0):
        step = np.zeros(current.x.size)
        along = sign * vectors[:, 0]
        step[free] = along * radius / np.abs(along).max()
        moved = np.clip(current.x + step, *bounds) - current.x
        promise = -float(current.gradient @ moved + 0.5 * moved[free] @ curvature @ moved[free])
        if promise > most:
            best, most = moved, promise
    return best, most
