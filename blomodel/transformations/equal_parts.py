"""Many parts that are equal up to their variables and numbers, put together as vectors.

A hundred customers, each a follower with a small objective and a few rows, are the same problem as one
follower with long vectors, and a loop over rows is the same as one row of a matrix. What is written one
by one costs as much to compile, to look at and to evaluate for each part as long vectors cost for all of
them. So summands of the objectives and rows that have the same form are put together. Variables stay as
they are, and so do values; multipliers go back to the rows that were stated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import multiply
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.constraints import Equality, Inequality, NonNeg, NonPos, Zero
from cvxpy.constraints.constraint import Constraint

from blomodel.basics import limits
from blomodel.compiler.expressions.restricting import flat_number
from blomodel.compiler.expressions.stacking import Forms, NotAlike, Stack
from blomodel.declare.followers import Lower
from blomodel.declare.point import Values
from blomodel.declare.statement import Partner, Statement
from blomodel.text.layout import counted
from blomodel.transformations.transformation import Applied, Transformation

_PLAIN = (Inequality, Equality, NonNeg, NonPos, Zero)


class EqualPartsTogether(Transformation):
    """Summands and rows of the same form as one summand and one row of long vectors."""

    name: ClassVar[str] = "equal parts together"

    def __init__(self) -> None:
        self._found: tuple[Statement, Together | None] | None = None

    def obstacle(self, statement: Statement) -> str | None:
        """Many parts must be alike."""
        if len(statement.followers) > 1:
            return "there are several followers"
        if statement.priced_rows:
            return "the lower level does not answer with its multipliers yet"
        if statement.integers:
            return "some variables must be whole"
        n_rows = len(statement.upper_constraints) + len(statement.lower.constraints)
        objectives = (statement.upper_objective, statement.lower.objective.args[0])
        if limits.SEPARATE_PARTS.allows(n_rows) and not any(map(_has_many_terms, objectives)):
            return "there are not many parts"
        return None if self._put_together(statement) is not None else "few of its parts are alike"

    def apply(self, statement: Statement) -> Applied:
        """The first part of each form gives all of them their place."""
        found = self._put_together(statement)
        assert found is not None
        return found

    def _put_together(self, statement: Statement) -> Together | None:
        """What becomes of a statement, found once; None where nothing does."""
        if self._found is None or self._found[0] is not statement:
            self._found = statement, _joined(statement, self.name)
        return self._found[1]


def _joined(statement: Statement, name: str) -> Together | None:
    upper = {variable.id for variable in statement.levels.upper}
    together = _Collection(Forms(lambda variable: variable.id in upper))
    level = statement.lower
    above, origins_above = together.rows(statement.upper_constraints)
    partners = {partner.position: partner for partner in statement.partners}
    below, origins = together.rows(level.constraints, partners)
    objective = type(level.objective)(together.sum(level.objective.args[0]))
    after = replace(
        statement,
        upper_objective=together.sum(statement.upper_objective),
        upper_constraints=tuple(above),
        followers=(Lower(objective, below, level.variables, name=level.name),),
        partners=_joined_partners(partners, origins),
    )
    if not together.n_parts:
        return None
    reason = (
        f"{together.n_parts} summands and rows have {counted(together.n_forms, 'form')}; "
        "each is one vector"
    )
    return Together(name, reason, statement, after, tuple(origins), tuple(origins_above))


@dataclass(frozen=True, eq=False)
class Together(Applied):
    """What was put together.

    Attributes
    ----------
    origins : tuple of tuple of int
        For each lower constraint after, the positions of those before.
    origins_above : tuple of tuple of int
        The same for the upper constraints.
    """

    origins: tuple[tuple[int, ...], ...]
    origins_above: tuple[tuple[int, ...], ...]

    def invert_upper_multipliers(self, multipliers: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        """Those of the upper constraints before, by position, from those after that are known."""
        found: dict[int, np.ndarray] = {}
        for position, own in multipliers.items():
            places = self.origins_above[position]
            found.update(zip(places, np.split(np.ravel(own, order="F"), len(places)), strict=True))
        return found

    def invert_multipliers(self, multipliers: list[np.ndarray], values: Values) -> list[np.ndarray]:
        """Each row's own, out of those of all rows of its form."""
        if not multipliers:
            return multipliers
        before = self.before.lower.constraints
        found: list[np.ndarray] = [np.empty(0)] * len(before)
        for own, positions in zip(multipliers, self.origins, strict=True):
            if len(positions) == 1:
                found[positions[0]] = own
                continue
            parts = np.split(np.asarray(own, dtype=float).ravel(order="F"), len(positions))
            for position, part in zip(positions, parts, strict=True):
                found[position] = np.reshape(part, before[position].shape, order="F")
        return found


class _Collection:
    """Puts parts of the same form together, and counts them."""

    def __init__(self, forms: Forms) -> None:
        self.forms = forms
        self.n_parts = self.n_forms = 0
        self._joined: dict[Hashable, Any] = {}  # variables side by side

    def _stack(self, count: int) -> Stack:
        return Stack(self.forms, count, self._joined)

    def sum(self, expression: cp.Expression) -> cp.Expression:
        """A scalar expression, with the summands of the same form as one summand."""
        groups: dict[Hashable, list[tuple[float, Any]]] = defaultdict(list)
        terms = list(_terms(expression))
        if limits.SEPARATE_PARTS.allows(len(terms)):
            return expression
        for weight, term in terms:
            groups[self.forms.of(term), weight < 0].append((weight, term))
        parts, n_stacked = [], 0
        for group in groups.values():
            members = [term for _, term in group]
            weights = np.array([weight for weight, _ in group])
            if not limits.SEPARATE_PARTS.allows(len(group)) and members[0].size == 1:
                try:
                    parts.append(self._stack(len(group)).total(members, weights))
                    n_stacked += len(group)
                    self.n_forms += 1
                    continue
                except NotAlike:
                    pass
            parts += [term if weight == 1 else weight * term for weight, term in group]
        if not n_stacked:
            return expression
        self.n_parts += n_stacked
        return parts[0] if len(parts) == 1 else AddExpression(parts)

    def rows(
        self, constraints: Sequence[Constraint], partners: Mapping[int, Partner] | None = None
    ) -> tuple[list[Constraint], list[tuple[int, ...]]]:
        """Constraints, with those of the same form as one, and which of those before each stands for."""
        groups: dict[Hashable, list[int]] = {}
        for position, constraint in enumerate(constraints):
            key: Hashable = ("alone", position)
            if isinstance(constraint, _PLAIN) and not constraint.label:
                forms = tuple(self.forms.of(arg) for arg in constraint.args)
                partner = (partners or {}).get(position)
                kind = None if partner is None else partner.is_stationarity
                key = (type(constraint), forms, constraint.shape, kind)
            groups.setdefault(key, []).append(position)
        found: list[Constraint] = []
        origins: list[tuple[int, ...]] = []
        for positions in groups.values():
            members = [constraints[position] for position in positions]
            if not limits.SEPARATE_PARTS.allows(len(members)):
                try:
                    found.append(self._row(members))
                    origins.append(tuple(positions))
                    self.n_parts += len(members)
                    self.n_forms += 1
                    continue
                except NotAlike:
                    pass
            found += members
            origins += [(position,) for position in positions]
        return found, origins

    def _row(self, members: Sequence[Constraint]) -> Constraint:
        first, stack = members[0], self._stack(len(members))
        if not first.variables():
            raise NotAlike
        columns = [[constraint.args[k] for constraint in members] for k in range(len(first.args))]
        return type(first)(*(stack.rows(column, first.shape) for column in columns))


def _joined_partners(
    partners: Mapping[int, Partner], origins: Sequence[tuple[int, ...]]
) -> tuple[Partner, ...]:
    """The partners of rows that were put together: those of each, in the order of the rows."""
    found = []
    for position, places in enumerate(origins):
        own = [partners[place] for place in places if place in partners]
        if own:
            variables = tuple(variable for partner in own for variable in partner.variables)
            found.append(Partner(position, variables, own[0].is_stationarity))
    return tuple(found)


def _terms(expression: cp.Expression, weight: float = 1.0) -> Iterator[tuple[float, Any]]:
    """The scalars that add up to a scalar expression, each with a number as its weight."""
    waiting = [(expression, weight)]
    while waiting:
        part, factor = waiting.pop()
        if isinstance(part, AddExpression) and all(arg.size == 1 for arg in part.args):
            waiting += [(arg, factor) for arg in reversed(part.args)]
        elif isinstance(part, NegExpression):
            waiting.append((part.args[0], -factor))
        elif (
            isinstance(part, multiply)
            and isinstance(part.args[0], cp.Constant)
            and _is_sum(part.args[1])
        ):
            waiting.append((part.args[1], factor * float(flat_number(part.args[0])[0])))
        else:
            yield factor, part


def _has_many_terms(expression: cp.Expression) -> bool:
    n_seen = sum(1 for _ in islice(_terms(expression), limits.SEPARATE_PARTS.value + 1))
    return not limits.SEPARATE_PARTS.allows(n_seen)


def _is_sum(expression: Any) -> bool:
    return isinstance(expression, AddExpression | NegExpression) and expression.size == 1
