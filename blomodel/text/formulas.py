"""The forms that atoms take in LaTeX, by class.

Every other atom is written as a function of its arguments, so that nothing is lost where none is stated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.broadcast_to import broadcast_to
from cvxpy.atoms.affine.hstack import Hstack
from cvxpy.atoms.affine.index import special_index
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.reshape import reshape
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.vstack import Vstack
from cvxpy.atoms.elementwise.abs import abs as abs_atom
from cvxpy.atoms.elementwise.exp import exp
from cvxpy.atoms.elementwise.log1p import log1p
from cvxpy.atoms.elementwise.logistic import logistic
from cvxpy.atoms.elementwise.maximum import maximum
from cvxpy.atoms.elementwise.minimum import minimum
from cvxpy.atoms.elementwise.power import Power, PowerApprox
from cvxpy.atoms.norm1 import norm1
from cvxpy.atoms.norm_inf import norm_inf
from cvxpy.atoms.pnorm import Pnorm, PnormApprox
from cvxpy.atoms.quad_form import QuadForm
from cvxpy.atoms.quad_over_lin import quad_over_lin

from blomodel.text.notation import ATOM, LATEX, POWER, PRODUCT, Written

if TYPE_CHECKING:
    from blomodel.text.mathematics import Writer

Form = Callable[["Writer", Any], Written]
FORMULAS: dict[type, Form] = {}


def formula(*atoms: type) -> Callable[[Form], Form]:
    """Register the function that writes these atoms in LaTeX, and tells how tightly the text binds."""

    def register(function: Form) -> Form:
        FORMULAS.update(dict.fromkeys(atoms, function))
        return function

    return register


def call(writer: Writer, atom: Any) -> Written:
    """A function's name and its arguments in brackets."""
    name = {"maximum": "max", "minimum": "min"}.get(type(atom).__name__, type(atom).__name__)
    arguments = ", ".join(map(writer.write, atom.args))
    return LATEX.function(name) + LATEX.brackets(arguments), ATOM


formula(maximum, minimum)(call)


@formula(reshape)
def _rearranged(writer: Writer, atom: Any) -> Written:
    return writer.walk(atom.args[0])


@formula(multiply, MulExpression)
def _product(writer: Writer, atom: Any) -> Written:
    first, second = atom.args
    is_matrix_product = isinstance(atom, MulExpression) and not isinstance(atom, multiply)
    left, right = (writer.inside(part, PRODUCT, is_matrix_product) for part in atom.args)
    if left == "1":
        return right, PRODUCT
    if not is_matrix_product and _true_size(first) > 1 and _true_size(second) > 1:
        return f"{left} {LATEX.elementwise} {right}", PRODUCT
    if is_matrix_product and first.ndim == second.ndim == 1 and not first.is_constant():
        return LATEX.times(LATEX.transposed(writer.inside(first, ATOM)), right), PRODUCT
    if right == "1":
        return left, PRODUCT
    if right[0].isdigit() and not left[-1].isdigit():
        left, right = right, left  # numbers stand in front
    if right[0].isdigit():
        return f"{left} {LATEX.dot} {right}", PRODUCT
    return LATEX.times(left, right), PRODUCT


def is_repeated_scalar(expression: Any) -> bool:
    """Whether an expression is one number, perhaps repeated by cvxpy to fit others."""
    return _unrepeated(expression).size == 1


def _unrepeated(expression: Any) -> Any:
    while isinstance(expression, Promote | broadcast_to):
        expression = expression.args[0]
    return expression


def _true_size(expression: Any) -> int:
    """The size before a scalar was repeated to fit."""
    expression = _unrepeated(expression)
    if isinstance(expression, cp.Constant):
        values = expression.value.data if hasattr(expression.value, "tocsr") else expression.value
        return 1 if np.all(values == np.ravel(values)[:1]) else expression.size
    return int(expression.size)


@formula(DivExpression)
def _quotient(writer: Writer, atom: Any) -> Written:
    return LATEX.fraction(*map(writer.write, atom.args)), PRODUCT


@formula(Power, PowerApprox)
def _power(writer: Writer, atom: Any) -> Written:
    exponent = atom.p.value
    if exponent is not None and float(exponent) == 0.5:
        return LATEX.root(writer.write(atom.args[0])), ATOM
    text = writer.write(atom.p) if exponent is None else LATEX.number(float(exponent))
    return LATEX.power(writer.inside(atom.args[0], ATOM), text), POWER


@formula(exp)
def _exponential(writer: Writer, atom: Any) -> Written:
    return LATEX.exponential(writer.write(atom.args[0])), POWER


@formula(abs_atom)
def _absolute(writer: Writer, atom: Any) -> Written:
    return LATEX.absolute(writer.write(atom.args[0])), ATOM


@formula(Sum)
def _total(writer: Writer, atom: Any) -> Written:
    if atom.args[0].size == 1:
        return writer.walk(atom.args[0])
    return f"{LATEX.total} {writer.inside(atom.args[0], PRODUCT)}", PRODUCT


@formula(norm1, norm_inf, Pnorm, PnormApprox)
def _norm(writer: Writer, atom: Any) -> Written:
    if isinstance(atom, norm1 | norm_inf):
        kind = "1" if isinstance(atom, norm1) else LATEX.infinity
    else:
        kind = LATEX.number(float(atom.p))
    return LATEX.norm(writer.write(atom.args[0]), kind), ATOM


@formula(quad_over_lin)
def _squares(writer: Writer, atom: Any) -> Written:
    top, bottom = atom.args
    text = LATEX.squares(writer.write(top))
    if bottom.is_constant() and np.all(bottom.value == 1.0):
        return text, POWER
    return LATEX.fraction(text, writer.write(bottom)), PRODUCT


@formula(QuadForm)
def _form(writer: Writer, atom: Any) -> Written:
    vector = writer.inside(atom.args[0], ATOM)
    matrix = writer.inside(atom.args[1], PRODUCT, is_matrix=True)
    return f"{LATEX.transposed(vector)} {matrix} {vector}", PRODUCT


@formula(special_index)
def _picked(writer: Writer, atom: Any) -> Written:
    return LATEX.subscript(writer.inside(atom.args[0], ATOM), LATEX.dots), ATOM


@formula(Hstack, Vstack)
def _stack(writer: Writer, atom: Any) -> Written:
    return LATEX.brackets(", ".join(map(writer.write, atom.args))), ATOM


@formula(log1p)
def _log1p(writer: Writer, atom: Any) -> Written:
    return LATEX.function("log") + LATEX.brackets(f"1 + {writer.write(atom.args[0])}"), ATOM


@formula(logistic)
def _logistic(writer: Writer, atom: Any) -> Written:
    inner = LATEX.exponential(writer.write(atom.args[0]))
    return LATEX.function("log") + LATEX.brackets(f"1 + {inner}"), ATOM
