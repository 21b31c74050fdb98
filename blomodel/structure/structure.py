"""What kind of bilevel problem this is: facts, each with what shows it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from blomodel.errors import LevelError
from blomodel.structure import facts
from blomodel.structure.curvature import StrongConvexity, strong_convexity
from blomodel.structure.facts import Fact
from blomodel.text.html import facts_html
from blomodel.text.layout import columns

if TYPE_CHECKING:
    from blomodel.model.model import Model
    from blomodel.problem import BilevelProblem

__all__ = ["Fact", "Structure"]

WIDTH = 100  # characters of a line


class Structure:
    """Facts about a problem; ``facts`` lists them in reading order, ``structure[name]`` finds one."""

    model: Model
    p: np.ndarray

    def __init__(self, problem: BilevelProblem) -> None:
        self.problem = problem
        self.model = problem.model
        self.p = problem.parameter_values()

    @cached_property
    def facts(self) -> list[Fact]:
        """Every fact, in reading order."""
        model, levels = self.model, self.problem.levels
        return [
            facts.variables_fact("upper variables", levels.upper),
            facts.variables_fact("lower variables", levels.lower),
            *facts.follower_facts(self.problem.followers),
            facts.coupling_fact("lower constraints with x", self._lower_constraints, levels.upper),
            facts.coupling_fact("upper constraints with y", self.problem.constraints, levels.lower),
            facts.lower_class_fact(model),
            facts.lower_smoothness_fact(model, self.problem.lower.objective.args[0]),
            facts.strong_convexity_fact(self.strong_convexity),
            facts.upper_objective_fact(model, self.problem.objective.args[0]),
            facts.direct_dependence_fact(model, self.problem.objective.args[0], levels.upper),
            facts.upper_set_fact(model, self.p),
            facts.pieces_fact(model),
        ]

    def __getitem__(self, name: str) -> Fact:
        for fact in self.facts:
            if fact.name == name:
                return fact
        raise KeyError(f"no fact {name!r}; there are {', '.join(fact.name for fact in self.facts)}")

    def __str__(self) -> str:
        rows = [(fact.name, f"{fact.value}  ({fact.evidence})") for fact in self.facts]
        return columns(rows, WIDTH)

    def level_of(self, variable: cp.Variable) -> str:
        """The level that decides a variable: "upper" or "lower"."""
        for name in ("upper", "lower"):
            if any(variable is leaf for leaf in getattr(self.problem.levels, name)):
                return name
        raise LevelError(f"'{variable.name()}' does not occur in the problem.")

    @property
    def lower_class(self) -> str:
        """LP, QP or conic, in y at fixed x; "nonconvex" where that is not known to hold."""
        return facts.lower_class(self.model)

    @cached_property
    def strong_convexity(self) -> StrongConvexity:
        """The lower objective's modulus of strong convexity in y."""
        return strong_convexity(self.model, self.p)

    @property
    def is_coupled_below(self) -> bool:
        """Whether a lower constraint contains an upper variable."""
        return bool(facts.holding(self._lower_constraints, self.problem.levels.upper))

    @property
    def is_coupled_above(self) -> bool:
        """Whether an upper constraint contains a lower variable."""
        return bool(facts.holding(self.problem.constraints, self.problem.levels.lower))

    @property
    def _lower_constraints(self) -> list[cp.Constraint]:
        return list(self.problem.lower.constraints)

    def _repr_html_(self) -> str:
        """The facts with their evidence, for notebooks."""
        return facts_html((fact.name, fact.value, fact.evidence) for fact in self.facts)
