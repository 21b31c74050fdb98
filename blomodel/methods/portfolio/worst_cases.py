"""The step of ``auto`` for opposed levels: the best x against the worst answers found so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.portfolio.step import Omission, Outlook, Share, Step
from blomodel.methods.run.run import Run
from blomodel.transformations.zero_sum import (
    best_against,
    opposed_factor,
    why_no_saddle,
    why_no_worst_cases,
)

ROUNDS = 20  # programs of the first level; each further level has twice as many
HOPEFUL = 0.1  # share of the gap that a level must close for a proof to be in sight
INSIDE = 1e-8  # relative violation beyond which an answer is no cut


class Answers:
    """The lower answers found so far, and whether the last ones brought the bound nearer."""

    def __init__(self) -> None:
        self.worst: list[np.ndarray] = []
        self.is_slow = False

    def add(self, y: np.ndarray) -> bool:
        """Take one more answer; whether it is new."""
        is_known = any(np.allclose(y, known, rtol=1e-9, atol=1e-12) for known in self.worst)
        if not is_known:
            self.worst.append(y)
        return not is_known


@dataclass(frozen=True)
class WorstCases(Step):
    """Cuts by answers of a lower level whose gain is the upper level's loss."""

    name = "worst cases"
    family = "worst cases"
    may_prove = True
    share: ClassVar[Share] = Share(part=0.3)

    @classmethod
    def consider(cls, situation: Situation) -> WorstCases | Omission | None:
        """Where f falls as g rises, and f with a fixed y is convex in x."""
        model, p = situation.model, situation.p
        if opposed_factor(model, p) is None:
            return None
        if model.is_convex_below and why_no_saddle(model, p) is None:
            return None  # one convex program says it all
        reason = why_no_worst_cases(model, p)
        return cls() if reason is None else Omission(cls.name, reason)

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            "the levels are opposed: the x that is best against the worst answers found so far bounds f "
            f"by a convex program, and its own worst answer is the next; {ROUNDS} rounds, more as long "
            "as they close the gap"
        )

    def has_hope(self, run: Run) -> bool:
        """Whether the last rounds have brought the bound nearer."""
        answers = run.known(Answers)
        return answers is None or not answers.is_slow

    def run(self, run: Run, level: int) -> Outlook:
        """Ask for the worst answer and for the best x against all, in turn."""
        answers = run.once(Answers, Answers)
        if not answers.worst and not _answer_at(run, answers, _first_x(run)):
            return Outlook.DONE
        gap = np.inf
        for round_ in range(ROUNDS * 2**level):
            run.check_limits()
            saddle = best_against(run.model, answers.worst)
            if saddle is None:
                return Outlook.DONE
            run.raise_bound(saddle.bound, "the worst of the lower answers found")
            is_new = _answer_at(run, answers, saddle.x)
            if is_proven_best(run):
                return Outlook.SETTLED
            if not is_new:
                return Outlook.DONE  # what the solvers can tell apart is told
            if round_ == 0:
                gap = _gap(run)
        answers.is_slow = not _gap(run) <= (1 - HOPEFUL) * gap
        return Outlook.MORE


def _first_x(run: Run) -> np.ndarray:
    """The user's start, or the middle."""
    if run.start is not None:
        return run.start[0]
    return np.clip(np.zeros(run.model.x.size), *run.model.bounds(run.p))


def _answer_at(run: Run, answers: Answers, x: np.ndarray) -> bool:
    """Keep the lower answer at x as a point and as a cut; whether it was new."""
    near = (
        answers.worst[-1] if answers.worst else np.clip(np.zeros(run.model.y.size), *run.model.y_bounds)
    )
    below, _ = run.solve_lower(x, near)
    if not below.has_point:
        return False
    found = run.propose(x, below.y, "worst case", below)
    run.step(x=found.x, value=found.value, gap=found.gap)
    return found.violation <= INSIDE and answers.add(below.y)


def _gap(run: Run) -> float:
    best = run.best()
    return np.inf if best is None else best.value - run.bound
