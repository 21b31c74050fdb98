"""Whether the best point found stands for an optimum, or f improves on without ever reaching one.

Two ways out are looked at, both by asking the lower level at further x. Along rays on which x has no
bound, f may fall without limit, or towards a value that it never takes. And where the lower answer
jumps, f may fall as x comes near a point at which it is suddenly worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from blomodel.basics.deadline import Deadline
from blomodel.model.model import Model
from blomodel.text.layout import array

MAX_DIRECTIONS = 40  # rays of single variables
DISTANCES = 10.0 ** np.arange(-2, 7)  # along a ray, relative to the size of the point
BEHIND = (1.0, 0.9, 0.5, 0.1)  # distances at which f is compared on the other side of the point
NOISE = 1e-13  # relative; differences of f below this are rounding
NEAR = 1e-2  # relative distance from a bound within which a jump at the bound is looked for
SLOPE = 0.1  # share of what f loses at the limit point that it may lose halfway
RESOLVED = 1e-6  # relative distance at which a solver tells x from its bound
JUMP = 1e-3  # relative; what f must lose at the limit point to count as a jump


@dataclass(frozen=True)
class WayOut:
    """Evidence that f has no optimum near or beyond a point.

    Attributes
    ----------
    is_unbounded : bool
        f falls without limit as far as was looked; otherwise it approaches ``limit``.
    limit : float
        The value that f approaches (for a minimised f); minus infinity when unbounded.
    x, y : array
        The best point seen on the way.
    value : float
        f there.
    text : str
        What was seen.
    """

    is_unbounded: bool
    limit: float
    x: np.ndarray
    y: np.ndarray
    value: float
    text: str


Evaluation = tuple[float, np.ndarray]  # f, or infinity where it is not feasible; and y


class Attainment:
    """Evaluates f at the lower answers of further x, around a certified point."""

    model: Model
    p: np.ndarray
    x: np.ndarray
    y: np.ndarray
    tolerance: float
    violation: Callable[[np.ndarray, np.ndarray], float]
    deadline: Deadline
    value: float

    def __init__(
        self,
        model: Model,
        p: np.ndarray,
        x: np.ndarray,
        y: np.ndarray,
        *,
        sign: float,
        tolerance: float,
        violation: Callable[[np.ndarray, np.ndarray], float],
        optimistic_value: Callable[[np.ndarray], float],
        deadline: Deadline,
        describe: Callable[[np.ndarray], str],
        least: float = -np.inf,
        most: float = np.inf,
    ) -> None:
        self.describe = describe  # a direction of x, in the user's words
        self.least = least  # what f cannot fall below by its formula
        self.left = most  # how often the lower level may still be asked
        self.model, self.p, self.x, self.y = model, p, x, y
        self.sign = sign  # +1 when the user minimises, for the text
        self.tolerance, self.violation, self.deadline = tolerance, violation, deadline
        self.optimistic_value = optimistic_value
        self.value = float(model.f(x, y, p)[0])

    def look(self) -> WayOut | None:
        """The first way out that is found; None when there is none, or the effort is used up."""
        if not self.model.is_convex_below:
            return None  # answers from local searches would prove nothing
        for direction in self._rays():
            if self.deadline.is_over or self.left <= 0:
                return None
            found = self._along(direction)
            if found is not None:
                return found
        return self._at_the_bounds()

    def _rays(self) -> Iterator[np.ndarray]:
        """Directions in which upper variables have no bound: single ones, and all of them.

        Where they are many, a few of them say little; there it is the way on from zero instead.
        """
        low, high = self.model.bounds(self.p)
        free = [
            (k, sign)
            for sign, bounds in ((1.0, high), (-1.0, low))
            for k in np.flatnonzero(~np.isfinite(bounds))
        ]
        if len(free) <= MAX_DIRECTIONS:
            for k, sign in sorted(free, key=lambda each: each[0]):
                direction = np.zeros(self.x.size)
                direction[k] = sign
                yield direction
        else:
            onward = np.where(np.isinf(np.where(self.x > 0, high, low)), self.x, 0.0)
            if np.any(onward):
                yield onward / np.abs(onward).max()
        if self.x.size > 1:
            for sign, bounds in ((1.0, high), (-1.0, low)):
                if not np.any(np.isfinite(bounds)):
                    yield np.full(self.x.size, sign)

    def _evaluate(self, x: np.ndarray) -> Evaluation:
        model, p = self.model, self.p
        self.left -= 1
        answer, is_proven = model.solve_lower(x, p, self.y, deadline=self.deadline)
        if not (answer.status.has_point and is_proven):
            return np.inf, self.y
        # The lower level is solved to its accuracy relative to a point that may be far away.
        if not self.violation(x, answer.y) <= self.tolerance:
            return np.inf, self.y
        value = float(model.f(x, answer.y, p)[0])
        return (value if np.isfinite(value) else np.inf), answer.y

    def _along(self, direction: np.ndarray) -> WayOut | None:
        unit = 1 + np.abs(self.x).max(initial=0)
        noise = NOISE * (1 + abs(self.value))
        values, points = [self.value], [(self.x, self.y)]
        for distance in DISTANCES:
            x = self.x + distance * unit * direction
            value, y = self._evaluate(x)
            if not value <= values[-1]:
                return None  # it rises, or the ray leaves what is feasible
            values.append(value)
            points.append((x, y))
        drops = -np.diff(values)
        if drops[0] <= noise or drops[1] <= noise:
            return None  # level: the optimum is attained, perhaps at many points
        position = int(np.argmin(values))
        x, y = points[position]
        shown = ", ".join(f"{self.sign * value:.6g}" for value in values[:3])
        shown = f"{shown}, ..., {self.sign * values[-1]:.6g}"
        where = f"at distances 0, {DISTANCES[0] * unit:.3g}, ..., {DISTANCES[-1] * unit:.3g}"
        visible = 10 * self.tolerance * (1 + abs(self.value))
        if drops[-1] >= 0.5 * drops[-2] and drops[-1] > visible and not np.isfinite(self.least):
            along = self.describe(direction)
            text = f"with {along} f improves without limit: {shown} {where}"
            return WayOut(True, -np.inf, x, y, values[position], text)
        if not self._has_fallen(direction, unit):
            return None
        text = f"with {self.describe(direction)} f improves on and on: {shown} {where}"
        return WayOut(False, values[-1], x, y, values[position], text)

    def _has_fallen(self, direction: np.ndarray, unit: float) -> bool:
        """Whether f falls visibly on the way to the point, so that what follows is no rounding."""
        visible = 10 * self.tolerance * (1 + abs(self.value))
        before = (self._evaluate(self.x - part * unit * direction)[0] for part in BEHIND)
        return any(np.isfinite(value) and value > self.value + visible for value in before)

    def _at_the_bounds(self) -> WayOut | None:
        """f just before a bound of x, and on it, where the lower answer may jump."""
        low, high = self.model.bounds(self.p)
        near_low = np.abs(self.x - low) <= NEAR * (1 + np.abs(self.x))
        near_high = np.abs(self.x - high) <= NEAR * (1 + np.abs(self.x))
        end = np.where(near_low, low, np.where(near_high, high, self.x))
        gap = np.abs(end - self.x)
        if not np.any(gap > 0) or self.deadline.is_over or self.left <= 0:
            return None  # the point lies on the bounds itself, or far from them
        away = np.where(near_low, 1.0, np.where(near_high, -1.0, 0.0))
        at_end, _ = self._evaluate(end)
        large = JUMP * (1 + abs(self.value))
        if self.value < at_end - large:
            at_end = min(at_end, self.optimistic_value(end))
        if not self.value < at_end - large:
            return None
        # Halfway to the end a jump does not show yet; where f is much worse already, it only slopes.
        # Nearer than solvers can tell x from its bound, the answer is that of the bound.
        nearest = RESOLVED * (1 + np.abs(self.x))
        halfway, _ = self._evaluate(end + away * np.maximum(gap / 2, nearest * (gap > 0)))
        if not halfway <= self.value + SLOPE * (at_end - self.value):
            return None
        # Coming nearer must improve f, or the bound has nothing to do with it.
        steps = [0.1, 0.01, 0.001]
        values = [self._evaluate(end + away * np.maximum(step, gap))[0] for step in steps]
        fine = [*values, self.value]
        if not all(later < earlier for earlier, later in zip(fine, fine[1:], strict=False)):
            return None
        text = (
            f"as x comes near {array(end)} f comes near {self.sign * self.value:.6g}, but at that x "
            f"the lower level answers differently and f is {self.sign * at_end:.6g}"
        )
        return WayOut(False, self.value, self.x, self.y, self.value, text)
