"""Expressions and constraints in the notation one would type them in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.text.layout import array, number

# How tightly each form binds; an argument that binds less tightly than its place is put in
# brackets.
_SUM, _PRODUCT, _NEGATION, _POWER, _ATOM = range(5)
_INLINE_ENTRIES = 4  # constant vectors up to this length are written out, larger data by its shape


def expression(expr: cp.Expression) -> str:
    """A cvxpy expression in the notation one would write it in.

    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
    >>> expression((y - 2 * x) ** 2 / (2 + cp.exp(-x)))
    '(y - 2 * x)**2 / (2 + exp(-x))'
    """
    return _render(expr)[0]


def constraint(item: Constraint) -> str:
    """A constraint as one line, each side written by `expression`.

    >>> constraint(cp.Variable(name="y") <= 3)
    'y <= 3'
    """
    if isinstance(item, cp.constraints.Inequality):
        return f"{expression(item.args[0])} <= {expression(item.args[1])}"
    if isinstance(item, cp.constraints.Equality):
        return f"{expression(item.args[0])} == {expression(item.args[1])}"
    if isinstance(item, cp.constraints.PSD):
        return f"{expression(item.args[0])} >> 0"
    arguments = ", ".join(expression(argument) for argument in item.args)
    return f"{type(item).__name__}({arguments})"


def part(item: cp.Expression | Constraint) -> str:
    """An expression or a constraint as text."""
    return expression(item) if isinstance(item, cp.Expression) else constraint(item)


def _render(expr: cp.Expression) -> tuple[str, int]:
    """The text of an expression and how tightly its outermost operation binds."""
    label = getattr(expr, "label", None)
    if label:
        return str(label), _ATOM
    if isinstance(expr, cp.Constant):
        return _constant(expr)
    if not expr.args:
        return expr.name(), _ATOM
    rule = _RULES.get(type(expr).__name__)
    return rule(expr) if rule else _atom(expr)


def _bracketed(expr: cp.Expression, place: int) -> str:
    text, binding = _render(expr)
    return text if binding >= place else f"({text})"


def _constant(expr: cp.Constant) -> tuple[str, int]:
    if expr.name().isidentifier():  # cp.Constant(..., name="A"); without a name it is the numbers
        return expr.name(), _ATOM
    if expr.size == 1:
        value = expr.value.toarray() if hasattr(expr.value, "toarray") else expr.value
        text = number(np.asarray(value).item())
        return text, _NEGATION if text.startswith("-") else _ATOM
    if expr.ndim == 1 and expr.size <= _INLINE_ENTRIES:
        return array(expr.value), _ATOM
    shape = "x".join(str(length) for length in expr.shape)
    return f"[{shape} {'vector' if expr.ndim == 1 else 'array'}]", _ATOM


def _call(name: str, arguments: Sequence[cp.Expression]) -> tuple[str, int]:
    return f"{name}({', '.join(expression(argument) for argument in arguments)})", _ATOM


def _atom(expr: cp.Expression) -> tuple[str, int]:
    """Any other atom: its name, its arguments, and the settings it was built with."""
    name = type(expr).__name__
    settings = [item for item in expr.get_data() or () if item is not None and item is not False]
    written = [expression(argument) for argument in expr.args]
    written += [expression(s) if isinstance(s, cp.Expression) else str(s) for s in settings]
    return f"{name[0].lower()}{name[1:]}({', '.join(written)})", _ATOM


def _sum(expr: cp.Expression) -> tuple[str, int]:
    # cvxpy writes A >> 0 as A + (-0) >> 0; nobody wants to read the zero
    terms = [term for term in expr.args if not (term.is_constant() and term.is_zero())]
    text = _bracketed(terms[0], _SUM) if terms else "0"
    for term in terms[1:]:
        if type(term).__name__ == "NegExpression" and not getattr(term, "label", None):
            text += f" - {_bracketed(term.args[0], _PRODUCT)}"
        else:
            written = _bracketed(term, _SUM)
            text += f" - {written[1:]}" if written.startswith("-") else f" + {written}"
    return text, _SUM


def _product(operator: str) -> Any:
    def rule(expr: cp.Expression) -> tuple[str, int]:
        left = _bracketed(expr.args[0], _PRODUCT)
        # a / (b * c) and a * (b / c) need their brackets, so the right side must bind more tightly
        return f"{left} {operator} {_bracketed(expr.args[1], _POWER)}", _PRODUCT

    return rule


def _power(expr: cp.Expression) -> tuple[str, int]:
    exponent = expr.args[1] if len(expr.args) > 1 else expr.p
    written = _bracketed(cp.Constant(exponent) if np.isscalar(exponent) else exponent, _POWER)
    return f"{_bracketed(expr.args[0], _ATOM)}**{written}", _POWER


def _index(expr: cp.Expression) -> tuple[str, int]:
    # cvxpy's own name ends in the key; only the indexed expression needs our notation
    key = expr.name()[len(expr.args[0].name()) :]
    return f"{_bracketed(expr.args[0], _ATOM)}{key}", _ATOM


def _quadratic_over_linear(expr: cp.Expression) -> tuple[str, int]:
    if isinstance(expr.args[1], cp.Constant) and expr.args[1].value == 1.0:
        return _call("sum_squares", expr.args[:1])
    return _call("quad_over_lin", expr.args)


_RULES: dict[str, Any] = {
    "AddExpression": _sum,
    "NegExpression": lambda expr: (f"-{_bracketed(expr.args[0], _PRODUCT)}", _NEGATION),
    "MulExpression": _product("@"),
    "multiply": _product("*"),
    "DivExpression": _product("/"),
    "Power": _power,
    "PowerApprox": _power,
    "power": _power,
    "index": _index,
    "special_index": _index,
    "Promote": lambda expr: _render(expr.args[0]),
    "transpose": lambda expr: (f"{_bracketed(expr.args[0], _ATOM)}.T", _ATOM),
    "quad_over_lin": _quadratic_over_linear,
    "QuadForm": lambda expr: _call("quad_form", expr.args),
    "Hstack": lambda expr: _call("hstack", expr.args),
    "Vstack": lambda expr: _call("vstack", expr.args),
    "reshape": lambda expr: _render(expr.args[0]) if expr.size == 1 else _atom(expr),
    "PnormApprox": lambda expr: (f"norm({expression(expr.args[0])}, {number(expr.p)})", _ATOM),
    "Pnorm": lambda expr: (f"norm({expression(expr.args[0])}, {number(expr.p)})", _ATOM),
}
