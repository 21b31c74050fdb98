"""Grid search, random search and TPE: the value of f at the lower answer of many x."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from blomodel.basics.alarm import enter_shelter, leave_shelter
from blomodel.methods.requirements.needs import few_upper_variables
from blomodel.methods.run.capabilities import EVERYTHING, Assumption, Capability, Extra
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run

OPTUNA = Extra("tpe", "Optuna, whose sampler it is", ("optuna",))

Found = tuple[float, np.ndarray, np.ndarray]  # value, x, y

KEPT = 3  # points of each list proposed at the end
CLEAN = 1e-10  # violations below this are rounding
BATCH = 50  # points that count as one step of the history


class Search:
    """Evaluates f(x, y(x)) point by point and remembers the best allowed points."""

    run: Run
    name: str

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
        begin = 0
        while begin < len(points):
            # Points count as iterations, so that a limit may end a batch before it is full.
            left = (self.run.max_iterations or np.inf) - self.run.iterations
            batch = points[begin : begin + int(max(min(BATCH, left), 1))]
            begin += len(batch)
            for x in batch:
                self.run.check_limits()
                self.look(np.ascontiguousarray(x))
            figure = self.best[0][0] if self.best else np.nan
            self.run.step(count=len(batch), value=figure)

    def look(self, x: np.ndarray) -> float | None:
        """The value at one x; None where it has no lower answer, or one that is not allowed."""
        run, model = self.run, self.run.model
        answer, _ = run.solve_lower(x, self._near)
        run.evaluations += 1
        run.tried.append((x, answer.status))
        if not answer.status.has_point:
            return None
        self._near = answer.y
        value = float(model.f(x, answer.y, run.p)[0])
        violation = run.violation(x, answer.y)
        if not np.isfinite(value) or violation > run.tolerance:
            return None
        if violation <= CLEAN and (not self._clean or value < self._clean[0][0]):
            run.offer(x, answer.y, self.name, answer, value)  # at once, for those who look on
        for found in (self.best, self._clean) if violation <= CLEAN else (self.best,):
            if len(found) == KEPT and value >= found[-1][0]:
                continue
            found.append((value, x, np.array(answer.y)))
            found.sort(key=lambda entry: entry[0])
            del found[KEPT:]
        return value

    def finish(self) -> None:
        """Propose the best points."""
        for _, x, y in [*self._clean, *self.best]:
            self.run.propose(x, y, self.name)


@method
@dataclass(frozen=True, kw_only=True)
class GridSearch:
    """A regular grid, then finer ones around its best point."""

    name: ClassVar[str] = "grid-search"
    summary: ClassVar[str] = "f at the lower answer on a grid of x, refined around the best"
    assumes: ClassVar[str] = "few upper variables; a lower level that can be solved at fixed x"
    claims: ClassVar[str] = "the best of the points looked at"
    reference: ClassVar[str] = "baseline of hyper-parameter tables; see Bergstra and Bengio (2012)"
    costs: ClassVar[str] = "one lower solve for each point; n points for each axis make n^d of them"
    capabilities: ClassVar[frozenset[Capability]] = EVERYTHING
    assumptions: ClassVar[frozenset[Assumption]] = frozenset()
    needs: ClassVar[tuple[Need, ...]] = (few_upper_variables,)

    n_points: int = setting(400, "points of each grid, over all variables together", minimum=2)
    refinements: int = setting(6, "finer grids around the best point", minimum=0, own=True)

    def run(self, run: Run) -> None:
        """Search; the points seen until a limit is reached count."""
        search = Search(run, self.name)
        low, high = search.box()
        per_side = int(self.n_points ** (1 / low.size) + 1e-9)
        first, last = low, high
        try:
            for _ in range(self.refinements + 1):
                sides = [np.linspace(a, b, per_side) for a, b in zip(first, last, strict=True)]
                grid = itertools.product(*sides)
                while batch := list(itertools.islice(grid, BATCH)):  # all at once would take long
                    search.evaluate(np.array(batch))
                if not search.best:
                    break
                center, cell = search.best[0][1], (last - first) / (per_side - 1)
                # Half the range at least: a coarse grid may have missed the cell of the minimum.
                reach = np.minimum(np.maximum(1.5 * cell, 0.02 * (last - first)), (last - first) / 3)
                first, last = np.maximum(center - reach, low), np.minimum(center + reach, high)
                if np.all(last - first <= 1e-9 * (1 + np.abs(center))):
                    break
        finally:
            search.finish()


@method
@dataclass(frozen=True, kw_only=True)
class RandomSearch:
    """Independent uniform points in the box, the start among them."""

    name: ClassVar[str] = "random-search"
    summary: ClassVar[str] = "f at the lower answer at uniformly random x"
    assumes: ClassVar[str] = "a lower level that can be solved at fixed x"
    claims: ClassVar[str] = "the best of the points looked at"
    reference: ClassVar[str] = "Bergstra and Bengio (2012)"
    costs: ClassVar[str] = "one lower solve for each point"
    capabilities: ClassVar[frozenset[Capability]] = EVERYTHING
    assumptions: ClassVar[frozenset[Assumption]] = frozenset()
    needs: ClassVar[tuple[Need, ...]] = ()

    n_points: int = setting(2000, "points to look at", minimum=1)

    def run(self, run: Run) -> None:
        """Search; the points seen until a limit is reached count."""
        search = Search(run, self.name)
        low, high = search.box()
        random = np.random.default_rng(run.seed)
        try:
            for begin in range(0, self.n_points, BATCH):  # drawing all at once takes seconds
                count = min(BATCH, self.n_points - begin)
                points = low + random.random((count, low.size)) * (high - low)
                if begin == 0 and run.start is not None:
                    points[0] = np.clip(run.start[0], low, high)
                search.evaluate(points)
        finally:
            search.finish()


@method
@dataclass(frozen=True, kw_only=True)
class TreeParzenSearch:
    r"""The tree-structured Parzen estimator, by Optuna's sampler; only x is sampled.

    The x looked at so far are divided into the good and the rest; densities :math:`l(x)` and
    :math:`h(x)` are fitted to either, and of some draws from l the one with the largest
    :math:`l(x) / h(x)` comes next, which maximises the expected improvement (section 4 of the
    reference). The lower level is solved exactly at each x.
    """

    name: ClassVar[str] = "tpe"
    summary: ClassVar[str] = "f at the lower answer at x that a tree of Parzen estimators proposes"
    assumes: ClassVar[str] = (
        "a lower level that can be solved at fixed x; bounds on x that mean something"
    )
    claims: ClassVar[str] = "the best of the points looked at"
    reference: ClassVar[str] = "Bergstra, Bardenet, Bengio and Kegl (2011)"
    costs: ClassVar[str] = "one lower solve for each point, and Optuna's sampling, which grows with them"
    capabilities: ClassVar[frozenset[Capability]] = EVERYTHING
    assumptions: ClassVar[frozenset[Assumption]] = frozenset()
    needs: ClassVar[tuple[Need, ...]] = ()
    packages: ClassVar[tuple[Extra, ...]] = (OPTUNA,)

    n_points: int = setting(200, "points to look at", minimum=1)
    n_random: int = setting(
        10, "points drawn at random before the estimator begins", minimum=1, own=True
    )

    def run(self, run: Run) -> None:
        """Search; the points seen until a limit is reached count."""
        search = Search(run, self.name)
        low, high = search.box()
        try:
            with _quiet_optuna() as optuna:
                self._search(run, search, optuna, low, high)
        finally:
            search.finish()

    def _search(self, run: Run, search: Search, optuna: Any, low: np.ndarray, high: np.ndarray) -> None:
        sampler = optuna.samplers.TPESampler(seed=run.seed, n_startup_trials=self.n_random)
        study = optuna.create_study(direction="minimize", sampler=sampler)
        ranges = {
            str(i): optuna.distributions.FloatDistribution(a, b)
            for i, (a, b) in enumerate(zip(low, high, strict=True))
        }
        if run.start is not None:
            first = np.clip(run.start[0], low, high)
            study.enqueue_trial({name: float(value) for name, value in zip(ranges, first, strict=True)})
        for _ in range(self.n_points):
            run.check_limits()
            trial = study.ask(ranges)
            value = search.look(np.array([trial.params[name] for name in ranges]))
            if value is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, value)
            run.step(count=1, value=search.best[0][0] if search.best else np.nan)


@contextmanager
def _quiet_optuna() -> Iterator[Any]:
    """Optuna, which tells of every study on the standard error stream otherwise."""
    enter_shelter()  # an import that a time limit stops half-way can never be done again
    try:
        import optuna
        import optuna.samplers
    finally:
        leave_shelter()
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield optuna
    finally:
        optuna.logging.set_verbosity(verbosity)
