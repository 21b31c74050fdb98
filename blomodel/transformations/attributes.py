"""Variables with attributes (nonneg, symmetric, PSD, ...) as free variables with constraints.

A free variable has the shape and the place of the one that it stands for, so that the flat vectors of
both levels are the same before and after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import cvxpy as cp
import numpy as np

from blomodel.compiler.expressions.attributes import (
    attribute_constraints,
    has_attributes,
    joined_bounds,
    plain_copy,
)
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.declare.levels import Levels
from blomodel.declare.point import Values
from blomodel.declare.statement import Statement
from blomodel.transformations.transformation import Applied, Transformation

SHOWN_NAMES = 4  # variables in the line that tells what was done


class PlainVariables(Transformation):
    """Every demand of an attribute as a row of the level that decides the variable."""

    name: ClassVar[str] = "attributes as rows"

    def obstacle(self, statement: Statement) -> str | None:
        """Some variable must have attributes; followers and multipliers come first."""
        if len(statement.followers) > 1:
            return "there are several followers"
        if statement.priced_rows:
            return "the lower level does not answer with its multipliers yet"
        return None if _with_attributes(statement.levels) else "no variable has attributes"

    def apply(self, statement: Statement) -> Applied:
        """What attributes demand comes after all constraints of the level, variable by variable.

        Bounds of many variables of one shape are one row, in the place of the first of them.
        """
        levels = statement.levels
        plain = {variable: plain_copy(variable) for variable in (*levels.upper, *levels.lower)}
        substitute = Substitution([*plain], [*plain.values()])

        # Partners are told by the place of each row, and integers are looked for in rows of their own.
        stays_apart = bool(statement.partners or statement.integers)

        def demands(variables: tuple[cp.Variable, ...]) -> list[cp.Constraint]:
            joined = {} if stays_apart else joined_bounds(variables, plain)
            alone = {v: attribute_constraints(v, plain[v]) for v in variables if v not in joined}
            every = joined | alone
            return [row for v in variables for row in every[v]]

        after = statement.rewritten(substitute, plain)
        after = after.with_rows(demands(levels.upper), demands(levels.lower))
        return _Plain(self.name, _reason(levels), statement, after, plain)


def _with_attributes(levels: Levels) -> list[cp.Variable]:
    return [variable for variable in (*levels.upper, *levels.lower) if has_attributes(variable)]


def _reason(levels: Levels) -> str:
    names = [f"'{variable.name()}'" for variable in _with_attributes(levels)]
    shown = ", ".join(names[:SHOWN_NAMES])
    if len(names) > SHOWN_NAMES:
        shown += f" and {len(names) - SHOWN_NAMES} more"
    verb = "are" if len(names) > 1 else "is"
    return f"what is compiled has no attributes, so {shown} {verb} free and rows say the rest"


@dataclass(frozen=True, eq=False)
class _Plain(Applied):
    plain: Mapping[cp.Variable, cp.Variable]  # by the variable that it stands for

    def forward(self, values: Values, p: np.ndarray) -> Values:
        """The values under the free variables."""
        return {self.plain.get(variable, variable): value for variable, value in values.items()}

    def invert(self, values: Values) -> Values:
        """The values under the variables with attributes."""
        stated = {plain: variable for variable, plain in self.plain.items()}
        return {stated.get(variable, variable): value for variable, value in values.items()}

    def invert_multipliers(self, multipliers: list[np.ndarray], values: Values) -> list[np.ndarray]:
        """Those of the constraints, without those of attributes' demands."""
        return multipliers[: len(self.before.lower.constraints)]
