"""The lower level as a user states it: one follower, or several that do not see one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import cvxpy as cp
from cvxpy.constraints.constraint import Constraint

from blomodel.declare.leaves import Leaves
from blomodel.declare.levels import (
    check_constraints,
    check_lower_variables,
    check_objective,
    check_ranking,
)
from blomodel.declare.multipliers import LONGEST_NAME, Multiplier
from blomodel.declare.row_values import value_of
from blomodel.errors import LevelError, ModelError
from blomodel.text.levels import level
from blomodel.text.shorten import shorten

Objective: TypeAlias = Any  # cvxpy.Minimize or cvxpy.Maximize; cvxpy leaves its args untyped
UNNAMED = "lower level"


class Lower:
    """The lower level: it answers the upper level's decision with a minimiser (or maximiser).

    Parameters
    ----------
    objective : cvxpy.Minimize or cvxpy.Maximize
    constraints : list of cvxpy constraints
        They may contain upper variables (coupled constraints).
    variables : list of cvxpy.Variable
        What the lower level decides; every other variable belongs to the upper level.
    name : str, optional
        Used in messages.
    """

    def __init__(
        self,
        objective: Objective,
        constraints: Iterable[Constraint] = (),
        variables: Sequence[cp.Variable] | None = None,
        name: str | None = None,
    ) -> None:
        self.objective: Objective = check_objective(objective, "lower")
        self.constraints: list[Constraint] = check_constraints(constraints, "lower")
        self.variables: Leaves[cp.Variable] = Leaves(check_lower_variables(variables))
        self.name: str = name or UNNAMED
        self.multipliers: dict[int, Multiplier] = {}  # those asked for, by the constraint's id

    def __str__(self) -> str:
        title = "" if self.name == UNNAMED else f"{self.name}\n"
        return title + level(self.objective, self.variables, self.constraints)

    def __repr__(self) -> str:
        decides = ", ".join(variable.name() for variable in self.variables)
        name = "" if self.name == UNNAMED else f"'{self.name}', "
        return f"Lower({name}{shorten(self.objective, 60)}; decides: {decides})"

    @property
    def sign(self) -> float:
        """+1 when the level minimises, -1 when it maximises."""
        return 1.0 if isinstance(self.objective, cp.Minimize) else -1.0

    @property
    def minimised(self) -> cp.Expression:
        """The objective as something to minimise."""
        expression = self.objective.args[0]
        return expression if self.sign > 0 else -expression

    def multiplier(self, constraint: Constraint) -> Multiplier:
        """The multiplier of one of the level's constraints, for use in the upper level: a price.

        It follows cvxpy's convention for ``dual_value``: with the level stated as a minimisation, it
        is the factor of ``left - right`` in the Lagrangian. So it is nonnegative for an inequality,
        and for ``demand - cp.sum(supply) == 0`` it is the price of a unit of demand. Where the lower
        level leaves several multipliers, the upper level takes the one that it likes best, as with y.

        Linear and convex quadratic lower levels have multipliers that can be used this way.

        Examples
        --------
        Two suppliers with costs 1 and 3 serve a demand of 8; a tax on the first one sets the price.

        >>> import cvxpy as cp, blomodel as bm
        >>> tax, supply = cp.Variable(name="tax"), cp.Variable(2, nonneg=True, name="supply")
        >>> balance = 8 - cp.sum(supply) == 0
        >>> market = bm.Lower(cp.Minimize((1 + tax) * supply[0] + 3 * supply[1]),
        ...                   [balance, supply <= 10], variables=[supply])
        >>> price = market.multiplier(balance)
        >>> problem = bm.BilevelProblem(cp.Minimize((price - 2.5) ** 2), [0 <= tax, tax <= 5], market)
        >>> problem.solve() < 1e-9
        True
        >>> round(float(tax.value), 4), round(float(price.value), 4)
        (1.5, 2.5)
        """
        if not any(constraint is own for own in self.constraints):
            raise ModelError(
                f"{shorten(constraint)!r} is no constraint of the {self.name}; keep the constraint in a "
                "variable, pass it to bm.Lower(...) and ask for the multiplier of that same object "
                "(bounds given as attributes, such as nonneg=True, must be written as constraints)."
            )
        if constraint.id not in self.multipliers:
            self.multipliers[constraint.id] = Multiplier(constraint, self._multiplier_name(constraint))
        return self.multipliers[constraint.id]

    def _multiplier_name(self, constraint: Constraint) -> str | None:
        """Rows of several followers begin alike, so a long one is called by place and follower."""
        if constraint.label or self.name == UNNAMED or len(shorten(constraint)) <= LONGEST_NAME:
            return None
        number = next(k for k, own in enumerate(self.constraints) if own is constraint)
        return f"multiplier {number + 1} of '{self.name}'"


def check_followers(lower: object, *, see_each_other: bool = False) -> tuple[Lower, ...]:
    """The lower level as a tuple of followers, each of which decides its own variables only."""
    if lower is None:
        raise ModelError(
            "No lower level was given; pass lower=bm.Lower(objective, constraints, variables=[...]). "
            "A problem without one is a plain cp.Problem."
        )
    followers = (lower,) if isinstance(lower, Lower) else lower
    if not isinstance(followers, Sequence) or not all(isinstance(f, Lower) for f in followers):
        raise ModelError(
            f"The lower level is {_type_names(lower)}; pass lower=bm.Lower(objective, constraints, "
            "variables=[...]), or a list of these for several followers."
        )
    if not followers:
        raise ModelError("lower=[] contains no follower; pass at least one bm.Lower(...).")
    names = [follower.name for follower in followers if follower.name != UNNAMED]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ModelError(f"Two followers are called '{repeated}'; give each a name of its own.")
    owners: dict[int, int] = {}
    for number, follower in enumerate(followers):
        for variable in follower.variables:
            if variable.id in owners:
                raise LevelError(
                    f"'{variable.name()}' is decided by {follower_name(followers, owners[variable.id])} "
                    f"and by {follower_name(followers, number)}; each variable has one owner."
                )
            owners[variable.id] = number
    for number, follower in enumerate(followers):
        check_ranking(follower.objective.args[0], follower.variables, follower_name(followers, number))
        for part in (follower.objective.args[0], *follower.constraints):
            if see_each_other:
                break
            _check_independence(part, number, followers, owners)
    return tuple(followers)


def _type_names(lower: object) -> str:
    if isinstance(lower, list | tuple):
        return f"a {type(lower).__name__} of {', '.join(sorted({type(x).__name__ for x in lower}))}"
    return type(lower).__name__


def _check_independence(
    part: cp.Expression | Constraint, number: int, followers: Sequence[Lower], owners: dict[int, int]
) -> None:
    """Refuse a follower whose objective or constraint holds another follower's variable."""
    for variable in part.variables():
        owner = owners.get(variable.id, number)
        if owner != number:
            raise ModelError(
                f"{shorten(part)!r} of {follower_name(followers, number)} contains '{variable.name()}', "
                f"which {follower_name(followers, owner)} decides. Followers that react to one another "
                "play a Nash game: pass lower=bm.Nash([...]). If they act jointly, state one bm.Lower "
                "with all their variables; if the upper level sets the shared quantity, make it an "
                "upper variable."
            )


def follower_name(followers: Sequence[Lower], number: int) -> str:
    """How messages call a follower: by the name that the user gave, else by its place."""
    name = followers[number].name
    if name != UNNAMED:
        return f"'{name}'"
    return f"the {UNNAMED}" if len(followers) == 1 else f"follower {number + 1}"


def joint_name(followers: Sequence[Lower]) -> str:
    """How messages call all followers together."""
    return followers[0].name if len(followers) == 1 else f"{len(followers)} followers"


def follower_values(followers: Sequence[Lower]) -> list[float]:
    """Each follower's objective at the variables' present values, as something to minimise."""
    return [follower.sign * value_of(follower.objective.args[0]) for follower in followers]
