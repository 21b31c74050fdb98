"""Expressions restated for cvxpy's nonlinear solvers, without a change of their values.

cvxpy hands a problem to IPOPT or UNO through an engine that knows fewer atoms than cvxpy has, and
that takes every denominator to be positive. What it lacks is written here with what it has: linear
atoms as constant matrices, a quotient a / d of unknown sign as a d / d^2, an atom that cvxpy does not
know by its definition. What still cannot be stated then is refused by ``check_language``, or by cvxpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import DivExpression
from cvxpy.atoms.affine.concatenate import Concatenate
from cvxpy.atoms.affine.cumsum import cumsum
from cvxpy.atoms.affine.diag import diag_mat, diag_vec
from cvxpy.atoms.affine.kron import kron
from cvxpy.atoms.affine.real import real
from cvxpy.atoms.affine.wraps import nonneg_wrap
from cvxpy.atoms.cummax import cummax
from cvxpy.atoms.cumprod import cumprod
from cvxpy.atoms.elementwise.log1p import log1p
from cvxpy.atoms.elementwise.power import Power, PowerApprox
from cvxpy.atoms.log_sum_exp import log_sum_exp
from cvxpy.atoms.one_minus_pos import one_minus_pos
from cvxpy.constraints import Equality, Inequality
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.expressions.constraints import EQUALITY, INEQUALITY, as_row
from blomodel.compiler.expressions.definitions import write_out
from blomodel.compiler.rules import run_order
from blomodel.errors import ReformulationError, UnsupportedAtomError
from blomodel.reformulations.symbolic import add, apply_matrix, coefficient_matrix, in_shape
from blomodel.text.shorten import shorten

_STATED: dict[type, Callable[[Any, list[Any]], cp.Expression]] = {}


def state_expression(expression: Any) -> Any:
    """The expression in atoms that cvxpy's nonlinear solvers take."""
    return _stated(write_out(expression, lambda part: type(part) in _STATED))


def _stated(expression: Any) -> Any:
    if not expression.args or not expression.variables():
        return expression
    arguments = [_stated(argument) for argument in expression.args]
    state = _STATED.get(type(expression))
    if state is not None:
        return state(expression, arguments)
    if all(new is old for new, old in zip(arguments, expression.args, strict=True)):
        return expression
    return expression.copy(arguments)


def state_constraint(constraint: Constraint) -> Constraint:
    """The constraint as an equality or inequality that cvxpy's nonlinear solvers take."""
    kind, expression = as_row(constraint)
    if kind not in (INEQUALITY, EQUALITY):
        raise ReformulationError(
            f"The constraint {shorten(constraint)!r} demands a semidefinite matrix, which nonlinear "
            "solvers do not take row by row; use method 'auto' or 'reduced-penalty'."
        )
    if isinstance(constraint, Inequality | Equality):
        return state_expression(constraint)
    stated = state_expression(expression)
    return stated <= 0 if kind == INEQUALITY else stated == 0


def check_language(problem: cp.Problem) -> None:
    """Raise an error that names the first part which cvxpy's nonlinear language does not allow."""
    parts: Sequence[Any] = [problem.objective, *problem.constraints]
    for part in parts:
        if not part.is_dnlp():
            raise ReformulationError(
                f"{shorten(part)!r} is not a disciplined nonlinear expression: a kinked atom in it "
                "stands where it is not convex (or not concave), so that it has no smooth form. "
                "Rewrite it with smooth atoms, or use method 'auto'."
            )


def _state(*atoms: type) -> Callable[..., Any]:
    def register(function: Callable[[Any, list[Any]], cp.Expression]) -> Any:
        _STATED.update(dict.fromkeys(atoms, function))
        return function

    return register


@_state(DivExpression)
def _quotient(atom: Any, arguments: list[Any]) -> cp.Expression:
    top, bottom = arguments
    if bottom.is_constant() or bottom.is_nonneg():
        return atom.copy(arguments)
    if bottom.is_nonpos():
        return atom.copy([-top, -bottom])
    return cp.multiply(top, bottom) / cp.square(bottom)


@_state(Power, PowerApprox)
def _power(atom: Any, arguments: list[Any]) -> cp.Expression:
    # A negative power is defined for a positive base only, which cvxpy wants to be told.
    exponent = atom.p.value
    if exponent is None or exponent >= 0 or exponent % 2 == 0 or arguments[0].is_nonneg():
        return atom.copy(arguments)
    return atom.copy([nonneg_wrap(arguments[0])])


@_state(log_sum_exp)
def _log_sum_exp(atom: Any, arguments: list[Any]) -> cp.Expression:
    if atom.axis is None:
        return atom.copy(arguments)
    # cvxpy's smooth form of this atom takes no axis, so each run of elements gets its own.
    order, length = run_order(arguments[0].shape, atom.axis)
    flat = cp.vec(arguments[0], order="F")
    sums = [cp.log_sum_exp(flat[run]) for run in order.reshape(-1, length)]
    return in_shape(cp.hstack(sums), atom.shape)


@_state(log1p)
def _log1p(atom: Any, arguments: list[Any]) -> cp.Expression:
    return cp.log(1.0 + arguments[0])


@_state(one_minus_pos)
def _one_minus(atom: Any, arguments: list[Any]) -> cp.Expression:
    return 1.0 - arguments[0]


@_state(real)
def _real(atom: Any, arguments: list[Any]) -> cp.Expression:
    return arguments[0]


@_state(cumsum, kron, Concatenate)
def _as_matrix(atom: Any, arguments: list[Any]) -> cp.Expression:
    terms = []
    for number, argument in enumerate(arguments):
        if not argument.variables():
            continue
        others: list[Any] = [other for k, other in enumerate(arguments) if k != number]
        if isinstance(atom, Concatenate):
            others = []
        if any(other.variables() or other.parameters() for other in others):
            raise UnsupportedAtomError(
                f"the atom '{type(atom).__name__}' in '{shorten(atom)}' can be handed to a nonlinear "
                "solver only where its other factor is a number."
            )
        terms.append(apply_matrix(_matrix(atom, arguments, number), argument, atom.shape))
    if isinstance(atom, Concatenate):
        rest = [
            cp.Constant(np.zeros(argument.shape)) if argument.variables() else argument
            for argument in arguments
        ]
        terms.append(atom.copy(rest))
    return add(terms)


def _matrix(atom: Any, arguments: list[Any], number: int) -> Any:
    if isinstance(atom, Concatenate):
        arguments = [cp.Constant(np.zeros(argument.shape)) for argument in arguments]
    return coefficient_matrix(atom.copy(arguments), number)


@_state(diag_vec, diag_mat)
def _diagonal(atom: Any, arguments: list[Any]) -> cp.Expression:
    # The engine knows the main diagonal only.
    return atom.copy(arguments) if atom.k == 0 else _as_matrix(atom, arguments)


@_state(cumprod, cummax)
def _refuse(atom: Any, arguments: list[Any]) -> cp.Expression:
    raise UnsupportedAtomError(
        f"the atom '{type(atom).__name__}' in '{shorten(atom)}' is not known to cvxpy's nonlinear "
        "solvers; write the products or maxima out, or use method 'auto'."
    )
