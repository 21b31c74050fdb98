"""Steps of ``auto`` where f is convex in x and y together: what the upper level would wish for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.portfolio.step import Outlook, Share, Step
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import relaxed_solution
from blomodel.methods.search.tangents import SAFE, Tangents
from blomodel.structure.facts import holding
from blomodel.structure.joint_convexity import JointConvexity

NEAR = 1e-2  # relative: a bound so near to the best value may yet meet a better one


@dataclass(frozen=True)
class TangentBound(Step):
    """What the upper level could wish for, as a bound."""

    name = "tangents of f"
    may_prove = True
    share: ClassVar[Share] = Share(part=0.1)

    @classmethod
    def consider(cls, situation: Situation) -> TangentBound | None:
        """Where f is convex in x and y together, and no tree over pieces bounds it anyway."""
        model = situation.model
        if situation.objective is not None or model.x.size == 0:
            return None
        return cls() if JointConvexity(model, situation.p).holds_for(model.f_expression) else None

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            "f is convex in x and y together, so its tangents at the best point bound it over both "
            "levels' constraints by linear programs; where that meets the value, it is proven"
        )

    def run(self, run: Run, level: int) -> Outlook:
        """Bound f from the best point; again at the next level where little is missing."""
        bound = run.once(Tangents, lambda: Tangents(run)).bound_at_the_best()
        run.raise_bound(bound, "tangents over both levels' constraints", SAFE, is_lowered=True)
        if is_proven_best(run):
            return Outlook.SETTLED
        best = run.best()
        may_yet = best is None or best.value - bound <= NEAR * (1 + abs(best.value))
        return Outlook.MORE if may_yet else Outlook.DONE


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
