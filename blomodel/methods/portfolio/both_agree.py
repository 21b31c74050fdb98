"""The step of ``auto`` that asks whether the lower level answers as the upper one would wish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.portfolio.step import Outlook, Share, Step
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import relaxed_solution
from blomodel.structure.facts import holding


@dataclass(frozen=True)
class BothAgree(Step):
    """The point that the upper level would choose if it decided y too.

    Where lower rows hold x, what the upper level likes best often lies at the edge of what the lower
    level can do at all. Descents in x creep along such an edge; one convex program finds the point, and
    proves it.
    """

    name = "both levels' wish"
    family = "high point"
    share: ClassVar[Share] = Share(part=0.1)

    @classmethod
    def consider(cls, situation: Situation) -> BothAgree | None:
        """Where lower rows hold x, f is convex by cvxpy's rules, and no tree over pieces bounds it."""
        model = situation.model
        if situation.objective is not None or not holding(model.lower_constraints, model.x.leaves):
            return None
        return cls() if model.f_expression.is_convex() else None

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            "f over both levels' constraints is one convex program, and lower rows hold x: where the "
            "lower level answers at its x as the upper one wishes, that is proven best"
        )

    def run(self, run: Run, level: int) -> Outlook:
        """Solve it, and ask the lower level."""
        wish = relaxed_solution(run)
        if wish is None:
            return Outlook.SETTLED if run.is_infeasible else Outlook.DONE
        run.offer(*wish, self.name)
        return Outlook.SETTLED if is_proven_best(run) else Outlook.DONE
