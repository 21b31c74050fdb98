"""Lines of answers as a member of ``auto``: where linear followers jump from one answer to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.portfolio.step import Omission, Outlook, Step
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import nearest_allowed, spread
from blomodel.methods.search.answer_lines import AnswerLines, why_not

STARTS = 4  # spread over the range of x, and as many from the best point, at the first level


@dataclass(frozen=True)
class LinesOfAnswers(Step):
    """Descent on phi along lines, from spread starts and from the best point with some of x changed."""

    n_blocks: int

    name = "lines of answers"
    family = "lines of answers"

    @classmethod
    def consider(cls, situation: Situation) -> LinesOfAnswers | Omission | None:
        """Where the lower level is a linear program whose rows do not hold x."""
        model = situation.model
        if model.x.size == 0 or not model.is_convex_below or model.lower_program.kind != "LP":
            return None
        reason = why_not(model)
        return cls(len(model.lower_program.blocks)) if reason is None else Omission(cls.name, reason)

    @property
    def text(self) -> str:
        """What it does and why."""
        count = "one block" if self.n_blocks == 1 else f"{self.n_blocks} blocks"
        return (
            f"f where the answers of a linear lower level ({count}) change along lines of x, one or two "
            "variables at a time, from spread starts and from the best point with some of x changed"
        )

    def is_wanted(self, run: Run) -> bool:
        """Whether there is anything to find."""
        return not (is_proven_best(run) or run.is_infeasible)

    def run(self, run: Run, level: int) -> Outlook:
        """Descend from the starts of this level."""
        lines = run.once(AnswerLines, lambda: AnswerLines(run))
        for x in self._starts(run, level):
            run.check_limits()
            lines.descend(x)
        return Outlook.MORE

    def _starts(self, run: Run, level: int) -> Iterator[np.ndarray]:
        """The best point, spread ones, and the best point of each moment with some of x changed."""
        bounds, n_x = run.model.bounds(run.p), run.model.x.size
        best = run.best()
        center = np.zeros(n_x) if best is None else best.x
        if best is not None:
            yield best.x
        count, before = STARTS << level, 0 if level == 0 else STARTS << (level - 1)
        spread_points = spread(bounds, center, count, run.seed)[before:]
        draw = np.random.default_rng((run.seed, level))
        for wish in spread_points:
            start = nearest_allowed(run, wish)
            if start is not None:
                yield start[0]
            best = run.best()
            if best is not None:
                changed = draw.random(n_x) < max(2.0 / n_x, 0.2)
                kicked = nearest_allowed(run, np.where(changed, wish, best.x))
                if kicked is not None:
                    yield kicked[0]
