"""The step of relaxed complementarity: KKT conditions whose products go to zero, by IPOPT."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from blomodel.basics import limits
from blomodel.methods.portfolio.effort import is_confirmed
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.portfolio.step import Omission, Outlook, Step
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import relaxed_solution, spread
from blomodel.methods.search.relaxed_path import RelaxedPath, why_not
from blomodel.solvers.direct import TooLargeError
from blomodel.text.layout import counted

SPREAD_STARTS = 2  # at the first level of effort; each further level has twice as many
MOST_SPREAD = 64
FIRST = (1.0, 0.1, 0.01)  # factors of the first t, in turn: none of them suits all problems


@dataclass(frozen=True)
class RelaxedComplementarity(Step):
    """Paths of relaxed KKT conditions, after the other searches."""

    n_pairs: int

    name = "relaxed complementarity"
    family = "relaxed complementarity"
    comes_first = False
    is_dear = True

    @classmethod
    def consider(cls, situation: Situation) -> RelaxedComplementarity | Omission | None:
        """For all problems with rows; before the other searches where these are slow."""
        model = situation.model
        is_small = limits.RELAXED_LAST.allows(situation.size)
        if model.x.size == 0 or is_small == cls.comes_first:
            return None
        reason = why_not(model)
        return cls(model.n_pairs) if reason is None else Omission(cls.name, reason)

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            "the KKT conditions with products of at most t "
            f"({counted(self.n_pairs, 'pair')}), t going to zero, by "
            "IPOPT from the relaxed problem's point, the best point so far and spread points; each end "
            "made exact on its piece"
        )

    @property
    def condition(self) -> str:
        """When it is tried."""
        return "unless a bound is reached, or two kinds of search agree"

    def is_wanted(self, run: Run) -> bool:
        """Whether there is anything to find or to confirm."""
        return not (is_proven_best(run) or is_confirmed(run) or run.is_infeasible)

    def run(self, run: Run, level: int) -> Outlook:
        """Follow paths from the starts of this level."""
        try:
            path = run.once(RelaxedPath, lambda: RelaxedPath(run))
        except TooLargeError as error:
            run.check_limits()
            run.note(f"{self.name}: {error}")
            return Outlook.DONE
        for number, x in enumerate(self._starts(run, level)):
            path.follow(x, first=FIRST[(number + level) % len(FIRST)], effort=level)
            if is_proven_best(run) or is_confirmed(run):
                break
        return Outlook.MORE

    def _starts(self, run: Run, level: int) -> Iterator[np.ndarray]:
        """Where paths begin; found one by one, as the first may do."""
        center = np.zeros(run.model.x.size)
        wished = relaxed_solution(run) if level == 0 else None
        if wished is not None:
            center = wished[0]
            yield center
        best = run.best()
        if best is not None:
            yield best.x
        count = min(SPREAD_STARTS << level, MOST_SPREAD)
        n_before = 0 if level == 0 else min(SPREAD_STARTS << (level - 1), MOST_SPREAD)
        yield from spread(run.model.bounds(run.p), center, count, run.seed)[n_before:]


@dataclass(frozen=True)
class EarlyRelaxedComplementarity(RelaxedComplementarity):
    """The same, before the other searches."""

    comes_first = True
