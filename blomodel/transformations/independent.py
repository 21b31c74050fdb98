"""A problem that is several problems: variables and rows of both levels that never meet.

Where entries of x and y fall into groups, no row of either level holds entries of two groups, and both
objectives are sums over the groups, each group is a problem of its own: the optimal value is the sum of
theirs, a bound is the sum of bounds, and their points side by side are the point. Groups are found entry
by entry, so that a matrix of decisions, a row for each hour, goes apart by hours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.constraints import Equality, Inequality, NonNeg, NonPos, Zero
from cvxpy.constraints.constraint import Constraint

from blomodel.basics import limits
from blomodel.basics.memory import remembered
from blomodel.compiler.expressions.constraints import EQUALITY, as_row
from blomodel.compiler.expressions.restricting import NotSeparable, Owners, Restriction
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.meetings import Meetings
from blomodel.declare.followers import Lower
from blomodel.declare.levels import Levels
from blomodel.declare.statement import Partner, Statement
from blomodel.model.model import Model
from blomodel.model.rows import Rows

_PLAIN = (Inequality, Equality, NonNeg, NonPos, Zero)  # rows of these can go to different groups


@dataclass(frozen=True, eq=False)
class Part:
    """One of several problems that a problem consists of.

    Attributes
    ----------
    x, y : arrays of int
        Where its variables lie in the vectors of the whole problem.
    """

    fork: _Fork
    group: int
    x: np.ndarray
    y: np.ndarray

    @cached_property
    def model(self) -> Model:
        """Compiled on demand; it has the parameters of the whole problem."""
        return Model(self.fork.statement_of(self.group))


@remembered  # plan, search and certificate ask
def independent_parts(model: Model) -> tuple[Part, ...]:
    """The problems that a problem consists of, at least two; none where it is one problem."""
    if model.y.size < 2:
        return ()
    x_group, y_group = _groups(model)
    n_groups = 1 + max(int(y_group.max(initial=0)), int(x_group.max(initial=0)))
    if n_groups < 2:
        return ()
    fork = _Fork(model.statement, x_group, y_group)
    parts = tuple(
        Part(fork, group, np.flatnonzero(x_group == group), np.flatnonzero(y_group == group))
        for group in range(n_groups)
    )
    try:
        fork.statement_of(0)
    except NotSeparable:
        return ()
    return parts


def _groups(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The group of each entry of x and of y, counted from 0; each group holds some y."""
    meetings = Meetings({"x": model.x.size, "y": model.y.size})
    for tape in (model.f, model.g):
        meetings.add(tape, is_sum=True)
    statement = model.statement
    partners = {partner.position: partner for partner in statement.partners}
    for rows in (model.upper_in, model.upper_eq):
        _add_rows(meetings, rows, statement.upper_constraints, model, {})
    for rows in (model.lower_in, model.lower_eq):
        _add_rows(meetings, rows, statement.lower.constraints, model, partners)
    label = meetings.components()[: meetings.n_entries]
    of_x, of_y = label[: model.x.size], label[model.x.size :]
    # Without x nothing is decided, so that all such groups are one; without y there is no lower level.
    lonely = ~np.isin(of_y, of_x)
    if lonely.any():
        of_y = np.where(lonely, of_y[lonely][0], of_y)
    of_x = np.where(np.isin(of_x, of_y), of_x, of_y[0])
    _, first, number = np.unique(np.concatenate([of_x, of_y]), return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[number]
    count = int(rank.max(initial=0)) + 1
    if not limits.PARTS.allows(count):
        rank = rank * limits.PARTS.value // count
    return rank[: of_x.size], rank[of_x.size :]


def _add_rows(
    meetings: Meetings,
    rows: Rows,
    constraints: Sequence[Constraint],
    model: Model,
    partners: Mapping[int, Partner],
) -> None:
    """Tie what meets in each row, and the rows to the variables that belong to them."""
    vertices = np.empty(0, int) if rows.tape is None else meetings.add(rows.tape, is_sum=False)
    spectral = dict(rows.spectral)
    for position, part in rows.slices.items():
        if position in spectral:
            own = meetings.add(lower([spectral[position]], model.blocks), is_sum=False)
        else:
            own = vertices[part]
        if not isinstance(constraints[position], _PLAIN):
            meetings.tie(own[:1], own)
        if position in partners:
            leaves = partners[position].variables
            places = [np.arange(model.y.size)[model.y.slice_of(leaf)] for leaf in leaves]
            meetings.tie(own, meetings.entries("y")[np.concatenate(places)])


class _Fork:
    """The statement of each group, from that of all."""

    owners: Owners

    def __init__(self, statement: Statement, x_group: np.ndarray, y_group: np.ndarray) -> None:
        self.statement = statement
        levels = statement.levels
        self.groups: dict[int, np.ndarray] = {
            leaf.id: group[block.slice_of(leaf)]
            for block, group in ((levels.x, x_group), (levels.y, y_group))
            for leaf in block.leaves
        }
        self.owners = Owners(self.groups)
        self._rows = (statement.upper_constraints, statement.lower.constraints)
        self._n_groups = 1 + max(int(y_group.max(initial=0)), int(x_group.max(initial=0)))

    @cached_property
    def _concerned(self) -> list[list[list[tuple[int, str, Any]]]]:
        """For the rows of each level and for each group, those that it may have a part in."""
        return [_concerned(self.owners, rows, self._n_groups) for rows in self._rows]

    @cached_property
    def first(self) -> Statement:
        """What the first group's problem is: whether the groups go apart is tried on it."""
        return self._statement_of(0)

    def statement_of(self, group: int) -> Statement:
        """What the group's problem is."""
        return self.first if group == 0 else self._statement_of(group)

    def _statement_of(self, group: int) -> Statement:
        statement, levels = self.statement, self.statement.levels
        own = {
            leaf.id: self._own(leaf, group)
            for leaf in (*levels.upper, *levels.lower)
            if np.any(self.groups[leaf.id] == group)
        }
        restriction = Restriction(self.owners, group, own)

        def those(leaves: Sequence[cp.Variable]) -> tuple[cp.Variable, ...]:
            return tuple(own[leaf.id] for leaf in leaves if leaf.id in own)

        upper_rows, lower_rows = (
            _restricted(restriction, rows, concerned[group])
            for rows, concerned in zip(self._rows, self._concerned, strict=True)
        )
        f = restriction.sum(statement.upper_objective)
        g = restriction.sum(statement.lower.minimised)
        y = those(levels.lower)
        if g is None:  # every feasible y is an answer
            g = cp.sum(0.0 * cp.vec(y[0], order="F"))
        place = {old: new for new, old in enumerate(lower_rows)}
        return replace(
            statement,
            upper_objective=cp.Constant(0.0) if f is None else f,
            upper_constraints=tuple(upper_rows.values()),
            followers=(Lower(cp.Minimize(g), lower_rows.values(), y, name=statement.lower.name),),
            levels=Levels(those(levels.upper), y, levels.parameters),
            partners=tuple(
                replace(partner, position=place[partner.position], variables=those(partner.variables))
                for partner in statement.partners
                if partner.position in place
            ),
            integers={
                own[key].id: mask[self.groups[key] == group]
                for key, mask in statement.integers.items()
                if key in own
            },
        )

    def _own(self, leaf: cp.Variable, group: int) -> cp.Variable:
        mine = np.flatnonzero(self.groups[leaf.id] == group)
        if mine.size == leaf.size:
            return leaf
        return cp.Variable(mine.size, name=f"{leaf.name()}{_indices(leaf, mine)}")


def _indices(leaf: cp.Variable, entries: np.ndarray) -> str:
    """Which entries of a variable: the first, and the last where there are several."""
    where = [np.unravel_index(int(k), leaf.shape, order="F") for k in (entries[0], entries[-1])]
    first, last = (",".join(str(int(i)) for i in place) for place in where)
    return f"[{first}]" if entries.size == 1 else f"[{first}..{last}]"


def _concerned(
    owners: Owners, constraints: Sequence[Constraint], n_groups: int
) -> list[list[tuple[int, str, Any]]]:
    """For each group, the constraints that may have rows of it: position, kind and the rows of all."""
    found: list[list[tuple[int, str, Any]]] = [[] for _ in range(n_groups)]
    for position, constraint in enumerate(constraints):
        kind, row = as_row(constraint)
        low, high = owners.of(row)
        # The first group is asked about all of them: rows without variables are its own, and it finds
        # those in which groups meet.
        for group in {0, *np.unique(np.concatenate([low, high])).tolist()}:
            if 0 <= group < n_groups:
                found[group].append((position, kind, row))
    return found


def _restricted(
    restriction: Restriction,
    constraints: Sequence[Constraint],
    concerned: Sequence[tuple[int, str, Any]],
) -> dict[int, Constraint]:
    """The group's rows of the constraints, by the constraints' positions."""
    found = {}
    for position, kind, row in concerned:
        constraint = constraints[position]
        at = restriction.entries(row)
        if not at.size:
            continue
        if at.size == row.size and row.variables() and restriction.is_untouched(row):
            found[position] = constraint
            continue
        if isinstance(constraint, _PLAIN):
            chosen = restriction.select(row, at)
            new = chosen == 0 if kind == EQUALITY else chosen <= 0
        else:
            new = constraint.copy([restriction.full(arg) for arg in constraint.args])
        if constraint.label:
            new.set_label(constraint.label)
        found[position] = new
    return found
