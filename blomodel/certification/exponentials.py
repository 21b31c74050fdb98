"""Upper variables that a model knows by their exponentials alone, in which KKT conditions may be linear.

A weight that is written as ``cp.exp(v)`` makes the lower level's KKT conditions nonlinear, and nothing
else does in many models of machine learning. With u = exp(v - v'), where v' is the value at the point
that is looked at, they are linear in u. It is one there, and changes as v does, so that slopes, and what
counts as tight, are the same in both, and a local optimum in one is a local optimum in the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.index import index, special_index
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.reshape import reshape
from cvxpy.atoms.affine.transpose import transpose
from cvxpy.atoms.elementwise.exp import exp
from cvxpy.constraints.constraint import Constraint
from cvxpy.constraints.nonpos import Inequality

from blomodel.basics.memory import remembered
from blomodel.certification.surroundings import Place
from blomodel.compiler.expressions.rewriting import Substitution, rewrite
from blomodel.declare.levels import Levels
from blomodel.declare.statement import Statement
from blomodel.model.model import Model

CHOICES = (index, special_index, reshape, transpose, Promote)  # that take entries as they are


def with_linear_conditions(place: Place) -> Place:
    """The place with variables for exponentials, where its KKT conditions are linear in these."""
    found = _exchanged(place.model)
    if found is None:
        return place
    x, reference = place.x.copy(), []
    for variable in found.variables:
        part = place.model.x.slice_of(variable)
        reference.append(x[part].copy())
        x[part] = 1.0
    return replace(place, model=found.model, p=np.concatenate([place.p, *reference]), x=x)


@dataclass(frozen=True)
class _Exchanged:
    """A model with variables for exponentials, and the variables whose place they take.

    Its parameters are followed by the values that the old variables have at the point.
    """

    model: Model
    variables: tuple[cp.Variable, ...]


@remembered  # points of one model are certified again and again
def _exchanged(model: Model) -> _Exchanged | None:
    """The model with linear KKT conditions; None where exponentials are not all that is in the way."""
    statement = model.statement
    if statement.priced_rows or statement.integers or len(statement.followers) != 1:
        return None
    if model.has_linear_kkt or not model.has_constant_curvature_below:
        return None
    chosen = _known_by_exponentials(statement)
    if not chosen:
        return None
    found = _Exchange(chosen).apply(statement)
    other = Model(found)
    return _Exchanged(other, chosen) if other.has_linear_kkt else None


def _known_by_exponentials(statement: Statement) -> tuple[cp.Variable, ...]:
    """Upper variables of which exponentials and bounds are all that the statement holds."""
    chosen = tuple(
        variable
        for variable in statement.levels.upper
        if not any(variable.attributes.values()) and variable.size
    )
    level = statement.lower
    above = [statement.upper_objective, *statement.upper_constraints]
    parts = [*above, level.objective.args[0], *level.constraints]
    while chosen:
        exchange = _Exchange(chosen)
        left = {leaf.id for part in map(exchange, parts) for leaf in part.variables()}
        kept = tuple(variable for variable in chosen if variable.id not in left)
        if len(kept) == len(chosen):
            return tuple(variable for variable in chosen if variable.id in exchange.seen)
        chosen = kept
    return ()


class _Exchange:
    """Exponentials of variables exchanged for variables, and bounds on them for bounds on those."""

    def __init__(self, variables: tuple[cp.Variable, ...]) -> None:
        self.variables = variables
        self.references = [cp.Parameter(v.shape, name=f"{v.name()} here") for v in variables]
        self.factors = [cp.Variable(v.shape, name=f"exp({v.name()})") for v in variables]
        self.seen: set[int] = set()  # variables within exponentials
        self._to_factor = Substitution(variables, self.factors)
        self._to_reference = Substitution(variables, self.references)

    def apply(self, statement: Statement) -> Statement:
        """Both levels in the new variables."""
        renamed = dict(zip(self.variables, self.factors, strict=True))
        after = statement.rewritten(self, renamed)
        levels = after.levels
        parameters = (*levels.parameters, *self.references)
        return replace(after, levels=Levels(levels.upper, levels.lower, parameters))

    def __call__(self, part: cp.Expression | Constraint) -> cp.Expression | Constraint:
        """The part with variables in place of exponentials, wherever that can be done."""
        if not isinstance(part, Constraint):
            return rewrite(part, self._exponential)
        bound = self._bound(part)
        if bound is not None:
            return bound
        args = [rewrite(argument, self._exponential) for argument in part.args]
        if all(new is old for new, old in zip(args, part.args, strict=True)):
            return part
        return part.copy(args)

    def _exponential(self, part: cp.Expression) -> cp.Expression | None:
        if not isinstance(part, exp) or not self._is_choice(part.args[0]):
            return None
        argument = part.args[0]
        self.seen |= {leaf.id for leaf in argument.variables()}
        return cp.multiply(cp.exp(self._to_reference(argument)), self._to_factor(argument))

    def _bound(self, row: Constraint) -> Constraint | None:
        """A bound on the variable as one on its exponential; None for other rows."""
        if type(row) is not Inequality:
            return None
        left, right = row.args
        if self._is_choice(left) and not right.variables():
            return self._to_factor(left) <= self._exponential_of(right, left)
        if self._is_choice(right) and not left.variables():
            return self._exponential_of(left, right) <= self._to_factor(right)
        return None

    def _exponential_of(self, bound: cp.Expression, choice: cp.Expression) -> cp.Expression:
        return cp.exp(bound - self._to_reference(choice))

    def _is_choice(self, expression: cp.Expression) -> bool:
        """Whether entries of one of the variables are taken as they are, which exp goes through."""
        while isinstance(expression, CHOICES):
            expression = expression.args[0]
        return any(expression is variable for variable in self.variables)
