"""A sample of phi that fills the range of few upper variables, refined around its best points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blomodel.basics import limits
from blomodel.methods.portfolio.answer_descents import are_confirmed
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.portfolio.step import Omission, Outlook, Step
from blomodel.methods.run.run import Run
from blomodel.methods.search.phi_refinement import (
    find_ties,
    refine_brackets,
    refine_patterns,
    scan_axes,
    valleys,
    valleys_along_axes,
)
from blomodel.methods.search.phi_sample import SOURCE, Look, PhiSample
from blomodel.methods.search.pieces import improve_by_pieces, is_large
from blomodel.methods.value_cuts import ValueCuts
from blomodel.model.model import Model
from blomodel.text.layout import counted

POINTS = {1: 40, 2: 120, 3: 240}  # looks of the first level by upper variables, where they are cheap
FEWEST = 12  # looks of the first level where each is dear
REFINED = 4  # best samples that are refined at the first level
SCANS = 3  # along all axes
NEAR = 0.02  # first size of the last pattern, as a share of the range
FINELY = 0.01  # the same in a valley between fine looks
POLISHED = 3  # of these that are made exact
FEW_POLLS, MANY_POLLS = 8, 25  # of a pattern, before KKT pieces or instead of them
ROUNDS = 20  # of steps on the KKT pieces
CUTS_KEPT = 12  # lower answers of the sample that later serve as cuts


@dataclass(frozen=True)
class SampleOfPhi(Step):
    """Looks at phi over the whole range of x."""

    n_points: int

    name = "sample of phi"
    family = "sample"

    @classmethod
    def consider(cls, situation: Situation) -> SampleOfPhi | Omission | None:
        """For few upper variables."""
        model = situation.model
        n_x = model.x.size
        if n_x == 0:
            return None
        if not limits.SAMPLED_VARIABLES.allows(n_x):
            return Omission.by_size(cls.name, n_x, limits.SAMPLED_VARIABLES)
        if situation.has_dear_answers:
            return Omission(cls.name, "each lower answer takes many local searches")
        return cls(number_of_points(model))

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            f"the lower answer at {counted(self.n_points, 'point')} that fill the range of x, "
            "evenly and over "
            "orders of magnitude; the best are refined, and jumps of the answer located"
        )

    def run(self, run: Run, level: int) -> Outlook:
        """Look at as many new points as there were before, and refine the best."""
        sample = run.once(PhiSample, lambda: PhiSample(run))
        if level == 0:
            sample.look_at(sample.corners())
        sample.look_at(sample.spread(self.n_points * 2 ** max(level - 1, 0)))
        count = REFINED * (1 + level)
        if run.model.x.size == 1:
            run.family = "ties"
            find_ties(sample, sample.looks)
            run.family = self.family
            ends = refine_brackets(sample, count)
        else:
            share = 0.5 * len(sample.looks) ** (-1 / run.model.x.size)
            polls = FEW_POLLS if self._has_pieces(run) else MANY_POLLS
            starts = _elsewhere(run, sample, valleys(sample, count), share)
            ends = _elsewhere(run, sample, refine_patterns(sample, starts, share, polls), share)
        self._polish(run, sample, ends)
        run.family = self.family
        if run.model.x.size > 1:
            self._scan(run, sample)
        look_around(run, sample)
        return Outlook.MORE

    def _scan(self, run: Run, sample: PhiSample) -> None:
        """Look along each axis through the best point, and refine what is better there."""
        for _ in range(SCANS):
            best = run.best()
            if best is None:
                return
            here = sample.measure(best.x, best.y)
            found = scan_axes(sample, here)
            if not found.merit < here.merit - run.tolerance * (1 + abs(here.merit)):
                return
            self._polish(run, sample, refine_patterns(sample, [found], NEAR, MANY_POLLS))
            run.family = self.family

    def look_again(self, run: Run) -> None:
        """Valleys on fine lines through the best point, and twice as many points as so far.

        Where phi jumps from step to step, a narrow valley between them may be the best.
        """
        sample = run.once(PhiSample, lambda: PhiSample(run))
        for _ in range(SCANS):
            before = run.best()
            if before is None or run.model.x.size == 1:
                break
            found = valleys_along_axes(sample, sample.measure(before.x, before.y), REFINED)
            self._polish(run, sample, refine_patterns(sample, found, FINELY, MANY_POLLS))
            best = run.best()
            if best is None or best.value >= before.value - run.tolerance * (1 + abs(before.value)):
                break
        self.run(run, 1)

    @staticmethod
    def _has_pieces(run: Run) -> bool:
        """Whether the KKT pieces can make a point exact."""
        model = run.model
        return model.is_convex_below and model.has_smooth_kkt and not is_large(model)

    def _polish(self, run: Run, sample: PhiSample, ends: list[Look]) -> None:
        """Make the best ends exact: on the KKT pieces, or with cuts where the level is not convex."""
        ends = sorted((end for end in ends if np.isfinite(end.merit)), key=lambda end: end.merit)
        if not ends:
            return
        if self._has_pieces(run):
            # First-order conditions, where the sample had values only: another idea may confirm it.
            run.family = "pieces"
            for end in ends[:POLISHED]:
                improve_by_pieces(run, end.x, end.y, max_rounds=ROUNDS)
        elif not run.model.is_convex_below and run.model.x.size > 1:
            starts = [(end.x, end.y) for end in ends[:POLISHED]]
            ValueCuts().refine(run, starts, distinct_answers(sample))


def _elsewhere(run: Run, sample: PhiSample, looks: list[Look], share: float) -> list[Look]:
    """Looks that are not beside the best point, where several descents have ended there already."""
    best = run.best()
    if best is None or not are_confirmed(run):
        return looks
    ranges = zip(sample.scales, best.x, strict=True)
    reach = 2 * np.array([scale.step_at(at, share) for scale, at in ranges])
    return [look for look in looks if np.any(np.abs(look.x - best.x) > reach)]


@dataclass(frozen=True)
class SampleOfWholeAnswers(SampleOfPhi):
    """The same where the lower level has integers, so that its answers jump."""

    name = "sample of whole answers"

    @classmethod
    def consider(cls, situation: Situation) -> SampleOfPhi | Omission | None:
        """For few upper variables, none of them whole: others are given before the rest is solved."""
        model = situation.model
        if model.integer_x.any() or not model.integer_y.any():
            return None
        return super().consider(situation)

    def is_wanted(self, run: Run) -> bool:
        """Whether nothing is proven yet."""
        return not is_proven_best(run)


@dataclass(frozen=True)
class PatternAroundTheBest(Step):
    """Looks at phi around the best point, where x has too many variables for a sample."""

    name = "looks around the best"
    family = "looks"

    @classmethod
    def consider(cls, situation: Situation) -> PatternAroundTheBest | None:
        """For lower levels that are not convex, after the search."""
        is_sampled = limits.SAMPLED_VARIABLES.allows(situation.model.x.size)
        return None if is_sampled or situation.has_dear_answers else cls()

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            "lower answers around the best point, in patterns that turn and shrink; better ones are cut"
        )

    def run(self, run: Run, level: int) -> Outlook:
        """Look around the best point; cut from there if it was not the best."""
        before = run.best()
        if before is None:
            return Outlook.MORE
        sample = run.once(PhiSample, lambda: PhiSample(run))
        look_around(run, sample)
        best = run.best()
        if best is not None and best.value < before.value - run.tolerance * (1 + abs(before.value)):
            ValueCuts().refine(run, [(best.x, best.y)], distinct_answers(sample))
        return Outlook.MORE


def look_around(run: Run, sample: PhiSample) -> None:
    """Looks around the best point of all: what they do not better, they confirm."""
    best = run.best()
    if best is None:
        return
    if best.x.size > 1:
        refine_patterns(sample, [sample.measure(best.x, best.y)], NEAR, FEW_POLLS)
    best = run.best() or best
    run.propose(best.x, best.y, SOURCE)


def number_of_points(model: Model) -> int:
    """Looks of the first level: fewer where the lower level is large."""
    most = POINTS[model.x.size]
    return max(FEWEST, int(most / max(1.0, model.lower_size / 50)))


def distinct_answers(sample: PhiSample) -> list[np.ndarray]:
    """Lower answers that differ much, those at the best looks first."""
    answered = sorted(
        (look for look in sample.looks if np.isfinite(look.value)), key=lambda look: look.merit
    )
    if not answered:
        return []
    spread = np.ptp([look.y for look in answered], axis=0).max(initial=0.0)
    found: list[np.ndarray] = []
    for look in answered:
        if all(np.abs(look.y - other).max(initial=0.0) > 0.1 * spread for other in found):
            found.append(look.y)
        if len(found) == CUTS_KEPT:
            break
    return found
