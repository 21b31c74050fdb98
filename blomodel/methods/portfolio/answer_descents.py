"""The step of ``auto`` that descends on phi(x) = f(x, y*(x)) from several starts.

Where it applies a descent costs a small part of what the other searches cost, so that it comes early and
from several starts. Short descents from all of them come first; only the best go on to the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from blomodel.basics import limits
from blomodel.methods.portfolio.equivalent import search_with_kinks
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.portfolio.step import Omission, Outlook, Step
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import diagonal, nearest_allowed, spread, spread_by_scale
from blomodel.methods.search.answer_descent import AnswerDescent
from blomodel.methods.search.pieces import choose_optimistically
from blomodel.reformulations.forms.answer_value import AnswerEvaluation
from blomodel.solvers.threads import one_blas_thread
from blomodel.text.layout import counted

DIAGONAL = 5  # starts at which all variables stand at one share of their range
SCATTERED = 3  # further ones, spread over the range
ENOUGH = 3  # descents that moved and ended at the best value confirm each other
ENOUGH_WIDE = 2  # the same where x is wide and phi smooth, so that each descent is a long one
SAME = 1e-6  # relative to the value and to the spread of the ends: those that differ by less are one
RACE = 10  # steps of a short descent where x is wide, so that descents do not end soon
MET = 1e-4  # relative distance at which two descents that were broken off have come to one point
LITTLE = 0.1  # of the spread of the ends: a level that gains less has brought nothing
AGAIN = 64  # descents of a second look, at most
WAITING_LEVELS = 2  # of effort, during which dear searches wait while descents do well


@dataclass(frozen=True)
class Thrift:
    """How many evaluations of phi a level of effort may take.

    Attributes
    ----------
    n_starts : int
        At the first level; each further one has twice as many.
    short, long : int
        Quasi-Newton steps of a first descent, and of one that goes on. Where x is wide the very first is
        a long one, and the next ones have few: they only race for who goes on.
    n_finished : int
        Descents of the first level that go on to the end; of each further level one does.
    """

    n_starts: int
    short: int
    long: int
    n_finished: int


CHEAP = Thrift(1 + DIAGONAL + SCATTERED, short=25, long=300, n_finished=2)
THRIFTY = Thrift(4, short=15, long=150, n_finished=2)


@dataclass
class Descents:
    """What the descents of a run have shown."""

    size: int  # unknowns of the KKT conditions
    n_x: int
    is_smooth: bool = False  # whether phi has had no kink where it was asked for
    ends: list[float] = field(default_factory=list)  # of descents that moved and came to an end
    all_ends: list[float] = field(default_factory=list)  # also of those that were broken off
    has_stalled: bool = False  # whether the last level has brought next to nothing
    pace: float | None = None  # what the first long descent had reached when a race is over
    n_behind: int = 0  # further starts that had not come as far in a race
    is_led: bool = False  # whether none has come further
    broken_off: list[tuple[float, np.ndarray]] = field(default_factory=list)  # values and points
    n_looks: int = 0  # how often a second look was taken

    @property
    def best(self) -> float:
        """The best value of a descent."""
        return min(self.ends, default=np.inf)

    @property
    def n_agreeing(self) -> int:
        """How many of them have ended at the best value."""
        return sum(end <= self.best + self._same for end in self.ends)

    @property
    def _same(self) -> float:
        """The difference of values that are one."""
        spread = max(self.all_ends, default=0.0) - self.best if self.ends else 0.0
        return SAME * max(abs(self.best), min(spread, 1 + abs(self.best))) if self.ends else 0.0

    @property
    def are_enough(self) -> bool:
        """Whether so many have ended at the best value that they confirm each other.

        Where each is a long one, those that had not come as far after as many steps count too.
        """
        if not (self.is_wide and self.is_smooth):
            return self.n_agreeing >= ENOUGH
        is_ahead = self.is_led and self.n_behind >= ENOUGH
        return self.n_agreeing >= ENOUGH_WIDE or (is_ahead and self.n_agreeing > 0)

    def note_broken_off(self, value: float, x: np.ndarray) -> bool:
        """Whether a descent from another start was broken off at this very point: both have ended.

        At a kink of phi steps become ever shorter, and no slope tells that the end is reached.
        """
        met = [
            other
            for other, there in self.broken_off
            if abs(other - value) <= SAME * (1 + abs(value))
            and np.abs(there - x).max(initial=0) <= MET * (1 + np.abs(x).max(initial=0))
        ]
        self.broken_off.append((value, x))
        if met:
            self.ends += [min(*met, value)] * (1 if len(met) > 1 else 2)
        return bool(met)

    def note_race(self, reached: float) -> bool:
        """Whether a start has come further in a race than the first long descent had."""
        if self.pace is None or reached < self.pace:
            self.is_led = False
            return True
        self.n_behind += 1
        return False

    @property
    def is_wide(self) -> bool:
        """Whether x has so many variables that a descent takes many steps."""
        return not limits.SIX_STARTS.allows(self.n_x)

    @property
    def are_unanimous(self) -> bool:
        """Whether so many have ended at the best value, and so few elsewhere, that this is enough."""
        return self.are_enough and self.n_agreeing >= 0.5 * len(self.ends)

    def note_level(self, before: float) -> None:
        """Whether a level that began with a best value has paid."""
        spread = float(np.median(self.all_ends)) - self.best if self.all_ends else np.inf
        small = max(LITTLE * spread, SAME * (1 + abs(self.best)))
        self.has_stalled = bool(np.isfinite(before) and before - self.best <= small)


def descents_of(run: Run) -> Descents | None:
    """What the descents of this run have shown; None before the first."""
    record: list[Descents] = run.once(Descents, list)
    return record[0] if record else None


def are_confirmed(run: Run) -> bool:
    """Whether descents from several starts ended at the best point, or many could not improve it.

    Small problems are not confirmed in this way: there another kind of search costs next to nothing.
    """
    descents, best = descents_of(run), run.best()
    if descents is None or best is None or limits.EVERY_SEARCH.allows(descents.size):
        return False
    if best.value < descents.best - SAME * (1 + abs(best.value)):
        return False  # another idea has found a better point
    is_exhausted = descents.is_smooth and descents.has_stalled
    return descents.are_enough or is_exhausted


def may_wait(run: Run, level: int) -> bool:
    """Whether searches that cost much more than descents may wait for the next levels of effort.

    They do where several descents agree, or phi is smooth and x has so many variables that one more
    start of a dear search is worth less than many descents. Small problems run everything at once.
    """
    descents = descents_of(run)
    if descents is None or level >= WAITING_LEVELS or limits.EVERY_SEARCH.allows(descents.size):
        return False
    return are_confirmed(run) or (descents.is_wide and descents.is_smooth and bool(descents.ends))


@dataclass(frozen=True)
class AnswerDescents(Step):
    """Descent on phi from several starts."""

    size: int
    thrift: Thrift

    name = "descent on phi"
    family = "descent on phi"

    @classmethod
    def consider(cls, situation: Situation) -> AnswerDescents | Omission | None:
        """For lower levels whose answer has a derivative, and upper constraints on x alone."""
        if situation.model.x.size == 0:
            return None
        reason = AnswerDescent.why_not(situation.model)
        if reason is not None:
            stated = situation.stated  # where DescentsWithKinks takes this step's place
            is_left_out = stated is None or AnswerDescent.why_not(stated) is not None
            return Omission(cls.name, reason) if is_left_out else None
        thrift = CHEAP if limits.CHEAP_DESCENTS.allows(situation.model.g.n_products) else THRIFTY
        if situation.wanted is not None:
            thrift = replace(thrift, n_starts=situation.wanted)
        return cls(situation.size, thrift)

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            f"f(x, y*(x)) by its implicit gradient from up to {counted(self.thrift.n_starts, 'start')}, "
            f"{self.thrift.short} steps each, and to the end from the best"
        )

    def run(self, run: Run, level: int) -> Outlook:
        """Descend from the starts of this level; there are always more."""
        with one_blas_thread():  # the systems are too small to share, and other processes may be at work
            return self._run(run, level)

    def _run(self, run: Run, level: int) -> Outlook:
        record: list[Descents] = run.once(Descents, list)
        if not record:
            record.append(Descents(self.size, run.model.x.size))
        descents = record[0]
        before = descents.best
        descent: AnswerDescent = run.once(AnswerDescent, lambda: AnswerDescent(run))
        unfinished: list[tuple[float, AnswerEvaluation]] = []
        met: list[AnswerEvaluation] = []  # ends at kinks where others have ended too
        for start in self._starts(run, descent, level):
            is_first = descents.is_wide and descents.pace is None
            steps = RACE if descents.is_wide else self.thrift.short
            end = descent.descend(
                start,
                self.thrift.long if is_first else steps,
                crosses_kinks=False,
                uses_newton=is_first or not descents.is_wide,
            )
            if end is None:
                continue
            has_moved = np.abs(end.x - start).max(initial=0) > 1e-6 * (1 + np.abs(start).max(initial=0))
            descents.all_ends.append(end.value)
            descents.is_smooth = descent.is_smooth
            reached = min(descent.trail[: RACE + 2])
            if is_first and len(descent.trail) > RACE:  # a long one: others are measured by it
                descents.pace, descents.is_led = reached, True
            if not descent.has_ended and has_moved and descents.note_broken_off(end.value, end.x):
                met.append(end)
            elif not descent.has_ended:
                if is_first or descents.note_race(reached) or not descents.is_smooth:
                    unfinished.append((reached, end))
            elif has_moved:
                descents.ends.append(end.value)
            if not end.has_gradient:  # what the upper level likes best of several lower answers
                choose_optimistically(run, end.x)
            if is_proven_best(run):
                return Outlook.DONE
            if descents.are_unanimous:
                break
        unfinished.sort(key=lambda both: both[0])  # after as many steps each
        for _, end in unfinished[: self.thrift.n_finished if level == 0 else 1]:
            if not descents.are_unanimous:
                self._finish(descent, descents, end)
        if met:  # what they have in common is found exactly by one of them
            self._finish(descent, descents, min(met, key=lambda end: end.value))
        descents.is_smooth = descent.is_smooth
        descents.note_level(before)
        return Outlook.MORE if descents.ends else Outlook.DONE

    def look_again(self, run: Run) -> None:
        """Whole descents from points all over the range; each look has other ones.

        Descents that only race, or all begin along a diagonal, can agree on a poor end.
        """
        descents = descents_of(run)
        if descents is None:
            return
        descents.n_looks += 1
        descent: AnswerDescent = run.once(AnswerDescent, lambda: AnswerDescent(run))
        center = run.start[0] if run.start is not None else np.zeros(run.model.x.size)
        with one_blas_thread():
            for start in spread(descent.bounds, center, AGAIN, run.seed + descents.n_looks)[1:]:
                allowed = (start,) if descent.has_box else nearest_allowed(run, start)
                end = None if allowed is None else descent.descend(allowed[0], self.thrift.long)
                if end is not None:
                    descents.ends.append(end.value)

    def _finish(self, descent: AnswerDescent, descents: Descents, end: AnswerEvaluation) -> None:
        """Go on from where a short descent was broken off."""
        last = descent.descend(end.x, self.thrift.long)
        descents.ends.append(end.value if last is None else last.value)

    def _starts(self, run: Run, descent: AnswerDescent, level: int) -> list[np.ndarray]:
        model, bounds = run.model, descent.bounds
        n = model.x.size
        wishes: list[np.ndarray] = []
        if level == 0 and run.start is not None:
            wishes.append(run.start[0])
        center = run.start[0] if run.start is not None else np.zeros(n)
        if level == 0:
            wishes.append(np.clip(np.zeros(n), *bounds))
        first = 0 if level == 0 else SCATTERED * 2 ** (level - 1)
        scattered = spread_by_scale(bounds, center, SCATTERED * 2**level, run.seed)[first:]
        along = diagonal(bounds, center, DIAGONAL, level)
        wishes = [*wishes, *along, *scattered][: self.thrift.n_starts * 2**level]
        if descent.has_box:
            return wishes
        allowed = (nearest_allowed(run, wish) for wish in wishes)
        return [start[0] for start in allowed if start is not None]


@dataclass(frozen=True)
class DescentsWithKinks(Step):
    """Descent on phi where the other steps know kinks of f by variables.

    Such variables have rows that hold y, which a descent in x alone would not keep. The problem itself
    has none of them: there phi has kinks, which a descent knows how to cross.
    """

    descents: AnswerDescents

    name = AnswerDescents.name
    family = AnswerDescents.family

    @classmethod
    def consider(cls, situation: Situation) -> DescentsWithKinks | None:
        """Where the problem itself can be descended on, and the one with variables for kinks cannot."""
        if situation.stated is None or AnswerDescent.why_not(situation.model) is None:
            return None
        found = AnswerDescents.consider(Situation(situation.stated, situation.p, situation.wanted))
        return cls(found) if isinstance(found, AnswerDescents) else None

    @property
    def text(self) -> str:
        """What it does and why."""
        return f"{self.descents.text}; on the problem without variables for kinks"

    def run(self, run: Run, level: int) -> Outlook:
        """Descend from the starts of this level."""
        record: list[Descents] = run.once(Descents, list)

        def search(own: Run) -> Outlook:
            own.once(Descents, lambda: record)  # other steps ask this run what descents have shown
            return self.descents.run(own, level)

        return search_with_kinks(run, search)
