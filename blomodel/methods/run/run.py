"""One run of a method: limits, history, and every candidate point found on the way."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from blomodel.basics import limits
from blomodel.basics.alarm import Disturbance
from blomodel.basics.deadline import NEVER, Deadline, end_of_work, ending
from blomodel.compiler.expressions.integers import distance_to_integers
from blomodel.compiler.passes.intervals import intervals
from blomodel.methods.run.findings import Candidate, Control, Findings, Standing
from blomodel.methods.run.journal import Journal
from blomodel.methods.run.stopping import StopRule
from blomodel.model.flat_lower import loss_in_own_units
from blomodel.model.model import Model
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.choice import NO_PREFERENCE, SolverChoice
from blomodel.structure.sets import SimpleSet, simple_set

Made = TypeVar("Made")
OPTIMALITY_GAP = 1e-4  # where the user says nothing
RUNAWAY = 1e12  # entries of x beyond which no lower answer can be told from rounding
UNBOUNDED = "f falls without limit"  # why a run ends that has seen enough
EXACT = 1e-12  # relative lower gaps below this are rounding


class StopRun(Disturbance, Exception):  # a signal, not an error
    """Raised inside a method when a limit is reached; the candidates found so far are kept."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class Run(Findings):
    """What a method is given and what it leaves behind."""

    model: Model
    p: np.ndarray
    start: tuple[np.ndarray, np.ndarray | None] | None
    tolerance: float
    seed: int
    optimality_gap: float = OPTIMALITY_GAP  # relative, between value and bound
    deadline: Deadline = NEVER
    max_iterations: int | None = None
    n_jobs: int = 1
    progress: Callable[[int, Mapping[str, float], Standing], None] | None = None  # told of every step
    control: Control = field(default_factory=Control)  # shared by all parts
    history_every: int | None = None  # iterations from one row of the history to the next
    stop_rule: StopRule | None = None  # of the method's own settings
    watched: tuple[np.ndarray, np.ndarray] | None = None
    next_gap: int = 1  # iterations after which the gap of the watched point is measured next
    began: float = field(default_factory=time.perf_counter)
    solver: SolverChoice = NO_PREFERENCE  # which inner solver the user prefers
    look_out: Callable[[Run, float], None] | None = None  # told of every value; may end the run
    journal: Journal | None = None  # of compiled loops, where the run may be resumed
    time_before: float = 0.0  # seconds of the run that this one resumes
    family: str = ""  # of the step of a portfolio that is at work
    activity: str = ""  # what is being tried, for a person
    _made: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)  # see ``once``
    _best_of: tuple[int, Candidate | None] = field(default=(0, None), init=False, repr=False)
    _first: list[Candidate] = field(default_factory=list, init=False, repr=False)  # of those looked at

    def anew(self, **changes: Any) -> Run:
        """A run under what is left of the limits, which has found nothing yet.

        Parameters
        ----------
        **changes
            Fields that differ, such as ``model`` and ``start``.
        """
        found = {part.name for part in fields(Findings)}
        own = [part.name for part in fields(Run) if part.init and part.name not in found]
        given = {name: getattr(self, name) for name in own}
        if self.max_iterations is not None:
            given["max_iterations"] = self.max_iterations - self.iterations
        return Run(**(given | {"watched": None, "next_gap": 1} | changes))

    def on(self, model: Model, start: tuple[np.ndarray, np.ndarray | None] | None) -> Run:
        """A run of an equivalent model under the same limits, which has found nothing yet."""
        return self.anew(model=model, start=start)

    @contextmanager
    def part(self, start: tuple[np.ndarray, np.ndarray | None]) -> Iterator[Run]:
        """A part of this run with its own start and watched point; what it finds, this run has found."""
        part = copy.copy(self)
        part.start, part.watched = start, None
        try:
            yield part
        finally:
            for name in (*(each.name for each in fields(Findings)), "next_gap"):
                setattr(self, name, getattr(part, name))

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """No longer than so many seconds; a part that meets this limit ends, and the run goes on."""
        whole = self.deadline
        self.deadline = whole.earlier(seconds)
        try:
            with ending(min(self.deadline, end_of_work())):
                yield
        except StopRun:
            if whole.is_over or self.deadline == whole or not self.deadline.is_over:
                raise
        finally:
            self.deadline = whole

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` gives, made once in this run and shared by the parts of a method."""
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made

    def forget(self, but: Collection[Hashable] = ()) -> None:
        """Have everything made anew when it is next asked for, except what lies under some keys."""
        self._made = {key: made for key, made in self._made.items() if key in but}

    def known(self, key: Hashable) -> Any:
        """What ``once`` has made under a key; None where nothing was."""
        return self._made.get(key)

    @property
    def x_set(self) -> SimpleSet:
        """What the upper constraints on x alone allow; raises NotProjectable."""
        return self.once("X", lambda: simple_set(self.model, "x", self.p))

    @property
    def y_set(self) -> SimpleSet:
        """What the lower constraints on y alone allow; raises NotProjectable."""
        return self.once("Y", lambda: simple_set(self.model, "y", self.p))

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self.began

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return self.deadline.remaining

    @property
    def time_limit(self) -> float | None:
        """Seconds from the beginning to the deadline; None without one."""
        return None if self.deadline.is_never else self.deadline.at - self.began

    def solve_lower(self, x: np.ndarray, near: np.ndarray) -> tuple[Answer, bool]:
        """The lower answer at x before the deadline, and whether it is proven: see Model."""
        if self.journal is not None and self.journal.present is not None:
            self.journal.present.asked.append((np.array(x), np.array(near)))
        return self.model.solve_lower(x, self.p, near, deadline=self.deadline)

    def check_limits(self) -> None:
        """Raise StopRun when the time is over or the iterations are used up."""
        if self.control.stopped_by is not None:
            raise StopRun(self.control.stopped_by)
        if self.remaining <= 0:
            raise StopRun("time limit")
        if self.max_iterations is not None and self.iterations >= self.max_iterations:
            raise StopRun("iteration limit")

    def watch(self, x: np.ndarray, y: np.ndarray) -> None:
        """Look at these arrays, which a compiled loop moves, at every step to come."""
        self.watched = (x, y)

    def step(self, count: int = 1, *, x: np.ndarray | None = None, **figures: float) -> None:
        """Count one iteration (or a slice of many), keep its figures, and stop at the limits."""
        is_due = self.is_due(count)
        self.count(count)
        y: np.ndarray | None = None
        if self.watched is not None:
            here, y = self.watched
            if x is None:
                x = here if limits.WATCHED_POINT.allows(here.size) or self._keeps(here) else None
            if "value" not in figures:
                figures["value"] = float(self.model.f(here, y, self.p)[0])
        if is_due:
            is_asked_for = self.history_every is not None and self.watched is not None
            if self.watched is not None and is_asked_for:
                figures["lower_value"] = float(self.model.g(*self.watched, self.p)[0])
            self._keep_row(x, y if y is not None and self._keeps(y) else None, figures)
        if self.progress is not None:
            self.progress(self.iterations, figures, self.standing)
        if self.stop_rule is not None and self.stop_rule.is_met(self, x, figures):
            raise StopRun("its stop rule")
        self.check_limits()
        if self.look_out is not None:
            self.look_out(self, figures.get("value", np.nan))

    def is_due(self, count: int) -> bool:
        """Whether so many further iterations reach the next row of the history."""
        every = self.history_every
        return every is None or (self.iterations + count) // every > self.iterations // every

    def _keeps(self, point: np.ndarray) -> bool:
        """Whether the history has room for one more such point, where every one is asked for."""
        n_rows = len(self.path) + 1
        return self.history_every is not None and limits.ASKED_HISTORY.allows(n_rows * point.size)

    def _keep_row(
        self, x: np.ndarray | None, y: np.ndarray | None, figures: Mapping[str, float]
    ) -> None:
        for path, point in ((self.path, x), (self.path_below, y)):
            path.append(None if point is None else np.array(point, dtype=float))
        n_before = len(self.history["time"])
        now = self.time_before + self.elapsed
        for name, figure in {"time": now, "iteration": self.iterations, **figures}.items():
            column = self.history[name]
            # Parts of a method that came before may not have had this figure.
            column.extend([np.nan] * (n_before - len(column)))
            column.append(float(figure))

    @property
    def standing(self) -> Standing:
        """Incumbent, bound and what is being tried."""
        best = self.best()
        value = None if best is None else best.value
        return Standing(value, self.bound, self.activity, best, self.model)

    def record(self) -> dict[str, np.ndarray]:
        """The history as arrays with a row for each step, NaN where a step lacks a figure."""
        n_steps = len(self.history["time"])
        columns = {
            name: np.array([*column[:n_steps], *[np.nan] * (n_steps - len(column))])
            for name, column in self.history.items()
        }
        for name, path in (("x", self.path), ("y", self.path_below)):
            known = [point for point in path[:n_steps] if point is not None]
            if known:
                unknown = np.full(known[0].size, np.nan)
                columns[name] = np.array([unknown if p is None else p for p in path[:n_steps]])
        return columns

    @property
    def findings(self) -> Findings:
        """What was found, without the model."""
        return Findings(**{part.name: getattr(self, part.name) for part in fields(Findings)})

    def absorb(self, other: Findings) -> None:
        """Take over what a run of the same problem found elsewhere; stop if it met a limit."""
        n_before = len(self.history["time"])
        for name, figures in other.history.items():
            column = self.history[name]
            column.extend([np.nan] * (n_before - len(column)))
            earlier = self.iterations if name == "iteration" else 0
            column.extend(figure + earlier for figure in figures)
        self.add(other)
        for note in other.notes:
            self.note(note)
        self.raise_bound(other.bound, other.bound_source, other.bound_slack, is_lowered=True)
        if other.stopped_by is not None:
            raise StopRun(other.stopped_by)

    def note(self, text: str) -> None:
        """Keep a remark for the report."""
        if text not in self.notes:
            self.notes.append(text)

    def propose(
        self,
        x: np.ndarray,
        y: np.ndarray,
        source: str,
        answer: Answer | None = None,
        value: float | None = None,
    ) -> Candidate:
        """Measure a point and keep it; ``answer`` of the lower level and ``value`` of f, if known."""
        candidate = self.measure(x, y, source, answer, value)
        self.keep(candidate)
        return candidate

    def offer(
        self,
        x: np.ndarray,
        y: np.ndarray,
        source: str,
        answer: Answer | None = None,
        value: float | None = None,
    ) -> Candidate | None:
        """Keep a lower answer at once if it is better than all points before; cheap where it is not."""
        value = float(self.model.f(x, y, self.p)[0]) if value is None else value
        best = self.best()
        if not np.isfinite(value) or (best is not None and value >= best.value - EXACT * abs(value)):
            return None
        return self.propose(x, y, source, answer, value)

    def keep(self, candidate: Candidate) -> None:
        """Remember a candidate for the end of the run."""
        if np.isfinite(candidate.value):
            self.candidates.append(candidate)

    def refute(self, candidate: Candidate, gap: float) -> None:
        """Tell that the lower level has a better answer at a candidate's x than was known."""
        self.candidates[:] = [each for each in self.candidates if each is not candidate]
        self.candidates.append(replace(candidate, gap=gap, bias=np.inf))
        self._best_of = (0, None)

    def measure(
        self,
        x: np.ndarray,
        y: np.ndarray,
        source: str,
        answer: Answer | None = None,
        value: float | None = None,
    ) -> Candidate:
        """Value, violation and lower gap of a point; the lower level is asked if need be."""
        model, p = self.model, self.p
        # An answer on known active rows is exact, and its value is g there.
        is_exact = answer is not None and answer.y is y and answer.active is not None
        x, y = np.array(x, dtype=float), np.array(y, dtype=float)
        if answer is None or answer.status is not InnerStatus.OPTIMAL:
            answer, _ = self.solve_lower(x, y)
        self.tried.append((x, answer.status))
        gap, bias, violation, seen = np.inf, np.inf, self.violation(x, y), 0.0
        if answer.status.has_point and np.abs(x).max(initial=0.0) <= RUNAWAY:
            gap = 0.0
            if not is_exact:
                gap = (float(model.g(x, y, p)[0]) - answer.value) / (1 + abs(answer.value))
                # Only the measure of what is seen counts here, and not what may be bought by it.
                seen = loss_in_own_units(model, x, y, answer.y, p, self.tolerance)
            # An absolute gap of eps lets y move by about sqrt(eps), a violation of eps lets the point
            # move by eps, and f by its slope times that.
            move = np.sqrt(max(gap - EXACT, 0.0) * (1 + abs(answer.value))) + violation
            bias = 3.0 * float(np.linalg.norm(model.f_grad(x, y, p))) * move if move > 0 else 0.0
            gap = max(gap, seen)
        return Candidate(
            x=x,
            y=y,
            value=float(model.f(x, y, p)[0]) if value is None else value,
            violation=violation,
            gap=gap,
            bias=bias,
            source=source,
            family=self.family,
        )

    def violation(self, x: np.ndarray, y: np.ndarray) -> float:
        """Largest violation of any row of either level, relative to the size of the point."""
        model, p = self.model, self.p
        scale = 1 + max(np.abs(x).max(initial=0), np.abs(y).max(initial=0))
        worst = 0.0
        for rows in (model.upper_in, model.lower_in):
            worst = max(worst, rows.values(x, y, p).max(initial=0))
        for rows in (model.upper_eq, model.lower_eq):
            worst = max(worst, np.abs(rows.values(x, y, p)).max(initial=0))
        worst /= scale
        if model.has_integers:  # a whole number is no less whole for being large
            worst = max(worst, distance_to_integers(x, model.integer_x))
            worst = max(worst, distance_to_integers(y, model.integer_y))
        return worst

    def is_acceptable(self, candidate: Candidate) -> bool:
        """Whether a candidate is bilevel feasible within the tolerance."""
        return candidate.error <= self.tolerance

    @cached_property
    def least_value(self) -> float:
        """What f cannot fall below by its formula and the bounds on single variables; may be -inf."""
        model, p = self.model, self.p
        ranges = {"x": model.bounds(p), "y": model.y_bounds, "p": (p, p)}
        return float(intervals(model.f, ranges)[0][0])

    def reaches_least_value(self, value: float) -> bool:
        """Whether no point at all has a better upper objective than this, within the tolerance."""
        least = self.least_value
        return bool(np.isfinite(least) and value <= least + self.tolerance * (1 + abs(least)))

    def best(self) -> Candidate | None:
        """The best acceptable candidate."""
        # Asked for at every evaluation, so that only candidates that came since are looked at.
        seen, known = self._best_of
        is_same_list = seen <= len(self.candidates) and self.candidates[:1] == self._first
        if not is_same_list:
            seen, known = 0, None
        for candidate in self.candidates[seen:]:
            is_better = known is None or candidate.cautious_value < known.cautious_value
            if is_better and self.is_acceptable(candidate):
                known = candidate
        self._best_of, self._first = (len(self.candidates), known), self.candidates[:1]
        return known

    @property
    def is_proven(self) -> bool:
        """Whether the best point reaches the bound."""
        best, bound = self.best(), max(self.bound, self.least_value)
        return best is not None and best.value <= bound + self.tolerance * (1 + abs(best.value))

    def best_of_families(self) -> dict[str, float]:
        """The best acceptable value that each family of steps has reached."""
        values: dict[str, float] = {}
        for candidate in filter(self.is_acceptable, self.candidates):
            if candidate.family:
                known = values.get(candidate.family, np.inf)
                values[candidate.family] = min(known, candidate.cautious_value)
        return values

    def ranking(self) -> list[Candidate]:
        """Acceptable candidates by value, then the others by how wrong they are."""
        good = sorted(filter(self.is_acceptable, self.candidates), key=lambda c: c.cautious_value)
        rest = sorted((c for c in self.candidates if not self.is_acceptable(c)), key=lambda c: c.error)
        return [*good, *rest]
