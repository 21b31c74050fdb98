"""Whether f falls without limit where a search runs off to infinity, so that it need not go on."""

from __future__ import annotations

import numpy as np

from blomodel.methods.run.run import UNBOUNDED, Run, StopRun
from blomodel.solvers.answer import InnerStatus

DEEP = 1e6  # relative to the first value: so deep one may ask whether f has a limit at all
DECADES = 5  # of distance over which f must be seen to fall, each time by more
BEYOND = 3  # decades beyond the best point, where f would rise again if it had a least value
FARTHEST = 15  # decades; farther away numbers have no digits left
NOT_LESS = 0.5  # of the drop over the decade before: a fall that flattens faster may have a limit
NOT_MAIN = 1e-3  # share of a direction below which an entry stays where it is


class LookOut:
    """Ends a run in which f falls without limit; looks when f is deep, and again when far deeper."""

    def __init__(self) -> None:
        self._deep: float | None = None

    def __call__(self, run: Run, value: float) -> None:
        """Look at a step's value of f; raises StopRun."""
        if not np.isfinite(value):
            return
        if self._deep is None:
            self._deep = -DEEP * (1 + abs(value))
        if value < self._deep:
            self._deep = DEEP * value
            run.fall = falls_without_limit(run)
            if run.fall:
                run.is_unbounded = True
                raise StopRun(UNBOUNDED)


def falls_without_limit(run: Run) -> str:
    """What was seen, as the end of a sentence; empty where f may have a limit.

    From a point near the origin one goes through the best point and beyond, along entries of x that
    have no bound that way, and asks the lower level on the way.
    """
    best, model = run.best(), run.model
    if best is None or model.has_integers:
        return ""
    if np.isfinite(max(run.bound, run.least_value)):
        return ""
    low, high = model.bounds(run.p)
    origin = np.clip(0.0, low, high)
    move = best.x - origin
    end = np.where(move > 0, high, low)
    move[np.isfinite(end) | (np.abs(move) < NOT_MAIN * np.abs(move).max(initial=0.0))] = 0.0
    reach = float(np.abs(move).max(initial=0.0))
    if reach < 1.0:
        return ""
    base = np.where(move == 0.0, best.x, origin)
    rays = [move / reach]
    if np.count_nonzero(move) > 1:
        rays += [np.sign(move) * (np.arange(move.size) == k) for k in np.argsort(-np.abs(move))[:2]]
    for ray in rays:
        values = _values_along(run, base, ray, reach, best.y)
        if _is_endless(values):
            return f"f improves without limit as far as was looked, 1e{len(values) - 1} away"
    return ""


def _values_along(run: Run, base: np.ndarray, ray: np.ndarray, reach: float, y: np.ndarray) -> list:
    """f at the lower answers at distances 1, 10, 100, ..., until one is not known or not allowed."""
    values: list[float] = []
    is_bounded = all(np.isfinite(side).all() for side in run.model.y_bounds)
    last = min(int(np.ceil(np.log10(reach))) + BEYOND, FARTHEST)
    for decade in range(last + 1):
        run.check_limits()
        x = base + 10.0**decade * ray
        answer, _ = run.solve_lower(x, y)
        is_unknown = answer.status is InnerStatus.FAILED
        is_unknown |= answer.status is InnerStatus.UNBOUNDED and is_bounded  # which cannot be
        if is_unknown and decade > DECADES:
            break  # so far away the lower level cannot be solved; what was seen before counts
        if not answer.status.has_point or not run.violation(x, answer.y) <= run.tolerance:
            return []
        with np.errstate(all="ignore"):
            values.append(float(run.model.f(x, answer.y, run.p)[0]))
        if values[-1] == -np.inf:
            break
        if not np.isfinite(values[-1]):
            return []
    return values


def _is_endless(values: list[float]) -> bool:
    """Whether values over growing decades fall, by more and more or evenly."""
    is_overflow = bool(values) and values[-1] == -np.inf
    finite = np.array(values[:-1] if is_overflow else values)
    needed = 2 if is_overflow else DECADES
    drops = -np.diff(finite)[-needed:]
    if len(drops) < needed or not np.all(drops > 0):
        return False
    return bool(np.all(drops[1:] >= NOT_LESS * drops[:-1]))
