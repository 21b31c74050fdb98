"""Multipliers of lower constraints as quantities that the upper level may use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.expressions.attributes import attribute_constraints, plain_copy
from blomodel.compiler.expressions.constraints import INEQUALITY, SPECTRAL, as_row
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.errors import LevelError, ModelError
from blomodel.text.shorten import shorten

if TYPE_CHECKING:
    from blomodel.declare.followers import Lower

LONGEST_NAME = 40  # characters of a constraint that its multiplier is called by
EQUIVALENTS = (
    "only linear and convex quadratic lower levels have multipliers that the upper level can use "
    "(write abs, max and the like with an extra variable and affine constraints)"
)


class Multiplier(cp.Variable):
    """The multiplier of a lower constraint; made by ``Lower.multiplier``."""

    def __init__(self, constraint: Constraint, name: str | None = None) -> None:
        kind, row = as_row(constraint)
        if kind == SPECTRAL or len(constraint.args) > 2 or constraint.size != row.size:
            raise ModelError(f"{shorten(constraint)!r} is a cone constraint; {EQUIVALENTS}.")
        super().__init__(row.shape, name=name or _name(constraint), nonneg=kind == INEQUALITY)
        self.constraint = constraint
        self.take_dual_value()

    def take_dual_value(self) -> None:
        """Hold what the last solve found for the constraint, if anything."""
        dual = self.constraint.dual_value
        if dual is not None and not isinstance(dual, list) and np.size(dual) == self.size:
            self.save_value(np.reshape(dual, self.shape, order="F"))


def _name(constraint: Constraint) -> str:
    """By the constraint's label, else by what it says; of a long one its beginning."""
    if constraint.label:
        return f"multiplier of '{constraint.label}'"
    written = shorten(constraint, 10**6)
    if len(written) <= LONGEST_NAME:
        return f"multiplier of {written}"
    return f"multiplier of '{written[:LONGEST_NAME].rstrip()}...'"


@dataclass(frozen=True, eq=False)
class PricedRow:
    """A constraint of the lower level as ``expression <= 0`` or ``== 0``, and its multiplier."""

    constraint: Constraint
    expression: cp.Expression
    multiplier: Multiplier


def priced_rows(
    followers: Sequence[Lower],
    name: str,
    upper_parts: Sequence[cp.Expression | Constraint],
    is_asked: bool = False,
) -> tuple[PricedRow, ...]:
    """Every row of the lower level with its multiplier, where the upper level uses one; else none.

    The constraints of all followers come first, then the demands of their variables' attributes.

    Parameters
    ----------
    name : str
        Of the followers together.
    is_asked : bool
        Whether they are wanted although the upper level uses none.

    Raises
    ------
    LevelError
        When a multiplier is used below, or belongs to a level that is not part of the problem.
    """
    used = {v.id: v for part in upper_parts for v in part.variables() if isinstance(v, Multiplier)}
    own = {m.id for follower in followers for m in follower.multipliers.values()}
    for follower in followers:
        for part in (follower.objective.args[0], *follower.constraints):
            _check_uses_none(part)
    for variable in used.values():
        if variable.id not in own:
            raise LevelError(
                f"'{variable.name()}' belongs to a lower level that is not part of this problem; ask "
                "the bm.Lower that is passed as lower=... for it."
            )
    if not used and not is_asked:
        return ()
    asked = {key: m for follower in followers for key, m in follower.multipliers.items()}
    rows = []
    for number, constraint in enumerate(_all_constraints(followers)):
        multiplier = asked.get(constraint.id)
        if multiplier is None:
            known = f"multiplier of '{constraint.label}'" if constraint.label else None
            multiplier = Multiplier(constraint, known or f"multiplier {number} of {name}")
        rows.append(PricedRow(constraint, as_row(constraint)[1], multiplier))
    return tuple(rows)


def _check_uses_none(part: cp.Expression | Constraint) -> None:
    for variable in part.variables():
        if isinstance(variable, Multiplier):
            raise LevelError(
                f"{shorten(part)!r} of the lower level contains a multiplier ('{variable.name()}'); "
                "multipliers are known only when the lower level has answered, so only the upper "
                "level can use them."
            )


def _all_constraints(followers: Sequence[Lower]) -> list[Constraint]:
    """What was stated, then what attributes demand, in the order in which both are compiled."""
    constraints = [constraint for follower in followers for constraint in follower.constraints]
    for variable in (variable for follower in followers for variable in follower.variables):
        plain = plain_copy(variable)
        back = Substitution([plain], [variable])
        constraints += [back(demand) for demand in attribute_constraints(variable, plain)]
    return constraints
