"""Shared by grid and random search: the value of f at the lower answer of many x."""

from __future__ import annotations

import numpy as np

from blomodel.methods.run import Run

Found = tuple[float, np.ndarray, np.ndarray]  # value, x, y

KEPT = 3  # points of each list proposed at the end
CLEAN = 1e-10  # violations below this are rounding
BATCH = 50  # points that count as one step of the history


class Search:
    """Evaluates f(x, y(x)) point by point and remembers the best allowed points."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self.name = run, name
        self.best: list[Found] = []
        self._clean: list[Found] = []  # the best that violate nothing at all
        self._near = np.zeros(run.model.y.size)
        if run.start is not None and run.start[1] is not None:
            self._near = run.start[1]

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on x; an open side is closed at some distance from the start."""
        run = self.run
        low, high = run.model.bounds(run.p)
        if np.all(np.isfinite(low)) and np.all(np.isfinite(high)):
            return low, high
        center = np.zeros(low.size) if run.start is None else run.start[0]
        center = np.clip(center, low, high)
        reach = 5.0 * (1 + np.abs(center))
        run.note(f"{self.name}: x has open sides; searched within {reach.max():g} of the start")
        return (
            np.where(np.isfinite(low), low, center - reach),
            np.where(np.isfinite(high), high, center + reach),
        )

    def evaluate(self, points: np.ndarray) -> None:
        """Look at many x, one to a row."""
        for begin in range(0, len(points), BATCH):
            batch = points[begin : begin + BATCH]
            for x in batch:
                self.run.check_limits()
                self._look(np.ascontiguousarray(x))
            figure = self.best[0][0] if self.best else np.nan
            self.run.step(count=len(batch), value=figure)

    def _look(self, x: np.ndarray) -> None:
        run, model = self.run, self.run.model
        answer, _ = model.solve_lower(x, run.p, self._near)
        run.evaluations += 1
        run.tried.append((x, answer.status))
        if not answer.status.has_point:
            return
        self._near = answer.y
        value = float(model.f(x, answer.y, run.p)[0])
        violation = run.violation(x, answer.y)
        if not np.isfinite(value) or violation > run.tolerance:
            return
        for found in (self.best, self._clean) if violation <= CLEAN else (self.best,):
            if len(found) == KEPT and value >= found[-1][0]:
                continue
            found.append((value, x, np.array(answer.y)))
            found.sort(key=lambda entry: entry[0])
            del found[KEPT:]

    def finish(self) -> None:
        """Propose the best points."""
        for _, x, y in [*self._clean, *self.best]:
            self.run.propose(x, y, self.name)
