"""The problem that is left when the integers of the upper level are given: they become parameters.

It is compiled once for all values. Rows that hold nothing else than these parameters are left out and
looked at apart, since they only say which values are allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints.constraint import Constraint

from blomodel.basics.memory import remembered
from blomodel.compiler.expressions.constraints import EQUALITY, INEQUALITY
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.declare.followers import Lower
from blomodel.declare.levels import Levels
from blomodel.declare.statement import Statement
from blomodel.model.model import Model
from blomodel.model.rows import Rows

ALLOWED = 1e-9  # relative violation of a row of integers alone


@dataclass(frozen=True, eq=False)
class FixedIntegers:
    """A model whose upper integers are parameters, beside the model in which they are unknown.

    Attributes
    ----------
    whole : Model
        With the integers as unknowns.
    statement : Statement
        With parameters in their place, which come after the others.
    left_out : tuple of cvxpy constraints
        Rows that hold these parameters alone.
    """

    whole: Model
    statement: Statement
    left_out: tuple[Constraint, ...]

    @cached_property
    def model(self) -> Model:
        """Compiled on demand."""
        return Model(self.statement)

    @cached_property
    def _rows(self) -> tuple[Rows, Rows]:
        blocks = self.model.blocks
        return Rows(self.left_out, INEQUALITY, blocks), Rows(self.left_out, EQUALITY, blocks)

    def parameters(self, p: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The parameters of the model, from those of the whole and the integers' values."""
        return np.concatenate([p, values])

    def allows(self, p: np.ndarray, values: np.ndarray) -> bool:
        """Whether the rows of integers alone hold."""
        point = np.zeros(self.model.x.size), np.zeros(self.model.y.size), self.parameters(p, values)
        small = ALLOWED * (1 + np.abs(values).max(initial=0.0))
        inside, on = self._rows
        return bool(
            inside.values(*point).max(initial=0.0) <= small
            and np.abs(on.values(*point)).max(initial=0.0) <= small
        )

    def join(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The upper vector of the whole."""
        found = np.empty(self.whole.x.size)
        found[self.whole.integer_x] = values
        found[~self.whole.integer_x] = x
        return found


@remembered
def fixed_integers(model: Model) -> FixedIntegers:
    """The problem that is left when the upper integers are given."""
    statement, levels = model.statement, model.statement.levels
    old, new, free, given = [], [], [], []
    for leaf in levels.upper:
        mask = model.integer_x[model.x.slice_of(leaf)]
        if not mask.any():
            free.append(leaf)
            continue
        values = cp.Parameter(int(mask.sum()), name=f"{leaf.name()} given", value=np.zeros(mask.sum()))
        given.append(values)
        whole: cp.Expression = _places(mask) @ values
        if not mask.all():
            rest = cp.Variable(int((~mask).sum()), name=leaf.name())
            free.append(rest)
            whole = whole + _places(~mask) @ rest
        old.append(leaf)
        new.append(cp.reshape(whole, leaf.shape, order="F"))
    substitute = Substitution(old, new)
    level = statement.lower
    above, none_above = _apart([substitute(c) for c in statement.upper_constraints])
    below, none_below = _apart([substitute(c) for c in level.constraints])
    objective = type(level.objective)(substitute(level.objective.args[0]))
    left = replace(
        statement,
        upper_objective=substitute(statement.upper_objective),
        upper_constraints=tuple(above),
        followers=(Lower(objective, below, level.variables, name=level.name),),
        levels=Levels(tuple(free), levels.lower, (*levels.parameters, *given)),
        integers={
            leaf.id: statement.integers[leaf.id]
            for leaf in levels.lower
            if leaf.id in statement.integers
        },
    )
    return FixedIntegers(model, left, (*none_above, *none_below))


def _places(mask: np.ndarray) -> sp.csr_array:
    """From the entries of a mask to all."""
    at = np.flatnonzero(mask)
    return sp.csr_array((np.ones(at.size), (at, np.arange(at.size))), shape=(mask.size, at.size))


def _apart(constraints: Sequence[Constraint]) -> tuple[list[Constraint], list[Constraint]]:
    """The constraints that hold variables, and those that do not."""
    return [c for c in constraints if c.variables()], [c for c in constraints if not c.variables()]
