"""What a run leaves behind: candidate points, bounds, history, remarks."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from blomodel.model.model import Model
from blomodel.solvers.answer import InnerStatus

BOUND_SLACK = 1e-8  # relative: what tolerances of linear and convex programs may raise a bound by


def _empty_history() -> dict[str, list[float]]:
    return defaultdict(list)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A point that a method proposes, measured with the method's own functions."""

    x: np.ndarray
    y: np.ndarray
    value: float  # upper objective, minimised
    violation: float  # largest violation of any row, relative to the size of the point
    gap: float  # g(x, y) - v(x), relative to 1 + |v(x)|
    bias: float  # what gap and violation may have bought in the upper objective
    source: str
    family: str = ""  # of the step of a portfolio that found it

    @property
    def cautious_value(self) -> float:
        """The value, less what may come from not being quite feasible or lower-optimal."""
        return self.value + self.bias

    @property
    def error(self) -> float:
        """How far the point is from being bilevel feasible."""
        return max(self.violation, self.gap)


@dataclass(frozen=True)
class Standing:
    """How far a run has come: what is shown while it goes on."""

    value: float | None  # of the best acceptable point
    bound: float  # no feasible point has a smaller upper objective
    activity: str  # what is being tried
    best: Candidate | None = None  # that point
    model: Model | None = None  # whose point it is


@dataclass
class Control:
    """A word from outside that ends a run and all its parts."""

    stopped_by: str | None = None
    # What searches leave open, each under a name that is the same in every run of the problem: told by
    # the search itself, and what an earlier run, which is resumed, has left.
    open_work: dict[str, Callable[[], dict[str, Any] | None]] = field(default_factory=dict)
    earlier: dict[str, dict[str, Any]] = field(default_factory=dict)

    def stop(self) -> None:
        """The user wants an end."""
        self.stopped_by = self.stopped_by or "user"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "open_work": {}}  # searches stay where they are


@dataclass(kw_only=True)
class Findings:
    """What a method leaves behind."""

    iterations: int = 0
    evaluations: int = 0
    history: dict[str, list[float]] = field(default_factory=_empty_history)
    path: list[np.ndarray | None] = field(default_factory=list)  # x at each step, where it is known
    path_below: list[np.ndarray | None] = field(default_factory=list)  # y, where every step is asked for
    candidates: list[Candidate] = field(default_factory=list)
    bound: float = -np.inf  # no feasible point has a smaller upper objective
    bound_source: str = ""
    bound_slack: float = 0.0  # relative: what was taken off for the tolerances of what computed it
    notes: list[str] = field(default_factory=list)
    tried: list[tuple[np.ndarray, InnerStatus]] = field(default_factory=list)
    is_infeasible: bool = False
    is_unbounded: bool = False
    fall: str = ""  # what was seen of f falling without limit; empty where it is proven
    stopped_by: str | None = None
    diverged_at: int | None = None  # iterations after which the method's own point was seen to run away
    is_cut_short: bool = False  # ended in the middle of a computation, not at a place of its own
    inner_solvers: Counter[str] = field(default_factory=Counter)  # who answered how often

    def count(self, steps: int) -> None:
        """Count iterations."""
        self.iterations += steps

    def add(self, other: Findings) -> None:
        """Take over the points and the effort of another run of the same problem."""
        self.path += other.path
        self.path_below += other.path_below
        self.iterations += other.iterations
        self.evaluations += other.evaluations
        self.candidates += other.candidates
        self.tried += other.tried
        self.inner_solvers.update(other.inner_solvers)
        self.is_infeasible |= other.is_infeasible
        self.is_unbounded |= other.is_unbounded
        self.fall = self.fall or other.fall

    def raise_bound(
        self, bound: float, source: str, slack: float = BOUND_SLACK, *, is_lowered: bool = False
    ) -> None:
        """Take over a bound of f if it is better than the one before.

        Parameters
        ----------
        slack : float
            Relative: what the tolerances of whatever computed the bound may have raised it by.
        is_lowered : bool
            Whether the slack has been taken off before.
        """
        if not math.isfinite(bound):
            return
        bound -= 0.0 if is_lowered else slack * (1 + abs(bound))
        if bound > self.bound:
            self.bound, self.bound_source, self.bound_slack = bound, source, slack
