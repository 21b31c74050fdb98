"""Projected gradient steps on a function of x that a solver evaluates, where it has a value at all.

The papers suppose that the lower level has an answer at every x of X. Where it does not, a step is
projected onto the x with answers, if both levels' constraints are jointly convex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from blomodel.errors import LowerLevelError
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule, value_at
from blomodel.methods.run.starts import nearest_allowed, project_onto_x
from blomodel.methods.search.evaluation import WithStatus

MEMORY = 5  # values below whose highest the next one must be
SHORTEST = 1e-9  # share of a step below which backtracking ends


Found = TypeVar("Found", bound=WithStatus)


class ProjectedDescent(Generic[Found]):
    """Gradient steps of fixed length, or as long as a line search finds good.

    Parameters
    ----------
    evaluate : callable
        The function at x.
    figures : callable
        What the history shall hold of a point beside its value.

    Attributes
    ----------
    last : evaluation or None
        Where the descent stands.
    """

    run: Run
    name: str

    def __init__(
        self,
        run: Run,
        name: str,
        evaluate: Callable[[np.ndarray], Found],
        figures: Callable[[Found], dict[str, float]],
    ) -> None:
        self.run, self.name = run, name
        self._evaluate, self._figures = evaluate, figures
        self.last: Found | None = None
        self._point: tuple[np.ndarray, np.ndarray] | None = None  # which the run watches

    def fixed_steps(self, start: np.ndarray, step: float | Schedule, max_steps: int) -> None:
        """The papers' iteration: x = Proj(x - step * gradient)."""
        here = self._move(self._near(start))
        for k in range(max_steps):
            length = float(value_at(step, k))
            before = here.x
            here = self._move(self._near(here.x - length * here.gradient))
            if self._is_done(here, float(np.abs(here.x - before).max(initial=0)) / length):
                break

    def backtrack(self, start: np.ndarray, first_step: float, max_steps: int) -> None:
        """Steps from the curvature met last (Barzilai and Borwein), shortened until the value falls.

        As in the spectral projected gradient method, it need only fall below the highest of the last
        values, because such steps are long in turns.
        """
        here = self._move(self._near(start))
        step, values = first_step, [here.value]
        for _ in range(max_steps):
            trial = self._near(here.x - step * here.gradient)
            slope = float(np.abs(trial.x - here.x).max(initial=0)) / step
            if self._is_small(here, slope):
                self._is_done(here, slope)
                break
            found = self._shorten(here, trial, max(values[-MEMORY:]))
            if found is None:
                self.run.note(
                    f"{self.name}: no step along the gradient lowers its function, which may have a "
                    "kink here"
                )
                break
            moved, turned = found.x - here.x, found.gradient - here.gradient
            along = float(moved @ turned)
            step = float(moved @ moved) / along if along > 0 else 10 * step
            step = min(max(step, 1e-10), 1e10)
            here = self._move(found)
            values.append(here.value)
            self._is_done(here, slope)

    def _shorten(self, here: Found, trial: Found, level: float) -> Found | None:
        """The first of the halved steps after which the value has fallen below the level."""
        direction, share = trial.x - here.x, 1.0
        slope = min(float(here.gradient @ direction), 0.0)
        while not trial.value <= level + 1e-4 * share * slope:
            share *= 0.5
            if share < SHORTEST:
                return None
            trial = self._at(here.x + share * direction)
        return trial

    def _at(self, x: np.ndarray) -> Found:
        self.run.check_limits()
        found = self._evaluate(x)
        self.run.tried.append((found.x, found.lower_status))
        return found

    def _near(self, x: np.ndarray) -> Found:
        """At the nearest point of X, or of its part in which the lower level has answers."""
        found = self._at(project_onto_x(self.run, x))
        if not np.isfinite(found.value):
            nearest = nearest_allowed(self.run, x)
            if nearest is not None:
                found = self._at(nearest[0])
        return found

    def _move(self, found: Found) -> Found:
        if not np.isfinite(found.value):
            raise LowerLevelError(
                f"{self.name}: the lower level is {found.lower_status.value} at x = {found.x}; start "
                "elsewhere, or use method='auto', which keeps x where it has an answer.",
                found.x,
            )
        self.last = found
        x, y = self._point = self._point or (found.x.copy(), found.y.copy())
        x[:], y[:] = found.x, found.y
        self.run.watch(x, y)
        return found

    def _is_done(self, here: Found, slope: float) -> bool:
        """Count an iteration and keep the figures of its end; whether the slope before it was small."""
        self.run.step(count=1, x=here.x, value=here.value, stationarity=slope, **self._figures(here))
        return self._is_small(here, slope)

    def _is_small(self, here: Found, slope: float) -> bool:
        return bool(slope <= self.run.tolerance * (1 + np.abs(here.x).max(initial=0)))
