"""One local search of a lower level that is not convex, at one x, by SciPy or an augmented Lagrangian.

Over all of y or over some of its elements; ``multistart.py`` makes many of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.basics import limits
from blomodel.basics.alarm import Disturbance
from blomodel.basics.deadline import NEVER, Deadline, end_of_work
from blomodel.basics.troubles import count_trouble, is_from_outside

if TYPE_CHECKING:
    from blomodel.compiler.tape import Tape
    from blomodel.model.multistart import MultistartLower
    from blomodel.model.rows import Rows

FEASIBLE = 1e-8  # violation of a row, relative to the size of y, that a search may leave
LARGE = 1e100  # stands for a value that is not finite, so that line searches step back
FAR = 1e12  # a search that gets this far counts as running away
SCAN_POINTS = 121  # on a coordinate
NEARLY_LEAST = 1e-6  # relative; valleys of one variable this near to the best are searched to the end
N_ALONE = 20  # valleys searched where there is one variable
RADII = (1.0, 4.0, 16.0)  # of the starts around a point, where y has no bounds
ZOOMS, LOOKS = 6, 17  # into a valley of one variable, and places looked at each time
LONG = 0.25  # seconds that the searches of one call may take, however late it is


class _TooLate(Disturbance, Exception):
    """Raised where SciPy has no other way to end a search."""


class LocalSearch:
    """Local searches at one x: the bounds on y there, and the rows that are not bounds.

    Attributes
    ----------
    free : array of int
        The elements of y that are searched; the others keep their values in ``base``.
    low, high : array
        Bounds of the free elements.
    general : list of two arrays of int
        The inequality and equality rows that are not bounds and hold free elements.
    is_cut : bool
        Whether a search ended because it was long and the deadline over, so that its end says nothing.
    """

    objective: Tape
    slope: Tape
    x: np.ndarray
    p: np.ndarray
    weight: float
    accuracy: float
    deadline: Deadline
    latest: Deadline
    is_cut: bool
    free: np.ndarray
    base: np.ndarray
    low: np.ndarray
    high: np.ndarray
    kinds: tuple[Rows, Rows]
    general: list[np.ndarray]

    def __init__(
        self,
        lower: MultistartLower,
        x: np.ndarray,
        p: np.ndarray,
        weight: float,
        accuracy: float,
        deadline: Deadline = NEVER,
    ) -> None:
        self.objective, self.slope = lower.objective, lower.slope
        self.x, self.p = x, p
        self.weight, self.accuracy = weight, accuracy
        end = end_of_work()
        self.deadline, self.is_cut = min(deadline, end), False
        self.latest = max(deadline, Deadline.after(LONG)) if end.is_never else end
        n = lower.n
        self.free, self.base = np.arange(n), np.zeros(n)
        self.low, self.high = np.full(n, -np.inf), np.full(n, np.inf)
        self.kinds = (lower.model.lower_in, lower.model.lower_eq)
        self.general = [
            self._read_bounds(rows, affine, is_equality)
            for rows, affine, is_equality in zip(
                self.kinds, lower.rows_in_single_variables, (False, True), strict=True
            )
        ]

    def restricted(self, free: np.ndarray, rows: list[np.ndarray], base: np.ndarray) -> LocalSearch:
        """The same search over some elements of y; ``rows`` tells which rows hold none of the others."""
        part = copy.copy(self)
        part.free, part.base = free, base.copy()
        part.low, part.high = self.low[free], self.high[free]
        part.general = [
            positions[held[positions]] for positions, held in zip(self.general, rows, strict=True)
        ]
        return part

    @property
    def n(self) -> int:
        """Number of free elements."""
        return self.free.size

    def embed(self, point: np.ndarray) -> np.ndarray:
        """All of y, from its free elements."""
        y = self.base.copy()
        y[self.free] = point
        return y

    def clip(self, point: np.ndarray) -> np.ndarray:
        """The nearest point within the bounds."""
        return np.clip(point, self.low, self.high)

    def _read_bounds(self, rows: Rows, affine: np.ndarray, is_equality: bool) -> np.ndarray:
        """Turn rows in a single variable into bounds; returns the positions of the others."""
        others = np.ones(len(rows), dtype=bool)
        if not np.any(affine):
            return np.flatnonzero(others)
        at = rows.linearise(self.x, np.zeros(self.low.size), self.p)
        for row in np.flatnonzero(affine):
            start, stop = at.in_y.indptr[row], at.in_y.indptr[row + 1]
            held = [k for k in range(start, stop) if at.in_y.data[k] != 0]
            if len(held) != 1 or not np.isfinite(at.value[row]):
                continue
            column, slope = at.in_y.indices[held[0]], at.in_y.data[held[0]]
            bound = -at.value[row] / slope
            others[row] = False
            if slope > 0 or is_equality:
                self.high[column] = min(self.high[column], bound)
            if slope < 0 or is_equality:
                self.low[column] = max(self.low[column], bound)
        return np.flatnonzero(others)

    @property
    def has_rows(self) -> bool:
        """Whether there are rows besides bounds."""
        return bool(len(self.general[0]) or len(self.general[1]))

    @property
    def is_single(self) -> bool:
        """Whether one element is searched, which nothing but bounds restricts."""
        return self.n == 1 and not self.has_rows

    @property
    def is_interval(self) -> bool:
        """Whether it has finite bounds, too."""
        return bool(self.is_single and np.isfinite(self.low[0]) and np.isfinite(self.high[0]))

    def value(self, point: np.ndarray) -> float:
        """The objective; infinite where it is undefined."""
        value = self.weight * float(self.objective(self.x, self.embed(point), self.p)[0])
        return value if np.isfinite(value) or value == -np.inf else np.inf

    def values(self, points: np.ndarray) -> np.ndarray:
        """The objective at each row of an array; infinite where it is undefined."""
        y = np.repeat(self.base[None, :], len(points), axis=0)
        y[:, self.free] = points
        found = self.weight * self.objective.at_each("y", y, self.x, self.base, self.p)[:, 0]
        return np.where(np.isfinite(found) | (found == -np.inf), found, np.inf)

    def is_feasible(self, point: np.ndarray) -> bool:
        """Whether the rows that are not bounds hold; the bounds hold by construction."""
        if not np.all(np.isfinite(point)):
            return False
        if not self.has_rows:
            return True
        return self._violation(point) <= FEASIBLE * (1 + np.abs(point).max(initial=0))

    def _violation(self, point: np.ndarray) -> float:
        inside, on = self._values(0, point), self._values(1, point)
        return float(max(inside.max(initial=0), np.abs(on).max(initial=0)))

    def descend(self, start: np.ndarray) -> tuple[np.ndarray, int]:
        """One local search; returns its end and the number of steps."""
        if not self.has_rows:
            return self._minimise_in_box(self._value_and_slope, start)
        if limits.SEQUENTIAL_QUADRATIC.allows(start.size):
            return self._slsqp(start)
        return self._augmented_lagrangian(start)

    def valley(self, point: np.ndarray, reach: float) -> np.ndarray:
        """The least value of a single variable within reach of a point, by looks that come closer."""
        best, least = float(point[0]), self.value(point)
        low, high = float(self.low[0]), float(self.high[0])
        for _ in range(ZOOMS):
            places = np.linspace(max(best - reach, low), min(best + reach, high), LOOKS)
            values = self.values(places[:, None])
            lowest = int(np.argmin(values))
            if values[lowest] < least:
                best, least = float(places[lowest]), float(values[lowest])
            reach *= 2.0 / (LOOKS - 1)
        return np.array([best])

    def sharpen(self, point: np.ndarray, reach: float) -> tuple[np.ndarray, int]:
        """The minimum of a single variable in the valley of a point, by the sign of the slope."""
        from scipy.optimize import brentq

        def slope(at: float) -> float:
            return float(self._value_and_slope(np.array([at]))[1][0])

        here, (low, high) = float(point[0]), (float(self.low[0]), float(self.high[0]))
        width = reach * (2.0 / (LOOKS - 1)) ** ZOOMS
        while width <= reach:
            left, right = max(here - width, low), min(here + width, high)
            first, last = slope(left), slope(right)
            if (left == low and first >= 0) or (right == high and last <= 0):
                end = left if left == low and first >= 0 else right
                return np.array([end]), 1
            if first < 0 < last:
                end, told = brentq(slope, left, right, xtol=1e-15, rtol=1e-14, full_output=True)
                return np.array([end]), int(told.iterations)
            width *= LOOKS
        return self.descend(point)

    def _value_and_slope(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        y = self.embed(point)
        value = self.weight * float(self.objective(self.x, y, self.p)[0])
        slope = self.weight * self.slope(self.x, y, self.p)[self.free]
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            return LARGE, np.zeros(point.size)
        return value, slope

    def _minimise_in_box(
        self, function: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray
    ) -> tuple[np.ndarray, int]:
        options = {"maxiter": 1000, "maxcor": 20, "ftol": 1e-15, "gtol": min(1e-9, self.accuracy)}
        from scipy.optimize import minimize

        def stop_when_late(_: np.ndarray) -> None:
            if self.latest.is_over:
                self.is_cut = True
                raise StopIteration

        bounds = list(zip(self.low, self.high, strict=True))
        found = _survived(
            minimize,
            function,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options=options,
            callback=stop_when_late,
        )
        return np.asarray(found.x, float), int(getattr(found, "nit", 0))

    def _values(self, kind: int, point: np.ndarray) -> np.ndarray:
        """The rows that are not bounds: inequalities (0) or equalities (1)."""
        if len(self.general[kind]) == 0:
            return np.empty(0)
        return self.kinds[kind].values(self.x, self.embed(point), self.p)[self.general[kind]]

    def _jacobian(self, kind: int, point: np.ndarray) -> np.ndarray:
        if len(self.general[kind]) == 0:
            return np.empty((0, point.size))
        slopes = self.kinds[kind].dense_jacobian(self.x, self.embed(point), self.p)
        return slopes[np.ix_(self.general[kind], self.x.size + self.free)]

    def _slsqp(self, start: np.ndarray) -> tuple[np.ndarray, int]:
        from scipy.optimize import minimize

        parts = []
        if len(self.general[0]):
            parts.append(
                {
                    "type": "ineq",
                    "fun": lambda y: -self._values(0, y),
                    "jac": lambda y: -self._jacobian(0, y),
                }
            )
        if len(self.general[1]):
            parts.append(
                {
                    "type": "eq",
                    "fun": lambda y: self._values(1, y),
                    "jac": lambda y: self._jacobian(1, y),
                }
            )

        def function(point: np.ndarray) -> tuple[float, np.ndarray]:
            if self.latest.is_over:
                raise _TooLate
            return self._value_and_slope(point)

        try:
            found = _survived(
                minimize,
                function,
                start,
                jac=True,
                method="SLSQP",
                bounds=list(zip(self.low, self.high, strict=True)),
                constraints=parts,
                options={"maxiter": 150, "ftol": 1e-13},
            )
        except _TooLate:
            self.is_cut = True
            return start, 0
        return self.clip(np.asarray(found.x, float)), int(getattr(found, "nit", 0))

    def _augmented_lagrangian(self, start: np.ndarray) -> tuple[np.ndarray, int]:
        inside, on = self._values(0, start), self._values(1, start)
        pressure, pull = np.zeros(len(inside)), np.zeros(len(on))
        penalty, steps, last = 10.0, 0, np.inf
        y = start

        def function(point: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = self._value_and_slope(point)
            inside, on = self._values(0, point), self._values(1, point)
            in_y, on_y = self._jacobian(0, point), self._jacobian(1, point)
            shifted = np.maximum(pressure + penalty * inside, 0.0)
            value += float(shifted @ shifted - pressure @ pressure) / (2 * penalty)
            value += float(pull @ on + penalty / 2 * (on @ on))
            total = slope + in_y.T @ shifted + on_y.T @ (pull + penalty * on)
            if not (np.isfinite(value) and np.all(np.isfinite(total))):
                return LARGE, np.zeros(point.size)
            return value, total

        for _ in range(30):
            y, count = self._minimise_in_box(function, y)
            steps += count
            if self.is_cut:
                break
            worst = self._violation(y)
            if worst <= FEASIBLE / 10 * (1 + np.abs(y).max(initial=0)):
                break
            pressure = np.maximum(pressure + penalty * self._values(0, y), 0.0)
            pull = pull + penalty * self._values(1, y)
            if worst > 0.25 * last:
                penalty *= 5.0
            last = worst
        return y, steps


def spread_around(
    center: np.ndarray, low: np.ndarray, high: np.ndarray, fractions: np.ndarray
) -> list[np.ndarray]:
    """A start for each row of fractions: of the bounds, and of wider and wider ranges elsewhere."""
    starts = []
    for k, fraction in enumerate(fractions):
        reach = RADII[k % len(RADII)] * (1 + np.abs(center))
        left = np.where(np.isfinite(low), low, np.minimum(center, high) - reach)
        right = np.where(np.isfinite(high), high, np.maximum(center, low) + reach)
        starts.append(left + fraction * (right - left))
    return starts


def _survived(
    minimize: Callable[..., Any], function: Callable[..., Any], start: np.ndarray, **settings: Any
) -> Any:
    """The end of a search by SciPy; its start where SciPy breaks off or ends nowhere."""
    try:
        found = minimize(function, start, **settings)
    except BaseException as error:
        if is_from_outside(error):
            raise
        found = None
    if found is None or not np.all(np.isfinite(found.x)):
        count_trouble("slsqp")
        return SimpleNamespace(x=start, nit=0)
    return found
