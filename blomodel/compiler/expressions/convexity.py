"""Why cvxpy's rules do not find an expression convex, and which expressions are smooth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.atoms import Smoothness, traits_of
from blomodel.text.shorten import shorten

_WHAT_WORKS = (
    "restate it with atoms whose convexity cvxpy's rules recognise "
    "(for instance cp.logistic(z) for log(1 + exp(z)), cp.sum_squares, cp.quad_form, cp.norm), "
    "or use method 'value-cuts'."
)


def arguments(expression: Any) -> list[Any]:
    """The arguments of an expression (which cvxpy's base class does not declare)."""
    return list(expression.args)


def explain_nonconvex(expression: cp.Expression) -> str:
    """Name the smallest part whose curvature is unknown, or the curvature that is wrong."""
    if expression.is_concave() and not expression.is_convex():
        return f"{shorten(expression)!r} is concave; {_WHAT_WORKS}"
    part = deepest_unknown(expression)
    if isinstance(part, MulExpression | multiply) and not any(a.is_constant() for a in arguments(part)):
        why = "is a product of two expressions in the lower variables"
    elif isinstance(part, DivExpression):
        why = "divides by an expression in the lower variables"
    elif isinstance(part, MulExpression | multiply):
        why = "multiplies a convex or concave expression by a factor whose sign is not known"
    elif isinstance(part, AffAtom):
        why = "adds convex and concave expressions"
    else:
        kinds = ", ".join(a.curvature.lower() for a in arguments(part))
        why = f"applies {type(part).__name__} to an argument that is {kinds}, which proves nothing"
    return f"{shorten(part)!r} {why}; {_WHAT_WORKS}"


def deepest_unknown(expression: cp.Expression) -> cp.Expression:
    """The smallest sub-expression that is neither convex nor concave by cvxpy's rules."""
    for argument in arguments(expression):
        if not argument.is_dcp():
            return deepest_unknown(argument)
    return expression


def is_smooth(terms: Sequence[cp.Expression], constraints: Sequence[Constraint]) -> bool:
    """Whether second derivatives exist wherever the expressions are defined."""
    return _holds(lambda atom: traits_of(atom).smoothness(atom) is Smoothness.TWICE, terms, constraints)


def is_guarded(
    terms: Sequence[cp.Expression],
    constraints: Sequence[Constraint],
    is_nonnegative: Callable[[cp.Expression], bool] = lambda argument: False,
) -> bool:
    """Whether each expression, where it gives a number at all, lies in its domain of convexity.

    So for log(y), which gives none for y < 0; not for inv_pos(y) = 1/y, which does.

    Parameters
    ----------
    is_nonnegative : callable
        Whether the constraints keep an expression nonnegative: with y >= 0 among them, 1/y is guarded
        at every point that satisfies them.
    """

    def is_safe(atom: Any) -> bool:
        traits = traits_of(atom)
        if traits.is_guarded(atom):
            return True
        domain = traits.hidden_domain(atom)
        return len(domain) > 0 and all(map(is_nonnegative, domain))

    return _holds(is_safe, terms, constraints)


def _holds(
    question: Callable[[Any], bool], terms: Sequence[cp.Expression], constraints: Sequence[Constraint]
) -> bool:
    """Whether the answer is yes for every atom in the terms and constraints that is not constant."""
    waiting: list[Any] = [*terms, *(argument for item in constraints for argument in item.args)]
    while waiting:
        part = waiting.pop()
        if not part.args or part.is_constant():
            continue
        if not question(part):
            return False
        waiting += part.args
    return True
