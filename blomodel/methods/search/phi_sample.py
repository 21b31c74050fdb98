"""phi(x) = f at the lower answer that suits the upper level best, looked at point by point.

No flat region, kink or jump misleads a look, since no derivative is asked for.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blomodel.methods.run.run import Run
from blomodel.methods.run.scales import Scale, find_scales
from blomodel.methods.run.starts import has_only_bounds, nearest_allowed
from blomodel.methods.search.pieces import optimistic_candidate

SOURCE = "sample of phi"
TESTED = 4  # looks at which the choice among lower answers is tried
CHOICE_PAYS = 1e-3  # relative difference in f that says that the lower level leaves a choice
CLEAN = 1e-9  # violation of upper rows, relative to the point, that a look may have


@dataclass(frozen=True, eq=False)
class Look:
    """phi at one x.

    Attributes
    ----------
    x, y : array
        y is the lower answer; not a number where there is none.
    value : float
        f there; infinite where there is no answer.
    excess : float
        The largest upper row, relative to the point: positive where a row is violated.
    """

    x: np.ndarray
    y: np.ndarray
    value: float
    excess: float

    @property
    def is_allowed(self) -> bool:
        """Whether the upper rows hold at the answer."""
        return self.excess <= CLEAN

    @property
    def merit(self) -> float:
        """The value where the upper rows hold, else infinite."""
        return self.value if self.is_allowed else np.inf


class PhiSample:
    """Looks at phi, all of them kept, the best offered to the run at once."""

    run: Run
    looks: list[Look]
    bounds: tuple[np.ndarray, np.ndarray]
    center: np.ndarray
    n_spread: int

    def __init__(self, run: Run) -> None:
        self.run, self.looks = run, list[Look]()
        model = run.model
        self.bounds = model.bounds(run.p)
        center = np.zeros(model.x.size) if run.start is None else run.start[0]
        self.center = np.clip(np.where(np.isfinite(center), center, 0.0), *self.bounds)
        self.scales: list[Scale] = find_scales(self.bounds, self.center)
        self._near = np.zeros(model.y.size)
        if run.start is not None and run.start[1] is not None:
            self._near = run.start[1]
        self._tests, self._has_choice = TESTED, False
        if not model.is_convex_below or model.is_strictly_convex_below():
            self._tests = 0
        self._known: dict[bytes, Look] = {}
        self.n_spread = 0  # points of the sequence used so far

    @cached_property
    def _has_box(self) -> bool:
        return has_only_bounds(self.run) or not self._has_rows_without_y

    @cached_property
    def _has_rows_without_y(self) -> bool:
        """Whether an upper row besides bounds holds x alone."""
        model = self.run.model
        y_free = len(model.upper_constraints) - len(model.coupling_constraints)
        n_bounds = sum(int(np.isfinite(side).sum()) for side in self.bounds)
        return y_free > 0 and len(model.upper_in) + len(model.upper_eq) > n_bounds

    # -- points ------------------------------------------------------------------------------

    def corners(self) -> np.ndarray:
        """The center, the middle, and the corners of the range."""
        ends = [(scale.low, scale.high) for scale in self.scales]
        middle = [(low + high) / 2 for low, high in ends]
        return np.array([self.center, middle, *itertools.product(*ends)])

    def spread(self, count: int) -> np.ndarray:
        """The next points of a sequence that fills the range evenly and over orders of magnitude."""
        n = len(self.scales)
        first, self.n_spread = self.n_spread, self.n_spread + count
        if n == 1:
            share = _between(first, count)[:, None]
        else:
            from scipy.stats import qmc

            sequence = qmc.Halton(n, scramble=False)
            sequence.fast_forward(first + 1)
            share = sequence.random(count)
        points = np.empty_like(share)
        # Each variable draws its own scale, so that all pairs of scales occur everywhere.
        is_even = np.random.default_rng(first).random((count, n)) < 0.5
        if n == 1:
            is_even[:, 0] = (first + np.arange(count)) % 2 == 0  # both, for each share
        for column, scale in enumerate(self.scales):
            points[:, column] = np.where(
                is_even[:, column], scale.even(share[:, column]), scale.by_magnitude(share[:, column])
            )
        return points

    # -- looks -------------------------------------------------------------------------------

    def look_at(self, points: np.ndarray) -> list[Look]:
        """Look at many x, moved to where the rows in x alone hold."""
        found = []
        for wish in points:
            self.run.check_limits()
            x = np.clip(wish, *self.bounds)
            if not self._has_box:
                nearest = nearest_allowed(self.run, x)
                if nearest is None:
                    continue
                x = np.clip(nearest[0], *self.bounds)
            found.append(self.look(x))
        best = self.best()
        if found:
            self.run.step(
                count=1, value=np.nan if best is None else best.value, x=None if best is None else best.x
            )
        return found

    def look(self, x: np.ndarray) -> Look:
        """phi at x."""
        x = np.array(x, dtype=float)
        key = x.tobytes()
        if key in self._known:
            return self._known[key]
        run, model = self.run, self.run.model
        run.check_limits()
        answer, _ = run.solve_lower(x, self._near)
        run.evaluations += 1
        run.tried.append((x, answer.status))
        if not answer.status.has_point:
            return self._keep(Look(x, np.full(model.y.size, np.nan), np.inf, np.inf))
        found = self.measure(x, answer.y)
        if self._has_choice or self._tests > 0:
            found = self._choose(found)
        self._near = answer.y
        return self._keep(found)

    def measure(self, x: np.ndarray, y: np.ndarray) -> Look:
        """A look with a given lower answer."""
        model, p = self.run.model, self.run.p
        value = float(model.f(x, y, p)[0])
        size = 1 + max(np.abs(x).max(initial=0), np.abs(y).max(initial=0))
        excess = model.upper_in.values(x, y, p).max(initial=-np.inf)
        excess = max(excess, np.abs(model.upper_eq.values(x, y, p)).max(initial=-np.inf))
        return Look(x, np.array(y), value if np.isfinite(value) else np.inf, excess / size)

    def add(self, look: Look) -> Look:
        """Keep a look that was measured elsewhere, such as one with another lower answer."""
        self.looks.append(look)
        if np.isfinite(look.merit):
            self.run.propose(look.x, look.y, SOURCE)
        return look

    def _keep(self, look: Look) -> Look:
        self.looks.append(look)
        self._known[look.x.tobytes()] = look
        if np.isfinite(look.merit):
            self.run.offer(look.x, look.y, SOURCE)
        return look

    def _choose(self, look: Look) -> Look:
        """The lower answer that suits the upper level best, where some looks differ by that."""
        self._tests -= 1
        chosen = optimistic_candidate(self.run, look.x)
        if chosen is None:
            return look
        other = self.measure(look.x, chosen.y)
        pays = other.value < look.value - CHOICE_PAYS * (1 + abs(look.value))
        pays &= other.excess <= max(look.excess, CLEAN)
        helps = look.excess > CLEAN >= other.excess
        if pays or helps:
            self._has_choice = True
            return other
        return look

    def best(self) -> Look | None:
        """The best look so far."""
        allowed = [look for look in self.looks if np.isfinite(look.merit)]
        return min(allowed, key=lambda look: look.merit) if allowed else None


def _between(first: int, count: int) -> np.ndarray:
    """Shares of [0, 1] that fill it evenly, pair by pair: van der Corput's sequence."""
    numbers = 1 + (first + np.arange(count)) // 2
    share, weight = np.zeros(count), 0.5
    while numbers.any():
        share += weight * (numbers % 2)
        numbers, weight = numbers // 2, weight / 2
    return share
