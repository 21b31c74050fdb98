"""Zero-sum problems, and problems in which both levels agree: one convex program each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blomodel.errors import ModelError
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.portfolio.step import Omission, Outlook, Step
from blomodel.methods.run.run import Run
from blomodel.methods.search.pieces import answer_below
from blomodel.transformations.zero_sum import (
    Interest,
    Relation,
    find_relation,
    find_saddle,
    why_no_saddle,
)


@dataclass(frozen=True)
class OneProgram(Step):
    """One convex program in place of two levels."""

    relation: Relation
    has_integers: bool = False

    name = "one convex program"
    family = "one convex program"

    @classmethod
    def consider(cls, situation: Situation) -> OneProgram | Omission | None:
        """Where f and rows with y are multiples of g up to terms in x, and the program is convex."""
        model, p = situation.model, situation.p
        relation = find_relation(model, p)
        if relation is None or model.integer_y.any():
            return None
        if model.has_integers and relation.interest is Interest.COMMON:
            return None
        if relation.interest is Interest.OPPOSED:
            obstacle = why_no_saddle(model, p)
            is_one = obstacle is None
            return cls(relation, model.has_integers) if is_one else Omission(cls.name, str(obstacle))
        try:
            _ = model.relaxation_program
        except ModelError:
            return Omission(cls.name, "both levels agree, but are not convex in x and y together")
        return cls(relation)

    @property
    def text(self) -> str:
        """What it does and why."""
        c = f"{self.relation.factor:.6g}"
        if self.relation.rows:
            return self._text_for_rows()
        if self.has_integers:
            return (
                f"the game is zero-sum: f + {c} g depends on x alone, so the lower dual takes its place "
                "and both levels are one mixed-integer program, whose optimum is the bound"
            )
        if self.relation.interest is Interest.OPPOSED:
            return (
                f"the game is zero-sum: f + {c} g depends on x alone, so the lower dual takes its "
                "place and both levels are one convex program, with the y that no x beats as proof"
            )
        return (
            f"both levels want the same: f - {c} g depends on x alone, so the best point of both "
            "levels' constraints is a lower answer"
        )

    def _text_for_rows(self) -> str:
        if self.relation.interest is Interest.COMMON:
            return (
                "both levels want the same: f and the upper rows with y rise with g, up to terms in x "
                "alone, so the best point of both levels' constraints has a lower answer as good"
            )
        kind = "mixed-integer" if self.has_integers else "convex"
        return (
            "the upper rows with y must hold for the lower level's every y, which is a zero-sum game: "
            "they fall as g rises, up to terms in x alone, so the lower dual takes its place and both "
            f"levels are one {kind} program"
        )

    def run(self, run: Run, level: int) -> Outlook:
        """Solve the program, and answer at its x."""
        if self.relation.interest is Interest.OPPOSED:
            saddle = find_saddle(run.model, run.p, self.relation, run.deadline)
            if saddle is None:
                return Outlook.DONE
            x, y, bound = saddle.x, np.zeros(run.model.y.size), saddle.bound
            source = "the lower answer that no x does better against (zero-sum)"
            if run.model.integer_x.any():
                source = "the lower dual in place of the lower level (zero-sum), a mixed-integer program"
        else:
            answer = run.model.relaxation_program.solve(np.empty(0), run.p, accuracy=1e-9)
            if not answer.status.has_point:
                return Outlook.DONE
            x, y = np.split(answer.y, [run.model.x.size])
            bound, source = answer.value, "the constraints of both levels, which agree"
        found = answer_below(run, x, y)
        run.step(x=found.x, value=found.value, gap=found.gap)
        # A bound that no point reaches is no worse than none, but it would only be a surprise here.
        if found.value >= bound - run.tolerance * (1 + abs(bound)):
            run.raise_bound(bound, source)
        return Outlook.SETTLED if is_proven_best(run) else Outlook.DONE
