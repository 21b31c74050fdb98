"""How long ``auto`` goes on: a rule that counts levels of effort, not seconds."""

from __future__ import annotations

import enum

from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.run.run import Run

MAX_LEVELS = 8  # each costs about twice the one before
LONG_PATIENCE = 3  # levels in a row that may bring nothing where effort is "thorough"
SAME = 1e-5  # relative: families whose best values differ by less confirm each other


class Effort(enum.StrEnum):
    """What the user asks for."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"


class Patience:
    """Whether another level of effort is due.

    ``quick`` ends after the first level. ``normal`` ends when two families of steps have reached the
    best value, or a level has brought nothing. ``thorough`` ends when three levels in a row have
    brought nothing. Any of them ends at a proof, and at the limits of the run.
    """

    def __init__(self, run: Run, effort: Effort) -> None:
        self.run, self.effort = run, effort
        self.idle = 0  # levels in a row that brought nothing
        self.before: float | None = None

    def is_over(self, level: int) -> bool:
        """Whether ``level`` was the last one."""
        run, best = self.run, self.run.best()
        if is_proven_best(run) or run.is_infeasible or run.is_unbounded:
            return True
        has_paid = best is not None and (
            self.before is None or best.value < self.before - run.tolerance * (1 + abs(best.value))
        )
        self.before = None if best is None else best.value
        self.idle = 0 if has_paid else self.idle + 1
        if self.effort is Effort.QUICK or level + 1 >= MAX_LEVELS:
            return True
        if self.effort is Effort.THOROUGH:
            return self.idle >= LONG_PATIENCE
        return self.idle >= 1 or is_confirmed(run)


def is_confirmed(run: Run) -> bool:
    """Whether steps of two families have reached the best value."""
    best = run.best()
    if best is None:
        return False
    near = best.value + SAME * (1 + abs(best.value))
    reached = {family for family, value in run.best_of_families().items() if value <= near}
    return len(reached) > 1
