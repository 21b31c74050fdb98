"""What kind of bilevel problem this is: facts, each with what shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.analysis.levels import shorten
from blomodel.analysis.polynomial import polynomial
from blomodel.errors import NonconvexLowerError

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem


@dataclass(frozen=True)
class Fact:
    """One statement about a problem and its evidence."""

    name: str
    value: str
    evidence: str


class Structure:
    """Facts about a problem; ``facts`` lists them, ``explain()`` prints them."""

    def __init__(self, problem: BilevelProblem) -> None:
        self.problem = problem
        self.model = problem.model
        self.p = problem.parameter_values()

    @cached_property
    def facts(self) -> list[Fact]:
        """Every fact, in reading order."""
        return [
            self._variables("upper variables", self.problem.levels.upper),
            self._variables("lower variables", self.problem.levels.lower),
            self._coupling_below(),
            self._coupling_above(),
            self._lower_class(),
            self._upper_objective(),
            self._upper_set(),
            self._pieces(),
        ]

    @property
    def lower_class(self) -> str:
        """LP, QP or conic, in y at fixed x; "nonconvex" where that is not known to hold."""
        try:
            return self.model.lower_program.kind
        except NonconvexLowerError:
            return "nonconvex"

    @property
    def is_coupled_below(self) -> bool:
        """Whether a lower constraint holds an upper variable."""
        return bool(self._holding(self.problem.lower.constraints, self.problem.levels.upper))

    @property
    def is_coupled_above(self) -> bool:
        """Whether an upper constraint holds a lower variable."""
        return bool(self._holding(self.problem.constraints, self.problem.levels.lower))

    @property
    def choice(self) -> str:
        """The way that ``method="auto"`` takes, in a sentence."""
        from blomodel.methods.auto import describe_choice

        return describe_choice(self.model, self.p)

    def _repr_html_(self) -> str:
        from blomodel.report.html import structure_html

        return structure_html(self)

    def explain(self) -> str:
        """The facts, and the way that ``method="auto"`` takes, for a person."""
        width = max(len(fact.name) for fact in self.facts)
        lines = [f"{f.name:<{width}}  {f.value}  ({f.evidence})" for f in self.facts]
        lines += [f"{'auto':<{width}}  {self.choice}"]
        return "\n".join(lines)

    @staticmethod
    def _holding(constraints: Sequence[Constraint], variables: Sequence[cp.Variable]) -> list[str]:
        ids = {variable.id for variable in variables}
        return [
            shorten(constraint, 50)
            for constraint in constraints
            if any(variable.id in ids for variable in constraint.variables())
        ]

    def _variables(self, name: str, variables: Sequence[cp.Variable]) -> Fact:
        total = sum(variable.size for variable in variables)
        names = ", ".join(f"{v.name()} {v.shape}" if v.ndim else v.name() for v in variables)
        return Fact(name, str(total), names)

    def _coupling_below(self) -> Fact:
        held = self._holding(self.problem.lower.constraints, self.problem.levels.upper)
        return _coupling_fact("lower constraints with x", held, self.problem.lower.constraints)

    def _coupling_above(self) -> Fact:
        held = self._holding(self.problem.constraints, self.problem.levels.lower)
        return _coupling_fact("upper constraints with y", held, self.problem.constraints)

    def _lower_class(self) -> Fact:
        try:
            program = self.model.lower_program
        except NonconvexLowerError as error:
            return Fact("lower level", "nonconvex", str(error))
        return Fact("lower level", f"{program.kind} in y at fixed x", program.reason)

    def _upper_objective(self) -> Fact:
        in_x = polynomial(self.model.f, variable="x", coefficient="y")
        in_y = polynomial(self.model.f, variable="y", coefficient="x")
        degree = max(in_x.degree[0], in_y.degree[0])
        kinds = {0: "constant", 1: "linear in each level", 2: "quadratic in each level"}
        value = kinds.get(int(degree), "nonlinear")
        direct = "depends on x directly" if in_x.degree[0] else "depends on x only through y"
        return Fact("upper objective", value, direct)

    def _upper_set(self) -> Fact:
        lower, upper = self.model.bounds(self.p)
        n_box = int((np.isfinite(lower) & np.isfinite(upper)).sum())
        n_rows = len(self.model.upper_in) + len(self.model.upper_eq)
        if n_rows == 0:
            return Fact("upper set", "all of the space", "no upper constraints")
        shape = "polyhedron" if self.model.has_affine_upper_rows else "curved set"
        return Fact(
            "upper set", shape, f"{n_rows} rows; {n_box} of {lower.size} x bounded both ways"
        )

    def _pieces(self) -> Fact:
        n_pairs = len(self.model.lower_in)
        if not self.model.has_smooth_kkt:
            return Fact("KKT pieces", "not written", "the lower level has a matrix constraint")
        kind = "linear" if self.model.has_linear_kkt else "nonlinear"
        return Fact("KKT conditions", kind, f"{n_pairs} complementarity pairs")


def _coupling_fact(name: str, held: list[str], constraints: Sequence[Constraint]) -> Fact:
    if not held:
        return Fact(name, "none", f"{len(constraints)} constraints looked at")
    return Fact(name, f"{len(held)} of {len(constraints)}", f"for example {held[0]}")
