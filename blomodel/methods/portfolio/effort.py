"""How long ``auto`` goes on: a rule that counts levels of effort, not seconds."""

from __future__ import annotations

import enum

import numpy as np

from blomodel.methods.portfolio.answer_descents import are_confirmed
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.run.run import Run

LAST_LEVEL = 7  # without a time limit; each level costs about twice the one before
LONG_PATIENCE = 3  # levels in a row that may bring nothing where effort is "thorough"
CLOSED = 0.2  # share of the gap between value and bound that a level must close to count
MOVED = 0.01  # share that must be closed for a tree to go on under a time limit
SAME = 1e-5  # relative: families whose best values differ by less confirm each other


class Effort(enum.StrEnum):
    """What the user asks for."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"


class Patience:
    """Whether another level of effort is due.

    A level has paid when the best value fell, or a fifth of the gap between value and bound was closed.
    ``quick`` ends after the first level. ``normal`` ends once a level has not paid, or two families of
    steps have reached the best value and the bound does not come closer. Under a time limit the rest of
    the time is used: there it ends only when families agree, and no tree is at work whose bound moves
    so that a proof is in sight. ``thorough`` ends when three levels in a row have not paid. Any of them
    ends at a proof, and at the limits of the run.
    """

    run: Run
    effort: Effort
    idle: int
    gap: float
    is_moving: bool

    def __init__(self, run: Run, effort: Effort) -> None:
        self.run, self.effort = run, effort
        self.idle = 0  # levels in a row that have not paid
        self.value: float | None = None  # at the end of the level before
        self.gap = np.inf
        self.is_moving = False  # whether the last level has closed any of the gap

    def is_over(self, level: int, *, may_prove: bool = False) -> bool:
        """Whether ``level`` was the last one; ``may_prove``: a step at work may yet find a proof."""
        run = self.run
        if is_proven_best(run) or run.is_infeasible or run.is_unbounded:
            return True
        has_improved, has_closed = self._look_back()
        self.idle = 0 if has_improved or has_closed else self.idle + 1
        has_limit = not run.deadline.is_never
        if self.effort is Effort.QUICK or (level >= LAST_LEVEL and not has_limit):
            return True
        if self.effort is Effort.THOROUGH:
            return self.idle >= LONG_PATIENCE
        if has_limit and may_prove and (self.is_moving or level == 0):
            return False
        if is_confirmed(run):
            return not has_closed
        return self.idle >= 1 and not has_limit

    def _look_back(self) -> tuple[bool, bool]:
        """Whether the last level made the best value better, and whether it closed much of the gap."""
        run, best = self.run, self.run.best()
        if best is None:
            return False, False
        small = run.tolerance * (1 + abs(best.value))
        has_improved = self.value is None or best.value < self.value - small
        gap = best.value - run.bound
        has_closed = bool(np.isfinite(self.gap) and gap < (1 - CLOSED) * self.gap)
        self.is_moving = bool(gap < (1 - MOVED) * self.gap)
        self.value, self.gap = best.value, gap
        return has_improved, has_closed


def is_confirmed(run: Run) -> bool:
    """Whether steps of two families have reached the best value, or many descents on phi."""
    best = run.best()
    if best is None:
        return False
    near = best.value + SAME * (1 + abs(best.value))
    reached = {family for family, value in run.best_of_families().items() if value <= near}
    return len(reached) > 1 or are_confirmed(run)
