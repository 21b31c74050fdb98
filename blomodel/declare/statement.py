"""A bilevel problem as a plain record: what is stated, what is transformed, what is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cvxpy as cp
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.expressions.integers import Integers, renamed_integers, stated_integers
from blomodel.declare.followers import Lower, Objective, joint_name
from blomodel.declare.levels import Levels, check_constants, sort_levels
from blomodel.declare.multipliers import PricedRow, priced_rows
from blomodel.errors import ModelError


@dataclass(frozen=True)
class Partner:
    """Lower variables that belong to the rows of a lower constraint, entry by entry.

    Those of a constraint are its multiplier; those of the stationarity equations are the variables in
    which they are stationary.

    Attributes
    ----------
    position : int
        Of the constraint; the demands of variables' attributes count after all constraints, variable
        by variable, since that is where they are compiled.
    variables : tuple of cvxpy.Variable
    is_stationarity : bool
        Whether the constraint is the stationarity equations.
    """

    position: int
    variables: tuple[cp.Variable, ...]
    is_stationarity: bool = False


@dataclass(frozen=True, eq=False)
class Statement:
    """Both levels in cvxpy's expressions.

    Attributes
    ----------
    upper_objective : cvxpy expression
        To be minimised.
    upper_constraints : tuple of cvxpy constraints
    followers : tuple of Lower
        One of them where they have been joined.
    levels : Levels
        Whose variable is whose.
    priced_rows : tuple of PricedRow
        Where the upper level uses multipliers that the lower level's answer does not hold yet: all
        rows of the lower level, with the variables that stand for their multipliers.
    partners : tuple of Partner
        Where the lower level's answer holds its multipliers: which variable is whose.
    integers : dict
        By a variable's id: which of its entries must be whole. Rows know nothing of it, so that a
        statement without this is the continuous relaxation.
    is_game : bool
        Whether the followers see one another, so that their answers are an equilibrium.
    is_equilibrium : bool
        Whether the lower level stands for a game by its optimality conditions.
    """

    upper_objective: cp.Expression
    upper_constraints: tuple[Constraint, ...]
    followers: tuple[Lower, ...]
    levels: Levels
    priced_rows: tuple[PricedRow, ...] = ()
    partners: tuple[Partner, ...] = ()
    integers: Integers = field(default_factory=dict)
    is_game: bool = False
    is_equilibrium: bool = False

    @property
    def lower(self) -> Lower:
        """The lower level, where one follower stands for all."""
        if len(self.followers) != 1:
            raise ModelError(
                f"The statement has {len(self.followers)} followers; join them first "
                "(transformations.followers.JoinFollowers)."
            )
        return self.followers[0]

    def rewritten(
        self, substitute: Callable[[Any], Any], renamed: Mapping[cp.Variable, cp.Variable]
    ) -> Statement:
        """The statement in other variables.

        Parameters
        ----------
        substitute : callable
            Takes an expression or a constraint and gives the one that stands for it, such as a
            ``Substitution``.
        renamed : dict
            From a variable to the one that takes its place in its level.
        """
        if self.priced_rows:
            raise ModelError(
                "The upper level uses multipliers that the lower level does not answer with yet; apply "
                "transformations.multipliers.MultipliersInAnswer first."
            )

        def rename(variables: Sequence[cp.Variable]) -> tuple[cp.Variable, ...]:
            return tuple(renamed.get(variable, variable) for variable in variables)

        return replace(
            self,
            upper_objective=substitute(self.upper_objective),
            upper_constraints=tuple(map(substitute, self.upper_constraints)),
            followers=tuple(
                Lower(
                    type(follower.objective)(substitute(follower.objective.args[0])),
                    map(substitute, follower.constraints),
                    rename(follower.variables),
                    name=follower.name,
                )
                for follower in self.followers
            ),
            levels=Levels(rename(self.levels.upper), rename(self.levels.lower), self.levels.parameters),
            partners=tuple(replace(p, variables=rename(p.variables)) for p in self.partners),
            integers=renamed_integers(self.integers, renamed),
        )

    def with_rows(self, upper: Sequence[Constraint] = (), lower: Sequence[Constraint] = ()) -> Statement:
        """The statement with further constraints at the end of each level."""
        level = self.lower
        followers = (
            Lower(level.objective, [*level.constraints, *lower], level.variables, name=level.name),
        )
        return replace(self, upper_constraints=(*self.upper_constraints, *upper), followers=followers)


def state(
    objective: Objective,
    constraints: Sequence[Constraint],
    followers: Sequence[Lower],
    upper_variables: Sequence[cp.Variable] | None = None,
    *,
    is_game: bool = False,
    has_multipliers: bool = False,
) -> Statement:
    """The problem that a user has declared, checked; nothing is compiled for it.

    Parameters
    ----------
    objective : cvxpy.Minimize or cvxpy.Maximize
        Of the upper level.
    upper_variables : sequence of cvxpy.Variable, optional
        The upper variables, if they shall be checked.
    is_game : bool
        Whether the followers see one another.
    has_multipliers : bool
        Whether the lower level answers with its multipliers, though the upper level uses none.
    """
    upper_parts = [objective.args[0], *constraints]
    lower_parts = [follower.objective.args[0] for follower in followers]
    lower_parts += [constraint for follower in followers for constraint in follower.constraints]
    check_constants([*upper_parts, *lower_parts])
    rows = priced_rows(followers, joint_name(followers), upper_parts, has_multipliers)
    decided = [variable for follower in followers for variable in follower.variables]
    multipliers = [row.multiplier for row in rows]
    levels = sort_levels(
        upper_parts, [*lower_parts, *multipliers], [*decided, *multipliers], upper_variables
    )
    minimised = objective.args[0]
    if isinstance(objective, cp.Maximize):
        minimised = -1.0 * minimised
    integers = stated_integers((*levels.upper, *levels.lower))
    return Statement(
        minimised, tuple(constraints), tuple(followers), levels, rows, (), integers, is_game
    )
