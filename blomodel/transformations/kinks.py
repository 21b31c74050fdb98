"""Kinks of both levels as variables of their own: the lower level is then a QP at fixed x.

Pieces of KKT conditions, and tests of a point's neighbourhood, want rows and multipliers: a lasso has
none of them as it is written, but with t >= y and t >= -y it has. A kink of the upper level becomes an
upper variable, bounded from below by rows that may hold y.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.basics import limits
from blomodel.basics.memory import remembered
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.rewriting import Substitution, rewrite
from blomodel.compiler.lowering import lower
from blomodel.compiler.tape import Tape
from blomodel.declare.followers import Lower
from blomodel.declare.levels import Levels
from blomodel.declare.point import Point, Values
from blomodel.declare.statement import Statement
from blomodel.errors import NonconvexLowerError
from blomodel.model.model import Model
from blomodel.model.sizes import SimplerSizes
from blomodel.programs.lifting import Lifting
from blomodel.transformations.chain import Chain
from blomodel.transformations.equivalent import Equivalent
from blomodel.transformations.transformation import Applied, Transformation


class VariablesForKinks(Transformation):
    """A further variable for each kink of either level that bounds from below can stand for.

    Parameters
    ----------
    x_bounds : tuple of arrays
        Bounds on x, from which signs of weights are found.
    at_any_size : bool
        Whether they are wanted for large problems too.
    """

    x_bounds: tuple[np.ndarray, np.ndarray]
    at_any_size: bool

    name: ClassVar[str] = "variables for kinks"

    def __init__(self, x_bounds: tuple[np.ndarray, np.ndarray], *, at_any_size: bool = False) -> None:
        self.x_bounds, self.at_any_size = x_bounds, at_any_size

    def obstacle(self, statement: Statement) -> str | None:
        """There must be kinks, few variables, and no multipliers in the answer."""
        size = max(statement.levels.x.size, statement.levels.y.size)
        if not self.at_any_size and not limits.PIECE_UNKNOWNS.allows(size):
            return f"the KKT conditions have more than {limits.PIECE_UNKNOWNS}"
        if statement.partners:
            return "the lower answer contains multipliers, which would not be those of the new rows"
        further = [variable for lifting in self._lift(statement) for variable, _ in lifting.definitions]
        if not further:
            return "there are no kinks that rows could stand for"
        smallest = min(size, sum(variable.size for variable in further))
        if not self.at_any_size and not limits.KINK_FREE_VARIABLES.allows(smallest):
            return f"there are more than {limits.KINK_FREE_VARIABLES}"
        return None

    @remembered  # whether there are kinks and what they become is found out together
    def _lift(self, statement: Statement) -> tuple[Lifting, Lifting]:
        """The upper and the lower level with new variables."""
        levels, level = statement.levels, statement.lower
        blocks = (levels.x, levels.y, levels.p)
        g = rewrite(level.minimised, SimplerSizes(blocks, self.x_bounds))
        below = Lifting([g], level.constraints, blocks, self.x_bounds)
        # The upper level decides over both x and y, as far as its kinks are concerned.
        both = (Block("x", ()), Block("y", (*levels.upper, *levels.lower)), levels.p)
        nothing = (np.zeros(0), np.zeros(0))
        above = Lifting([statement.upper_objective], statement.upper_constraints, both, nothing)
        return above, below

    def apply(self, statement: Statement) -> Applied:
        """New variables come last in their level, and so do the rows that bound them."""
        above, below = self._lift(statement)
        levels = statement.levels
        # Rows bound the new variables from below, so that signs of their own would say nothing more.
        further = [variable for lifting in (above, below) for variable, _ in lifting.definitions]
        free = [cp.Variable(variable.shape, name=variable.name()) for variable in further]
        substitute = Substitution(further, free)
        n_above = len(above.definitions)

        def all_of(constraints: Sequence[Constraint]) -> list[Constraint]:
            return [substitute(constraint) for constraint in constraints]

        lower_variables = (*levels.lower, *free[n_above:])
        after = replace(
            statement,
            upper_objective=substitute(above.terms[0]),
            upper_constraints=tuple(all_of(above.constraints)),
            followers=(
                Lower(
                    cp.Minimize(substitute(below.terms[0])),
                    all_of(below.constraints),
                    lower_variables,
                    name=statement.lower.name,
                ),
            ),
            levels=Levels((*levels.upper, *free[:n_above]), lower_variables, levels.parameters),
        )
        blocks = (after.levels.x, after.levels.y, after.levels.p)

        def definitions(lifting: Lifting, leaves: Sequence[cp.Variable]) -> list[Definition]:
            return [
                Definition(leaf, [lower([substitute(part) - leaf], blocks) for part in parts])
                for leaf, (_, parts) in zip(leaves, lifting.definitions, strict=True)
            ]

        number = sum(leaf.size for leaf in free)
        who = f"{number} further variables stand" if number > 1 else "a further variable stands"
        return _KinkFree(
            name=self.name,
            reason=f"{who} for absolute values, maxima and the like, so that rows tell their sides",
            before=statement,
            after=after,
            # Those above may hold those below.
            definitions=[
                *definitions(below, free[n_above:]),
                *definitions(above, free[:n_above]),
            ],
        )


@dataclass(frozen=True, eq=False)
class Definition:
    """A new variable, and expressions less this variable, of which it is the largest."""

    variable: cp.Variable
    parts: list[Tape]


@dataclass(frozen=True, eq=False)
class _KinkFree(Applied):
    definitions: list[Definition]

    def forward(self, values: Values, p: np.ndarray) -> Values:
        """The values with those of the new variables, as they are at an answer."""
        levels = self.after.levels
        before = self.before.levels
        if not all(leaf in values for leaf in (*before.upper, *before.lower)):
            return values
        nothing = {d.variable: np.zeros(d.variable.shape) for d in self.definitions}
        lifted = Point.of_values(levels, {**values, **nothing})
        for definition in self.definitions:
            block = levels.y if definition.variable in levels.y else levels.x
            vector = lifted.y if block is levels.y else lifted.x
            # Its own value is still 0 here. One variable may stand for the maximum of a vector.
            n = definition.variable.size
            values_of_parts = [part(lifted.x, lifted.y, p).reshape(n, -1) for part in definition.parts]
            vector[block.slice_of(definition.variable)] = np.hstack(values_of_parts).max(axis=1)
        return lifted.values

    def invert(self, values: Values) -> Values:
        """The values without those of the new variables."""
        new = {definition.variable.id for definition in self.definitions}
        return {variable: value for variable, value in values.items() if variable.id not in new}

    def invert_multipliers(self, multipliers: list[np.ndarray], values: Values) -> list[np.ndarray]:
        """Those of the constraints, without those of the new rows."""
        # What replaced a constraint has rows of the same number, order and sign.
        return multipliers[: len(self.before.lower.constraints)]


@remembered  # search, certificate and explanation ask
def without_kinks(model: Model) -> Equivalent:
    """The model with variables for its kinks; the model itself where that gives no QP below."""
    chain = Chain(model.statement).where_accepted(VariablesForKinks(model.x_bounds))
    if not chain.steps:
        return Equivalent.to_itself(model)
    kink_free = Model(chain.end)
    try:
        if kink_free.lower_program.kind != "conic":
            return Equivalent(kink_free, chain)
    except NonconvexLowerError:
        pass
    return Equivalent.to_itself(model)


@remembered
def with_smooth_functions(model: Model) -> Equivalent:
    """The model with variables for its kinks, at every size; the model itself where there are none."""
    small = without_kinks(model)
    if not small.is_same:
        return small
    chain = Chain(model.statement).where_accepted(VariablesForKinks(model.x_bounds, at_any_size=True))
    return Equivalent(Model(chain.end), chain) if chain.steps else Equivalent.to_itself(model)


@remembered  # points of one model are certified again and again
def rows_for_kinks(model: Model) -> Equivalent:
    """The model with variables for its kinks, whatever its size and whatever that makes of it."""
    chain = Chain(model.statement).where_accepted(VariablesForKinks(model.x_bounds, at_any_size=True))
    return Equivalent(Model(chain.end), chain) if chain.steps else Equivalent.to_itself(model)
