"""A lower level that is not convex: local searches from many starts, the best one kept.

The value found is an upper bound of the optimal value and usually equal to it, but nothing proves
that; whoever reports it says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from blomodel.analysis.polynomial import polynomial
from blomodel.compiler.derivatives import gradient
from blomodel.inner.answer import Answer, InnerStatus
from blomodel.threads import one_blas_thread

if TYPE_CHECKING:
    from blomodel.compiler.model import Model
    from blomodel.compiler.rows import Rows
    from blomodel.compiler.tape import Tape

FEASIBLE = 1e-8  # violation of a row, relative to the size of y, that a search may leave
FAR = 1e12  # a search that gets this far counts as running away
LARGE = 1e100  # stands for a value that is not finite, so that line searches step back
MAX_SLSQP = 150  # variables; above this an augmented Lagrangian is cheaper
MAX_HALTON = 200  # variables; above this a Halton sequence is no better than random numbers
MAX_KNOWN = 100  # x whose answers are remembered
FEWEST = 4  # searches of one call, however late it is
MAX_SCANNED = 30  # variables up to which each coordinate is looked along
SCAN_POINTS = 121  # on a coordinate
MAX_VALLEYS, N_VALLEYS = 3, 4  # variables up to which valleys are searched, and how many of them
MAX_SWEEPS = 4  # over the coordinates
RADII = (1.0, 4.0, 16.0)  # of the starts around a point, where y has no bounds


class MultistartLower:
    """Minimises g(x, .) over the lower constraints by local searches.

    Parameters
    ----------
    model : Model
    reason : str
        Why the lower level does not count as convex.
    seed : int
        Of the start points, which are the same in every call.
    objective : Tape, optional
        What to minimise; g by default.

    Attributes
    ----------
    n_starts : int
        Local searches of one call, besides those from points that the caller gives.
    deadline : float
        Value of ``time.perf_counter()`` after which a call makes no more than FEWEST searches.
    """

    kind = "nonconvex"

    def __init__(
        self, model: Model, reason: str = "", seed: int = 0, objective: Tape | None = None
    ) -> None:
        self.model, self.reason, self.seed = model, reason, seed
        self.objective = model.g if objective is None else objective
        self.n = model.y.size
        self.n_starts = 30 if self.n <= 10 else 16 if self.n <= 100 else 8 if self.n <= 1000 else 4
        self.deadline = np.inf
        self._slope = gradient(self.objective, ("y",))
        self._last: np.ndarray | None = None
        self._known: dict[tuple[bytes, bytes, float], np.ndarray] = {}  # best y at x searched before

    def solve(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: Sequence[float] | np.ndarray = (1.0,),
        warm: bool = True,
        accuracy: float = 1e-8,
        near: Sequence[np.ndarray] = (),
    ) -> Answer:
        """Minimise at x; ``near`` holds points to search from first, ``warm`` adds the last answer."""
        with one_blas_thread():
            return self._solve(x, p, weights, warm, accuracy, near)

    def _solve(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: Sequence[float] | np.ndarray,
        warm: bool,
        accuracy: float,
        near: Sequence[np.ndarray],
    ) -> Answer:
        search = _Search(self, x, p, float(np.asarray(weights)[-1]), accuracy)
        if np.any(search.low > search.high):
            return Answer.without_point(InnerStatus.INFEASIBLE, self.n, "bounds on y contradict")
        first = [np.asarray(point, float) for point in near]
        if warm and self._last is not None:
            first.append(self._last)
        first = [point for point in first if np.all(np.isfinite(point))]
        best, best_value, iterations = None, np.inf, 0
        key = (x.tobytes(), p.tobytes(), search.weight)
        if warm and key in self._known:
            # Searched from everywhere before: only the points given now can add anything.
            starts = [*first, self._known[key]]
        else:
            starts = [*first, *self._starts(search, first[0] if first else None)]
        n_searches = 0
        for start in starts:
            if n_searches >= FEWEST and time.perf_counter() > self.deadline:
                break
            n_searches += 1
            start = np.clip(start, search.low, search.high)
            y, steps = search.descend(start)
            iterations += steps
            # A given point that is feasible counts even where the search from it goes astray.
            for point in (y, start):
                value = search.value(point)
                if not search.is_feasible(point) or not value < best_value:
                    continue
                best, best_value = point, value
                if value < -FAR or np.abs(point).max(initial=0) > FAR:
                    return Answer.without_point(
                        InnerStatus.UNBOUNDED, self.n, "a local search ran away", iterations
                    )
        if best is None:
            reason = f"none of {n_searches} local searches reached a feasible point"
            return Answer.without_point(InnerStatus.FAILED, self.n, reason, iterations)
        if n_searches == len(starts) and not (warm and key in self._known):
            best, best_value = self._scan(search, best, best_value)
        self._last = best
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        if n_searches == len(starts):
            self._known[key] = best
        return Answer(
            InnerStatus.OPTIMAL,
            best_value,
            best,
            self.fit_duals(x, best, p),
            iterations,
            solver=f"{n_searches} local searches",
        )

    def descend_from(self, x: np.ndarray, p: np.ndarray, start: np.ndarray) -> np.ndarray:
        """The end of one local search."""
        search = _Search(self, x, p, 1.0, 1e-9)
        with one_blas_thread():
            return search.descend(np.clip(start, search.low, search.high))[0]

    def _scan(self, search: _Search, best: np.ndarray, best_value: float) -> tuple[np.ndarray, float]:
        """Look along each coordinate through the best point, all the way, and search from lower ones.

        Local searches from spread starts seldom have every coordinate in its best basin at once.
        """
        if self.n > MAX_SCANNED:
            return best, best_value
        reach = RADII[-1] * (1 + np.abs(best))
        low = np.where(np.isfinite(search.low), search.low, best - reach)
        high = np.where(np.isfinite(search.high), search.high, best + reach)
        for _ in range(MAX_SWEEPS):
            before = best_value
            for k in range(self.n):
                for start in self._lower_along(search, best, best_value, k, low[k], high[k]):
                    y, _ = search.descend(start)
                    for point in (y, start):
                        value = search.value(point)
                        if search.is_feasible(point) and value < best_value:
                            best, best_value = point.copy(), value
            if not best_value < before - 1e-9 * (1 + abs(before)):
                break
        return best, best_value

    def _lower_along(
        self, search: _Search, best: np.ndarray, best_value: float, k: int, low: float, high: float
    ) -> list[np.ndarray]:
        """Points along coordinate k from which a search may end lower.

        In few variables the valleys of the scan, since its points may lie on the slope of a better one;
        in many only a point that is lower already.
        """
        points = np.repeat(best[None, :], SCAN_POINTS + 2, axis=0)
        points[1:-1, k] = np.linspace(low, high, SCAN_POINTS)
        values = np.full(SCAN_POINTS + 2, np.inf)
        for number in range(1, SCAN_POINTS + 1):
            if search.is_feasible(points[number]):
                values[number] = search.value(points[number])
        if self.n > MAX_VALLEYS:
            lowest = int(np.argmin(values))
            return [points[lowest]] if values[lowest] < best_value else []
        is_valley = (values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:])
        valleys = 1 + np.flatnonzero(is_valley & np.isfinite(values[1:-1]))
        order = valleys[np.argsort(values[valleys])]
        return [points[number] for number in order[:N_VALLEYS]]

    def _starts(self, search: _Search, center: np.ndarray | None) -> list[np.ndarray]:
        """Halton points over the bounds of y; where a side is open, around the given point."""
        low, high = search.low, search.high
        middle = np.clip(0.0, low, high)
        closed = np.isfinite(low) & np.isfinite(high)
        middle[closed] = (low[closed] + high[closed]) / 2
        center = middle if center is None else np.clip(center, low, high)
        if self.n <= MAX_HALTON:
            sample = self._halton
        else:
            sample = np.random.default_rng(self.seed).random((self.n_starts - 1, self.n))
        starts = [middle]
        for k, fraction in enumerate(sample):
            reach = RADII[k % len(RADII)] * (1 + np.abs(center))
            left = np.where(np.isfinite(low), low, np.minimum(center, high) - reach)
            right = np.where(np.isfinite(high), high, np.maximum(center, low) + reach)
            starts.append(left + fraction * (right - left))
        return starts

    @cached_property
    def _halton(self) -> np.ndarray:
        from scipy.stats import qmc  # slow to load, and seldom needed

        rng = np.random.default_rng(self.seed)
        return qmc.Halton(self.n, rng=rng).random(self.n_starts - 1)

    @cached_property
    def rows_in_single_variables(self) -> tuple[np.ndarray, np.ndarray]:
        """Which inequality and equality rows are affine in y (candidates for bounds)."""
        return _affine_in_y(self.model.lower_in), _affine_in_y(self.model.lower_eq)

    def fit_duals(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> list[np.ndarray]:
        """Multipliers that fit the KKT conditions at y best; none where rows do not tell them."""
        model = self.model
        if not model.has_smooth_kkt:
            return []
        rows, equal = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
        scale = 1 + np.abs(y).max(initial=0)
        active = np.flatnonzero(rows.value >= -1e-6 * scale)
        multipliers = np.zeros(len(rows.value)), np.zeros(len(equal.value))
        matrix = np.vstack([rows.in_y.toarray()[active], equal.in_y.toarray(), -equal.in_y.toarray()])
        if len(matrix) and np.all(np.isfinite(matrix)) and len(matrix) <= 1000:
            from scipy.optimize import nnls

            found, _ = nnls(matrix.T, -self._slope(x, y, p))
            n_equal = len(equal.value)
            multipliers[0][active] = found[: len(active)]
            multipliers[1][:] = (
                found[len(active) : len(active) + n_equal] - found[len(active) + n_equal :]
            )
        duals = [np.zeros(constraint.size) for constraint in model.lower_constraints]
        for kind, values in zip((model.lower_in, model.lower_eq), multipliers, strict=True):
            for position, where in kind.slices.items():
                part = values[where]
                # A cone's dual has more entries than its row; the first is the row's multiplier.
                duals[position][: len(part)] = part
        return [
            np.reshape(dual, constraint.shape, order="F")
            if dual.size == np.prod(constraint.shape)
            else dual
            for dual, constraint in zip(duals, model.lower_constraints, strict=True)
        ]


def _affine_in_y(rows: Rows) -> np.ndarray:
    affine = np.zeros(len(rows), dtype=bool)
    if rows.tape is not None:
        affine[: rows.n_smooth] = polynomial(rows.tape, variable="y", coefficient="x").degree <= 1
    return affine


class _Search:
    """Local searches at one x: the bounds on y there, and the rows that are not bounds."""

    def __init__(
        self, lower: MultistartLower, x: np.ndarray, p: np.ndarray, weight: float, accuracy: float
    ) -> None:
        self.model, self.objective, self.slope = lower.model, lower.objective, lower._slope
        self.x, self.p = x, p
        self.weight, self.accuracy = weight, accuracy
        n = lower.n
        self.low, self.high = np.full(n, -np.inf), np.full(n, np.inf)
        self.general: list[np.ndarray] = []
        self.kinds = (self.model.lower_in, self.model.lower_eq)
        for rows, affine, is_equality in zip(
            self.kinds, lower.rows_in_single_variables, (False, True), strict=True
        ):
            self.general.append(self._read_bounds(rows, affine, is_equality))
        self.bounds = list(zip(self.low, self.high, strict=True))

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
        return bool(len(self.general[0]) or len(self.general[1]))

    def value(self, y: np.ndarray) -> float:
        value = self.weight * float(self.objective(self.x, y, self.p)[0])
        return value if np.isfinite(value) or value == -np.inf else np.inf

    def is_feasible(self, y: np.ndarray) -> bool:
        """Whether y satisfies the rows that are not bounds; the bounds hold by construction."""
        if not np.all(np.isfinite(y)):
            return False
        if not self.has_rows:
            return True
        inside, on = self._values(0, y), self._values(1, y)
        worst = max(inside.max(initial=0), np.abs(on).max(initial=0))
        return bool(worst <= FEASIBLE * (1 + np.abs(y).max(initial=0)))

    def descend(self, start: np.ndarray) -> tuple[np.ndarray, int]:
        """One local search; returns its end and the number of steps."""
        if not self.has_rows:
            return self._minimise_in_box(self._value_and_slope, start)
        if start.size <= MAX_SLSQP:
            return self._slsqp(start)
        return self._augmented_lagrangian(start)

    def _value_and_slope(self, y: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = self.value(y), self.weight * self.slope(self.x, y, self.p)
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            return LARGE, np.zeros(y.size)
        return value, slope

    def _minimise_in_box(
        self, function: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray
    ) -> tuple[np.ndarray, int]:
        options = {"maxiter": 1000, "maxcor": 20, "ftol": 1e-15, "gtol": min(1e-9, self.accuracy)}
        from scipy.optimize import minimize

        found = minimize(
            function, start, jac=True, method="L-BFGS-B", bounds=self.bounds, options=options
        )
        return np.asarray(found.x, float), int(found.nit)

    def _values(self, kind: int, y: np.ndarray) -> np.ndarray:
        """The rows that are not bounds: inequalities (0) or equalities (1)."""
        if len(self.general[kind]) == 0:
            return np.empty(0)
        return self.kinds[kind].values(self.x, y, self.p)[self.general[kind]]

    def _jacobian(self, kind: int, y: np.ndarray) -> np.ndarray:
        if len(self.general[kind]) == 0:
            return np.empty((0, y.size))
        slopes = self.kinds[kind].dense_jacobian(self.x, y, self.p)
        return slopes[self.general[kind], self.x.size :]

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
        found = minimize(
            self._value_and_slope,
            start,
            jac=True,
            method="SLSQP",
            bounds=self.bounds,
            constraints=parts,
            options={"maxiter": 150, "ftol": 1e-13},
        )
        return np.clip(np.asarray(found.x, float), self.low, self.high), int(found.nit)

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
            inside, on = self._values(0, y), self._values(1, y)
            worst = max(inside.max(initial=0), np.abs(on).max(initial=0))
            if worst <= FEASIBLE / 10 * (1 + np.abs(y).max(initial=0)):
                break
            pressure = np.maximum(pressure + penalty * inside, 0.0)
            pull = pull + penalty * on
            if worst > 0.25 * last:
                penalty *= 5.0
            last = worst
        return y, steps
