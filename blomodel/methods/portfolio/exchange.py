"""Opposed levels that meet in the lower constraints: x and multipliers in turn, a step of ``auto``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.portfolio.step import Omission, Outlook, Share, Step
from blomodel.methods.run.run import Run
from blomodel.transformations.zero_sum import (
    best_for_multipliers,
    opposed_factor,
    why_no_exchange,
    why_no_saddle,
)

STARTS = 8  # of the first level; each further one has twice as many
TURNS = 30  # of one start
GAINED = 1e-9  # relative: a turn that gains less is the last
WIDE = 1e3  # range that stands for one without end


@dataclass(frozen=True)
class Exchange(Step):
    """The best x for the lower multipliers, and the multipliers for that x, in turn."""

    factor: float

    name = "x and multipliers in turn"
    family = "multipliers in turn"
    share: ClassVar[Share] = Share(part=0.1)

    @classmethod
    def consider(cls, situation: Situation) -> Exchange | Omission | None:
        """Where f falls as g rises, and no single convex program says it all."""
        model, p = situation.model, situation.p
        factor = opposed_factor(model, p)
        if factor is None:
            return None
        reason = why_no_exchange(model, p)
        if reason is not None:
            return Omission(cls.name, reason)
        return None if why_no_saddle(model, p) is None else cls(factor)

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            "the levels are opposed: the best x for fixed lower multipliers is a convex program, and "
            f"each turn brings new ones; {STARTS} starts over the range of x, twice as many each level"
        )

    def run(self, run: Run, level: int) -> Outlook:
        """Take turns from the starts of this level."""
        low, high = _range(run)
        draw = np.random.default_rng(level)
        for k in range(STARTS * 2**level):
            # A start need not be allowed: only the multipliers there are used.
            share = draw.uniform(size=low.size) if k or level else np.zeros(low.size)
            self._take_turns(run, low + share * (high - low))
            if is_proven_best(run):
                return Outlook.SETTLED
        while self._turns_aside(run, draw, STARTS * 2**level):
            pass
        return Outlook.SETTLED if is_proven_best(run) else Outlook.MORE

    def _turns_aside(self, run: Run, draw: np.random.Generator, most: int) -> bool:
        """Take turns from the best point with one variable at its other end; whether that pays."""
        best, (low, high) = run.best(), _range(run)
        if best is None or is_proven_best(run):
            return False
        for j in draw.permutation(low.size)[:most]:
            x = best.x.copy()
            x[j] = high[j] if x[j] - low[j] < high[j] - x[j] else low[j]
            self._take_turns(run, x)
        after = run.best()
        return after is not None and after.value < best.value - GAINED * (1 + abs(best.value))

    def _take_turns(self, run: Run, x: np.ndarray) -> None:
        y = np.clip(np.zeros(run.model.y.size), *run.model.y_bounds)
        below, _ = run.solve_lower(x, y)
        value = np.inf
        for _ in range(TURNS):
            run.check_limits()
            if not below.has_point:
                return
            further = best_for_multipliers(run.model, run.p, self.factor, x, below)
            if further is None:
                return
            x = further
            below, _ = run.solve_lower(x, below.y)
            if not below.has_point:
                return
            before, value = value, float(run.model.f(x, below.y, run.p)[0])
            run.offer(x, below.y, "multipliers in turn", below, value)
            run.step(x=x, value=value)
            if not value < before - GAINED * (1 + abs(before)):
                return


def _range(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """The bounds on single variables, finite."""
    low, high = run.model.bounds(run.p)
    low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - WIDE, -WIDE))
    return low, np.where(np.isfinite(high), high, low + WIDE)
