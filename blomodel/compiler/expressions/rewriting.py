"""Expressions with some of their parts exchanged for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
        self._known: dict[int, tuple[Any, Any]] = {}  # by the id of a part, which is kept with it

    def __call__(self, part: cp.Expression | Constraint) -> cp.Expression | Constraint:
        """The part with the leaves replaced; the part itself when it holds none of them."""
        if isinstance(part, Constraint):
            args = [self._replaced(argument) for argument in part.args]
            if _are_same(args, part.args):
                return part
            replaced = part.copy(args)
            if part.label:
                replaced.set_label(part.label)
            return replaced
        return self._replaced(part)

    def _replaced(self, part: Any) -> Any:
        """The same for an expression; each is replaced once, however often it is asked for."""
        known = self._known.get(id(part))
        if known is not None:
            return known[1]
        if isinstance(part, cp.Variable):
            new = self._table.get(part.id, part)
        else:
            args = [self._replaced(argument) for argument in part.args]
            new = part if _are_same(args, part.args) else _with_arguments(part, args)
        self._known[id(part)] = part, new
        return new


def _are_same(new: Sequence[Any], old: Sequence[Any]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


def _with_arguments(part: Any, args: list[Any]) -> Any:
    new = part.copy(args)
    if any(isinstance(argument, cp.Variable | cp.Parameter) for argument in args):
        return new
    if new.variables() or new.parameters():
        return new
    # cvxpy cannot canonicalise every atom of a constant, a quadratic form for instance.
    return cp.Constant(new.value)


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
