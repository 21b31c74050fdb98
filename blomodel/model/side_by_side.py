"""Searches over single elements of y that meet nowhere, all of them in step.

One run of a tape tells the slope of every element, and one of the summands of g (``terms``) what each
element adds to it. So valleys of hundreds of elements are scanned, narrowed down and searched to their
bottoms with as many runs as those of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from blomodel.model.local_search import (
    FAR,
    LOOKS,
    N_ALONE,
    NEARLY_LEAST,
    RADII,
    SCAN_POINTS,
    ZOOMS,
    LocalSearch,
)

if TYPE_CHECKING:
    from blomodel.compiler.tape import Tape

FIRST_STEP = 0.1  # of a descent, relative to 1 and the size of its start
LONGER, SHORTER = 2.0, 0.25  # steps after one that led down, and after one that did not
MOST_STEPS = 200  # of a descent
HALVINGS = 100  # of an interval with a minimum; less than that many reach rounding


class SideBySide:
    """The best point of each of several elements.

    Parameters
    ----------
    whole : LocalSearch
        Over all of y.
    base : array
        All of y: what elements that are not searched are worth meanwhile.
    elements : array of int
        Those that are searched; nothing but bounds restricts them.
    summands : Tape
        What the objective adds up, see ``terms``.
    owners : array of int
        The position among the elements of the one that each summand holds; -1 for others.

    Attributes
    ----------
    points, values : array
        The best point of each element, and what it adds to the objective; infinite: none was found.
    searches : array of int
        Descents of each element.
    steps : int
        Steps of them all.
    """

    points: np.ndarray
    values: np.ndarray
    searches: np.ndarray
    steps: int

    def __init__(
        self,
        whole: LocalSearch,
        base: np.ndarray,
        elements: np.ndarray,
        summands: Tape,
        owners: np.ndarray,
    ) -> None:
        self.whole, self.base, self.elements, self.summands = whole, base, elements, summands
        self.low, self.high = whole.low[elements], whole.high[elements]
        self.is_closed = np.isfinite(self.low) & np.isfinite(self.high)
        mine = np.flatnonzero(owners >= 0)
        shape = (elements.size, owners.size)
        # Each element's own summands alone: those of another may be undefined.
        self._add_up = sp.csr_array((np.ones(mine.size), (owners[mine], mine)), shape=shape)
        self.points, self.values = base[elements].copy(), np.full(elements.size, np.inf)
        self.searches, self.steps = np.zeros(elements.size, dtype=int), 0

    def search(self, given: Sequence[np.ndarray], starts: Sequence[np.ndarray]) -> bool:
        """Search from all points; whether the time allowed it.

        ``given`` are points to compare with and, where bounds are open, to search from; ``starts`` are
        further ones for elements with open bounds.
        """
        is_open = ~self.is_closed
        for start in given:
            self._offer(start, self.is_closed)
        with np.errstate(all="ignore"):
            for start in [*given, *starts] if is_open.any() else []:
                end = self._descend(start, FIRST_STEP * (1 + np.abs(start)), is_open)
                self._offer(end, is_open)
                self._offer(start, is_open)
            is_done = not self.is_closed.any() or self._scan(self._places(given), self.is_closed)
            if is_open.any():
                is_done = is_done and self._scan(self._places_around(), is_open)
        return is_done and not self.whole.deadline.is_over

    def _places(self, given: Sequence[np.ndarray]) -> np.ndarray:
        """Places all the way through closed ranges, and the given points between them."""
        ends = [np.where(self.is_closed, end, self.points) for end in (self.low, self.high)]
        return np.sort(np.vstack([np.linspace(ends[0], ends[1], SCAN_POINTS), *given]), axis=0)

    def _places_around(self) -> np.ndarray:
        """Places around the best points, and to the bounds that there are.

        Where ranges are open, narrow valleys are seen near these points only.
        """
        parts = []
        for radius in RADII:
            reach = radius * (1 + np.abs(self.points))
            ends = [np.clip(self.points + way * reach, self.low, self.high) for way in (-1, 1)]
            if radius == RADII[-1]:
                bounds = (self.low, self.high)
                ends = [np.where(np.isfinite(b), b, e) for b, e in zip(bounds, ends, strict=True)]
            parts.append(np.linspace(ends[0], ends[1], SCAN_POINTS))
        return np.sort(np.vstack(parts), axis=0)

    def _scan(self, places: np.ndarray, mine: np.ndarray) -> bool:
        """Search the valleys that places from left to right show; whether the time allowed it."""
        mine = mine & np.isfinite(self.values) & (np.abs(self.points) <= FAR)
        values = np.pad(self._values(places), ((1, 1), (0, 0)), constant_values=np.inf)
        here = values[1:-1]
        is_valley = (here <= values[:-2]) & (here <= values[2:]) & np.isfinite(here) & mine
        depths = np.where(is_valley, here, np.inf)
        order = np.argsort(depths, axis=0)[: min(N_ALONE, int(is_valley.sum(axis=0).max(initial=0)))]
        gaps = np.pad(np.diff(places, axis=0), ((1, 1), (0, 0)))
        reaches = np.maximum(gaps[:-1], gaps[1:])
        found = []
        for picked in order:
            if self.whole.deadline.is_over:
                return False
            at = picked, np.arange(picked.size)
            bottom, depth = self._valley(places[at], here[at], reaches[at])
            found.append((np.isfinite(depths[at]), reaches[at], bottom, depth))
        least = self.values.copy()
        for is_there, _, _, depth in found:
            least = np.where(is_there, np.minimum(least, depth), least)
        for is_there, reach, bottom, depth in found:
            if self.whole.deadline.is_over:
                return False
            is_near = depth <= least + NEARLY_LEAST * (1 + np.abs(least))
            # At the end of what is seen of an open range, a descent may lead on.
            searched = is_there & (is_near | ~self.is_closed)
            end = self._descend(bottom, reach * (2.0 / (LOOKS - 1)) ** ZOOMS, searched)
            self._offer(end, searched)
            self._offer(bottom, is_there)
        return True

    def _valley(
        self, best: np.ndarray, least: np.ndarray, reach: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The least values within reach of points, by looks that come closer."""
        columns = np.arange(best.size)
        for _ in range(ZOOMS):
            ends = np.maximum(best - reach, self.low), np.minimum(best + reach, self.high)
            places = np.linspace(*ends, LOOKS)
            values = self._values(places)
            lowest = values.argmin(axis=0)
            is_lower = values[lowest, columns] < least
            best = np.where(is_lower, places[lowest, columns], best)
            least = np.where(is_lower, values[lowest, columns], least)
            reach = reach * 2.0 / (LOOKS - 1)
        return best, least

    def _descend(self, start: np.ndarray, step: np.ndarray, mine: np.ndarray) -> np.ndarray:
        """The ends of descents: steps down until the slope turns, then the place where it does.

        An end may lie at a bound, or beyond ``FAR``, where the objective seems to have no least value.
        """
        here, value, slope = start.copy(), self._values(start[None])[0], self._slopes(start)
        down = -np.sign(slope)
        is_moving = mine & np.isfinite(value) & (slope != 0)
        self.searches += mine
        beyond = np.full(here.size, np.nan)  # of slopes that have turned
        for _ in range(MOST_STEPS):
            if not is_moving.any() or self.whole.latest.is_over:
                break
            self.steps += 1
            there = np.where(is_moving, np.clip(here + down * step, self.low, self.high), here)
            is_moving &= there != here
            new, slope = self._values(there[None])[0], self._slopes(there)
            has_turned = is_moving & np.isfinite(new) & (slope * down >= 0)
            beyond = np.where(has_turned, there, beyond)
            is_moving &= ~has_turned
            is_lower = is_moving & (new <= value)
            step = step * np.where(is_lower, LONGER, SHORTER)
            here, value = np.where(is_lower, there, here), np.where(is_lower, new, value)
            is_moving &= (np.abs(here) <= FAR) & (value >= -FAR)
        return self._turning(here, np.where(np.isnan(beyond), here, beyond), down)

    def _turning(self, here: np.ndarray, beyond: np.ndarray, down: np.ndarray) -> np.ndarray:
        """Where slopes turn between two points; the first where they are the same."""
        for _ in range(HALVINGS):
            middle = here + (beyond - here) / 2
            if np.all((middle == here) | (middle == beyond)):
                break
            self.steps += 1
            leads_down = self._slopes(middle) * down < 0
            here, beyond = np.where(leads_down, middle, here), np.where(leads_down, beyond, middle)
        values = self._values(np.stack([here, beyond]))
        return np.where(values[1] < values[0], beyond, here)

    def _offer(self, points: np.ndarray, mine: np.ndarray) -> None:
        """Keep points that are better."""
        found = self._values(points[None])[0]
        is_better = mine & (found < self.values)
        self.points = np.where(is_better, points, self.points)
        self.values = np.where(is_better, found, self.values)

    def _values(self, places: np.ndarray) -> np.ndarray:
        """What each element adds to the objective at each row of places; infinite where undefined."""
        y = np.repeat(self.base[None, :], len(places), axis=0)
        y[:, self.elements] = places
        whole = self.whole
        parts = self.summands.at_each("y", y, whole.x, self.base, whole.p)
        found = whole.weight * np.asarray(self._add_up @ parts.T).T
        return np.where(np.isfinite(found) | (found == -np.inf), found, np.inf)

    def _slopes(self, place: np.ndarray) -> np.ndarray:
        """The slope in each element; zero where it is undefined."""
        y = self.base.copy()
        y[self.elements] = place
        whole = self.whole
        found = whole.weight * whole.slope(whole.x, y, whole.p)[self.elements]
        return np.where(np.isfinite(found), found, 0.0)
