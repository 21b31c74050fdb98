"""Expressions with some of their parts exchanged for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cvxpy as cp
from cvxpy.atoms.elementwise.abs import abs as abs_atom
from cvxpy.atoms.elementwise.power import Power, PowerApprox
from cvxpy.atoms.pnorm import Pnorm, PnormApprox
from cvxpy.constraints.constraint import Constraint


class Substitution:
    """Replace leaves in expressions and constraints, leaving everything else as it was written."""

    def __init__(self, old: Sequence[cp.Variable], new: Sequence[cp.Expression]) -> None:
        self._table = {
            variable.id: replacement
            for variable, replacement in zip(old, new, strict=True)
            if variable is not replacement
        }

    def __call__(self, part: cp.Expression | Constraint) -> cp.Expression | Constraint:
        """The part with the leaves replaced; the part itself when it holds none of them."""
        if not any(variable.id in self._table for variable in part.variables()):
            return part
        if isinstance(part, cp.Variable):
            return self._table[part.id]
        replaced = part.copy([self(argument) for argument in part.args])
        if isinstance(part, Constraint) and part.label:
            replaced.set_label(part.label)
        if isinstance(part, Constraint) or replaced.variables() or replaced.parameters():
            return replaced
        # cvxpy cannot canonicalise every atom of a constant, a quadratic form for instance.
        return cp.Constant(replaced.value)


def rewrite(
    expression: cp.Expression, replace: Callable[[cp.Expression], cp.Expression | None]
) -> cp.Expression:
    """The expression with every part exchanged for which ``replace`` has another one."""
    new = replace(expression)
    if new is not None:
        return new
    args = [rewrite(argument, replace) for argument in expression.args]
    if all(new is old for new, old in zip(args, expression.args, strict=True)):
        return expression
    return expression.copy(args)


def squares_for_norms(expression: cp.Expression) -> cp.Expression | None:
    """|e|_2^2 written without the norm; None for everything else."""
    if isinstance(expression, Power | PowerApprox) and expression.p.value == 2:
        base = expression.args[0]
        if isinstance(base, Pnorm | PnormApprox) and base.p == 2 and base.axis is None:
            return cp.sum_squares(rewrite(base.args[0], squares_for_norms))
        if isinstance(base, abs_atom):
            return cp.square(rewrite(base.args[0], squares_for_norms))
    return None
