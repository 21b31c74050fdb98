"""The steps before and after the search from starts: polish, a last resort, the choice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blomodel.basics import limits
from blomodel.methods.portfolio import proximal
from blomodel.methods.portfolio.searches import SingleLoop, SmoothedLowerLevel
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import (
    ENOUGH_AGREEMENT,
    is_proven_best,
    search_around_the_best,
)
from blomodel.methods.portfolio.step import Outlook, Step
from blomodel.methods.run.run import Run
from blomodel.methods.search.answer_descent import has_one_answer
from blomodel.methods.search.integer_answer import answer_at
from blomodel.methods.search.pieces import choose_optimistically
from blomodel.methods.value_cuts import ValueCuts

CUT_STARTS, FEW_CUT_STARTS = 6, 3  # of value-cuts at the first level; few where phi is sampled too


@dataclass(frozen=True)
class LowerAnswer(Step):
    """What remains where the upper level has nothing to decide."""

    name = "lower answer"
    family = "lower answer"

    @classmethod
    def consider(cls, situation: Situation) -> LowerAnswer | None:
        """For problems without upper variables."""
        return cls() if situation.model.x.size == 0 else None

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            "the lower level's answer, since there is no x; of several, the one that the upper level "
            "likes best; nothing follows"
        )

    def run(self, run: Run, level: int) -> Outlook:
        """Ask the lower level."""
        bound = answer_at(run, np.empty(0), "lower answer")
        run.raise_bound(bound, "the lower level's answers, since there is no x")
        return Outlook.SETTLED


@dataclass(frozen=True)
class PenaltyFromTheEnd(Step):
    """The reduced penalty after the single loop."""

    before: SingleLoop
    first_level: int = 0

    name = "reduced penalty from the end"
    is_dear = True
    family = "penalty"

    @classmethod
    def consider(cls, situation: Situation) -> PenaltyFromTheEnd | None:
        """After the single loop; at later levels where cone programs are dear."""
        before = SingleLoop.consider(situation)
        if not isinstance(before, SingleLoop):
            return None
        return cls(before, limits.CONE_PROGRAM_VARIABLES.doublings(situation.model.y.size))

    @property
    def text(self) -> str:
        """What it does and why."""
        return "F_gamma with growing gamma from the best end and from the relaxed problem's point"

    @property
    def condition(self) -> str:
        """When it is tried."""
        later = f", from level {self.first_level + 1} on" if self.first_level else ""
        return f"unless a bound is reached{later}"

    def is_wanted(self, run: Run) -> bool:
        """Whether there is a start, and room for a better point."""
        return bool(self.before.starts(run)) and not is_proven_best(run)

    def run(self, run: Run, level: int) -> Outlook:
        """Follow both paths."""
        if level < self.first_level:
            return Outlook.MORE
        proximal.polish(run, self.before.starts(run)[0])
        return Outlook.DONE


@dataclass(frozen=True)
class AroundTheBest(Step):
    """Restarts near the best point."""

    search: SmoothedLowerLevel

    name = "searches around the best"
    is_dear = True

    @classmethod
    def consider(cls, situation: Situation) -> AroundTheBest | None:
        """After the smoothed lower level, where there were few starts."""
        search = SmoothedLowerLevel.consider(situation)
        if not isinstance(search, SmoothedLowerLevel) or search.n_starts >= ENOUGH_AGREEMENT:
            return None
        return cls(search)

    @property
    def text(self) -> str:
        """What it does and why."""
        return "short searches from points near the best one, as long as one of them improves it"

    def run(self, run: Run, level: int) -> Outlook:
        """Search around the best point."""
        if level < self.search.waits:
            return Outlook.MORE
        search_around_the_best(self.search.search(run))
        return Outlook.DONE


@dataclass(frozen=True)
class Rescue(Step):
    """value-cuts where nothing else has found its way."""

    has_path: bool  # whether the search before it is sure to follow a path
    first_level: int = 0  # where there is a point

    name = "value cuts"
    family = "value cuts"
    is_dear = True

    @classmethod
    def consider(cls, situation: Situation) -> Rescue:
        """For small problems at the first level, for large ones later."""
        has_path = situation.objective is None and situation.why_not_proximal is None
        return cls(has_path, limits.RESCUE_UNKNOWNS.doublings(situation.size))

    @property
    def text(self) -> str:
        """What it does and why."""
        return "KKT conditions and cuts on the lower level's value"

    @property
    def condition(self) -> str:
        """When it is tried."""
        only = "only if no point was found"
        if self.has_path:
            return only
        later = f"from level {self.first_level + 1} on, " if self.first_level else ""
        return f"{only}, or {later}no path since f + gamma g is not convex in y"

    def is_wanted(self, run: Run) -> bool:
        """Whether the searches before it are lost."""
        # Where f + gamma g is not convex in y there was no path to follow, only single starts.
        has_path = self.has_path or "gamma" in run.history or "mu" in run.history
        return (run.best() is None or not has_path) and not run.is_infeasible

    def run(self, run: Run, level: int) -> Outlook:
        """Run value-cuts; without any point there is nothing else to wait for."""
        if level < self.first_level and run.best() is not None:
            return Outlook.MORE
        ValueCuts().run(run)
        return Outlook.DONE


@dataclass(frozen=True)
class Choice(Step):
    """The optimistic choice at the end."""

    name = "choice among lower answers"
    is_last = True

    @classmethod
    def consider(cls, situation: Situation) -> Choice:
        """Always."""
        return cls()

    @property
    def text(self) -> str:
        """What it does and why."""
        return "of several lower answers at the best x, the one that the upper level likes best"

    def run(self, run: Run, level: int) -> Outlook:
        """Choose."""
        best = run.best()
        if best is not None and not has_one_answer(run, best.x):
            choose_optimistically(run, best.x)
        return Outlook.DONE


@dataclass(frozen=True)
class CutsAlone(Step):
    """value-cuts for lower levels that are not convex."""

    is_alone: bool = False  # whether no other step confirms it

    name = "value cuts"
    family = "value cuts"

    @classmethod
    def consider(cls, situation: Situation) -> CutsAlone:
        """For lower levels that are not convex."""
        return cls(situation.has_dear_answers)

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            "since the lower level is not convex: its KKT conditions and cuts on its value, then the "
            "cuts alone; the lower level is searched from many starts"
        )

    def run(self, run: Run, level: int) -> Outlook:
        """Run value-cuts, from twice as many starts at each level."""
        run.note("the lower level is not convex, so value-cuts took over")
        is_sampled = limits.SAMPLED_VARIABLES.allows(run.model.x.size) and not self.is_alone
        n_starts = FEW_CUT_STARTS if is_sampled else CUT_STARTS
        ValueCuts(n_starts=n_starts * 2**level).run(run)
        if not run.model.x.size:
            return Outlook.SETTLED
        return Outlook.DONE if self.is_alone else Outlook.MORE  # bounds may still follow
