"""Steps that search from several starts; exactly one of them suits a convex lower level."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from blomodel.basics import limits
from blomodel.methods.portfolio import proximal
from blomodel.methods.portfolio.answer_descents import AnswerDescents, DescentsWithKinks, descents_of
from blomodel.methods.portfolio.effort import is_confirmed
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import (
    ENOUGH_AGREEMENT,
    PenaltyAlone,
    PenaltyOnPieces,
    PenaltyThenPieces,
    SmoothedPath,
    is_proven_best,
    search_until_agreement,
)
from blomodel.methods.portfolio.step import Omission, Outlook, Share, Step
from blomodel.methods.reduced_penalty import ReducedPenaltyMethod
from blomodel.methods.run.parallel import Search
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import Start, find_starts, further_starts
from blomodel.methods.search.answer_descent import AnswerDescent

PENALTY_LAST = 30.0  # of a second opinion, which a descent makes exact
DESCENT_STEPS = 150


@dataclass(frozen=True)
class SearchFromStarts(Step):
    """The same search from several starts, until enough of them agree."""

    n_starts: int

    is_dear = True

    @property
    def waits(self) -> int:
        """Levels that it waits for, where each start of it is dear."""
        return getattr(self, "first_level", 0)

    @property
    def condition(self) -> str:
        """When it is tried."""
        return f"from level {self.waits + 1} on" if self.waits else ""

    @abstractmethod
    def make_search(self, run: Run) -> Search:
        """The search from one start; another process makes its own."""

    def search(self, run: Run) -> Search:
        """The search of this run, which steps after this one may go on with."""
        return run.once(self, lambda: self.make_search(run))

    def starts(self, run: Run, level: int = 0) -> list[Start]:
        """The starts of a level of effort: as many new ones at each as there were before it."""
        if level:
            return further_starts(run, self.n_starts * 2 ** (level - 1), self.n_starts * 2**level)
        return run.once(("starts", self.n_starts), lambda: find_starts(run, self.n_starts))

    @property
    def starts_text(self) -> str:
        """From how many starts."""
        return _say_starts(self.n_starts)

    def run(self, run: Run, level: int) -> Outlook:
        """Search from the starts of this level; there are always more."""
        if level < self.waits:
            return Outlook.MORE
        starts = self.starts(run, level - self.waits)
        search_until_agreement(self.search(run), starts, is_confirmed)
        return Outlook.MORE


def _say_starts(count: int) -> str:
    said = f"from {count} starts" if count > 1 else "from one start"
    return f"{said} (fewer once {ENOUGH_AGREEMENT} agree)" if count >= ENOUGH_AGREEMENT else said


POLISHED = "each stage improved on the pieces of the linear KKT conditions"


@dataclass(frozen=True)
class SmoothedLowerLevel(SearchFromStarts):
    """Descent on the smoothed lower level."""

    has_both_paths: bool
    first_level: int = 0

    name = "smoothed lower level"
    family = "smoothing"

    @classmethod
    def consider(cls, situation: Situation) -> SmoothedLowerLevel | Omission | None:
        """For exact pieces, where descent in x alone keeps the upper rows; large ones later."""
        if situation.objective is None:
            return None
        if situation.why_not_smoothed is not None:
            return Omission(cls.name, situation.why_not_smoothed)
        has_both = limits.BOTH_PATHS.allows(situation.model.x.size)
        return cls(situation.n_starts, has_both, situation.first_level)

    @property
    def text(self) -> str:
        """What it does and why."""
        second = ""
        if self.has_both_paths:
            second = ", then the reduced penalty F_gamma with growing gamma from the same"
        return f"F_mu with falling mu {self.starts_text}{second}; {POLISHED}"

    def make_search(self, run: Run) -> Search:
        """The search from one start."""
        return SmoothedPath(run, self.make_search, has_both_paths=self.has_both_paths)


@dataclass(frozen=True)
class PenaltyWithExactPieces(SearchFromStarts):
    """The reduced penalty, its stages improved on exact pieces."""

    first_level: int = 0

    name = "reduced penalty on KKT pieces"
    family = "penalty"

    @classmethod
    def consider(cls, situation: Situation) -> PenaltyWithExactPieces | None:
        """For exact pieces, where the smoothed lower level does not apply."""
        if situation.objective is None or situation.why_not_smoothed is None:
            return None
        return cls(situation.n_starts, situation.first_level)

    @property
    def text(self) -> str:
        """What it does and why."""
        return f"F_gamma with growing gamma {self.starts_text}; {POLISHED}"

    def make_search(self, run: Run) -> Search:
        """The search from one start."""
        return PenaltyOnPieces(run, self.make_search)


@dataclass(frozen=True)
class PenaltyWithoutPieces(SearchFromStarts):
    """The reduced penalty on a problem whose exact pieces are large, before these."""

    name = "reduced penalty"
    family = "penalty"

    @classmethod
    def consider(cls, situation: Situation) -> PenaltyWithoutPieces | None:
        """For exact pieces of large size."""
        is_exact = situation.objective is not None
        return cls(situation.n_starts) if is_exact and situation.is_large else None

    @property
    def text(self) -> str:
        """What it does and why."""
        return f"F_gamma with growing gamma {self.starts_text}, without pieces"

    def make_search(self, run: Run) -> Search:
        """The search from one start."""
        return PenaltyAlone(run, self.make_search)


@dataclass(frozen=True)
class Penalty(SearchFromStarts):
    """The reduced penalty on a problem without exact pieces."""

    polish: str

    name = "reduced penalty"
    family = "penalty"

    @classmethod
    def consider(cls, situation: Situation) -> Penalty | None:
        """For convex lower levels that neither pieces nor the single loop suit."""
        if situation.objective is not None or situation.why_not_proximal is None:
            return None
        if not situation.model.has_smooth_kkt:
            return cls(situation.n_starts, "no polish, as a matrix inequality below has no pieces")
        if situation.is_large:
            pieces = Omission.by_size("no KKT pieces", situation.size, limits.PIECE_UNKNOWNS)
            return cls(situation.n_starts, str(pieces))
        return cls(situation.n_starts, "each end improved on the KKT pieces")

    @property
    def text(self) -> str:
        """What it does and why."""
        return f"F_gamma with growing gamma {self.starts_text}; {self.polish}"

    def make_search(self, run: Run) -> Search:
        """The search from one start."""
        return PenaltyThenPieces(run, self.make_search)


@dataclass(frozen=True)
class SingleLoop(SearchFromStarts):
    """The single loop of meha."""

    n_loops: int

    name = "single loop of meha"
    family = "single loop"

    @classmethod
    def consider(cls, situation: Situation) -> SingleLoop | Omission | None:
        """For cone programs that are smooth but for norms."""
        if situation.objective is not None:
            return None
        if situation.why_not_proximal is not None:
            return Omission(cls.name, situation.why_not_proximal)
        n_loops = situation.wanted or proximal.number_of_starts(situation.model, situation.n_starts)
        return cls(situation.n_starts, n_loops)

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            f"{_say_starts(self.n_loops)}, since the lower level is a cone program, smooth but for "
            "norms that have a proximal step"
        )

    def make_search(self, run: Run) -> Search:
        """The search from one start."""
        return proximal.SingleLoopStart(run, self.make_search)

    def run(self, run: Run, level: int) -> Outlook:
        """Iterate from each start; at further levels from others."""
        if self.starts(run):  # both levels' constraints can hold together
            starts = self.starts(run, level) if level else proximal.proximal_starts(run, self.n_loops)
            search_until_agreement(self.search(run), starts, is_confirmed)
        return Outlook.MORE


@dataclass(frozen=True)
class SecondOpinion(Step):
    """One path of the reduced penalty, where descents agree and the lower level has inequalities.

    Between places where lower rows begin or cease to hold, phi may be flat over wide ranges, and
    descents from many starts end there. A small penalty sees past them.
    """

    name = "second opinion"
    family = "penalty"
    share: ClassVar[Share] = Share(part=0.2)

    @classmethod
    def consider(cls, situation: Situation) -> SecondOpinion | None:
        """Where descents on phi may make the other searches wait, and no sample fills the range of x."""
        is_sampled = limits.SAMPLED_VARIABLES.allows(situation.model.x.size)
        is_small = limits.EVERY_SEARCH.allows(situation.size)
        if is_sampled or is_small or not len(situation.model.lower_in):
            return None
        steps = (AnswerDescents.consider(situation), DescentsWithKinks.consider(situation))
        return cls() if any(isinstance(step, Step) for step in steps) else None

    @property
    def text(self) -> str:
        """What it does and why."""
        return "F_gamma with growing gamma from the relaxed problem's point, then a descent on phi"

    @property
    def condition(self) -> str:
        """When it is tried."""
        return "if descents agree"

    def is_wanted(self, run: Run) -> bool:
        """Whether descents would do alone otherwise."""
        descents = descents_of(run)
        return descents is not None and descents.are_enough and not is_proven_best(run)

    def run(self, run: Run, level: int) -> Outlook:
        """Follow one path; what it finds is made exact by a descent."""
        descents = descents_of(run)
        assert descents is not None
        starts = find_starts(run, 1)
        if starts:
            (x, y), *_ = starts
            end = ReducedPenaltyMethod(penalty_last=PENALTY_LAST, path_tolerance=1e-4).follow(
                run, (x, y)
            )
            descent = run.once(AnswerDescent, lambda: AnswerDescent(run))
            if end is not None and AnswerDescent.why_not(run.model) is None:
                descent.descend(end.x, DESCENT_STEPS)
        return Outlook.DONE


# In this order the first that suits is taken.
SEARCHES: tuple[type[SearchFromStarts], ...] = (
    SmoothedLowerLevel,
    PenaltyWithExactPieces,
    PenaltyWithoutPieces,
    SingleLoop,
    Penalty,
)


def choose_search(situation: Situation) -> SearchFromStarts:
    """The search from starts that suits a problem with a convex lower level."""
    considered = (search.consider(situation) for search in SEARCHES)
    return next(step for step in considered if isinstance(step, SearchFromStarts) and not step.waits)
