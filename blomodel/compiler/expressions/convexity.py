"""Why cvxpy's rules do not find an expression convex, and which expressions are smooth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.elementwise.power import Power
from cvxpy.constraints.constraint import Constraint

from blomodel.atoms import sigmoid
from blomodel.text.shorten import shorten

_SMOOTH = (
    cp.exp,
    cp.log,
    cp.log1p,
    cp.logistic,
    cp.log_sum_exp,
    cp.entr,
    cp.kl_div,
    cp.rel_entr,
    cp.xexp,
    cp.quad_over_lin,
    cp.QuadForm,
    sigmoid,
)
_GUARDED = (
    cp.exp,
    cp.log,
    cp.log1p,
    cp.logistic,
    cp.log_sum_exp,
    cp.entr,
    cp.QuadForm,
    cp.abs,
    cp.huber,
    cp.max,
    cp.maximum,
    cp.norm1,
    cp.norm_inf,
    sigmoid,  # of x only: cvxpy's rules call it convex in nothing
)
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
    return all(map(_is_smooth, terms)) and all(
        _is_smooth(argument) for constraint in constraints for argument in constraint.args
    )


def is_guarded(terms: Sequence[cp.Expression], constraints: Sequence[Constraint]) -> bool:
    """Whether each expression, where it gives a number at all, lies in its domain of convexity.

    So for log(y), which gives none for y < 0; not for inv_pos(y) = 1/y, which does.
    """
    return all(map(_is_guarded, terms)) and all(
        _is_guarded(argument) for constraint in constraints for argument in constraint.args
    )


def _is_guarded(expression: cp.Expression) -> bool:
    if isinstance(expression, Power):
        exponent = float(expression.p.value)
        guarded = exponent % 1 != 0 or (exponent % 2 == 0 and exponent > 0) or exponent == 1
    elif isinstance(expression, cp.quad_over_lin):
        guarded = arguments(expression)[1].is_constant()
    else:
        guarded = not arguments(expression) or isinstance(expression, (AffAtom, *_GUARDED))
    return guarded and all(map(_is_guarded, arguments(expression)))


def _is_smooth(expression: cp.Expression) -> bool:
    if not arguments(expression):
        return True
    if isinstance(expression, Power):
        smooth = _is_smooth_power(expression)
    else:
        smooth = isinstance(expression, (AffAtom, *_SMOOTH))
    return smooth and all(map(_is_smooth, arguments(expression)))


def _is_smooth_power(expression: Power) -> bool:
    exponent = expression.p.value
    # Even powers are smooth everywhere, the others inside their domain.
    return exponent is not None and not 1 < float(exponent) < 2
