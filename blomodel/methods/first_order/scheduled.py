"""Loops whose settings change with the iterations: schedules are put in place between iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from blomodel.methods.run.schedules import changes, value_at

PAPER, DEFAULT = "paper", "default"
VARIANTS = (DEFAULT, PAPER)


class Scheduled:
    """A loop of which some settings follow schedules.

    A loop without any is called as it is, for many iterations at once; with one it is called for one
    iteration after another. Compiled loops read their settings when they are called, so that there is
    nothing that a loop must know of schedules.

    Attributes
    ----------
    done : int
        Iterations done, which is what schedules count.
    """

    done: int

    def __init__(
        self, loop: Callable[[int], float], settings: np.ndarray, given: Mapping[int, Any]
    ) -> None:
        self._loop, self._settings = loop, settings
        self._changing: dict[int, Callable[[int], float]] = {
            place: setting for place, setting in given.items() if changes(setting)
        }
        self.done = 0
        self._put()

    def __call__(self, n: int) -> float:
        """Do n iterations; returns the last residual."""
        if not self._changing:
            self.done += n
            return self._loop(n)
        residual = float("inf")
        for _ in range(n):
            self._put()
            residual = self._loop(1)
            self.done += 1
        return residual

    def _put(self) -> None:
        for place, schedule in self._changing.items():
            self._settings[place] = value_at(schedule, self.done)
