"""How each cvxpy atom pulls a cotangent back to its arguments, in cvxpy expressions.

Only atoms that cvxpy's nonlinear language can state appear in the results; the slope of
``logistic`` is written with ``tanh`` for that reason.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.broadcast_to import broadcast_to
from cvxpy.atoms.affine.concatenate import Concatenate
from cvxpy.atoms.affine.conv import conv, convolve
from cvxpy.atoms.affine.cumsum import cumsum
from cvxpy.atoms.affine.diag import diag_mat, diag_vec
from cvxpy.atoms.affine.hstack import Hstack
from cvxpy.atoms.affine.index import index, special_index
from cvxpy.atoms.affine.kron import kron
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.reshape import reshape
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.trace import Trace
from cvxpy.atoms.affine.transpose import transpose
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.affine.upper_tri import upper_tri
from cvxpy.atoms.affine.vstack import Vstack
from cvxpy.atoms.elementwise.entr import entr
from cvxpy.atoms.elementwise.exp import exp
from cvxpy.atoms.elementwise.hyperbolic import asinh, atanh, sinh, tanh
from cvxpy.atoms.elementwise.kl_div import kl_div
from cvxpy.atoms.elementwise.log import log
from cvxpy.atoms.elementwise.log1p import log1p
from cvxpy.atoms.elementwise.logistic import logistic
from cvxpy.atoms.elementwise.normcdf import normcdf
from cvxpy.atoms.elementwise.power import Power, PowerApprox
from cvxpy.atoms.elementwise.rel_entr import rel_entr
from cvxpy.atoms.elementwise.trig import cos, sin, tan
from cvxpy.atoms.elementwise.xexp import xexp
from cvxpy.atoms.geo_mean import GeoMean, GeoMeanApprox
from cvxpy.atoms.log_sum_exp import log_sum_exp
from cvxpy.atoms.one_minus_pos import one_minus_pos
from cvxpy.atoms.pnorm import Pnorm, PnormApprox
from cvxpy.atoms.prod import Prod
from cvxpy.atoms.quad_form import QuadForm
from cvxpy.atoms.quad_over_lin import quad_over_lin

from blomodel.basics import limits
from blomodel.compiler.expressions.restricting import places
from blomodel.compiler.rules import run_order
from blomodel.compiler.rules_affine import SAME_VALUE
from blomodel.compiler.tape import KEPT_ENTRIES
from blomodel.reformulations.symbolic import (
    apply_matrix,
    coefficient_matrix,
    dense,
    gather_up,
    in_shape,
    pulls_back,
    spread,
    times,
    unsupported,
)

# Rearrangements and affine maps


@pulls_back(AddExpression, always=True)
def _addition(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    return gather_up(cotangent, atom.args[number].shape)


@pulls_back(NegExpression, one_minus_pos, always=True)
def _negation(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    return times(cp.Constant(-1.0), cotangent) if isinstance(cotangent, cp.Constant) else -cotangent


@pulls_back(*SAME_VALUE, always=True)
def _same(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    return cotangent


@pulls_back(Sum, always=True)
def _sum(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    return spread(cotangent, atom.args[0].shape, atom.axis)


@pulls_back(Promote, broadcast_to, always=True)
def _broadcast(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    return gather_up(cotangent, atom.args[0].shape)


@pulls_back(reshape, always=True)
def _reshape(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    if atom.order == "F":
        return in_shape(cotangent, atom.args[0].shape)
    return _linear(atom, cotangent, number)


@pulls_back(transpose, always=True)
def _transpose(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    return cotangent.T if atom.ndim == 2 else _linear(atom, cotangent, number)


@pulls_back(
    index,
    special_index,
    diag_vec,
    diag_mat,
    upper_tri,
    Trace,
    cumsum,
    kron,
    conv,
    convolve,
)
def _linear(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    """The transpose of the atom's matrix, which must hold numbers only."""
    others = [argument for k, argument in enumerate(atom.args) if k != number]
    if any(other.variables() or other.parameters() for other in others):
        raise unsupported(atom, "has a symbolic derivative only where its other factor is a number")
    return apply_matrix(coefficient_matrix(atom, number).T, cotangent, atom.args[number].shape)


@pulls_back(Hstack, Vstack, Concatenate, always=True)
def _stack(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    own, at = atom.args[number], _places_of_arguments(atom)[number]
    is_piece = cotangent.ndim == 1 and cotangent.size > 1 and at[-1] - at[0] == own.size - 1
    if is_piece and np.array_equal(at, np.arange(at[0], at[-1] + 1)):
        return in_shape(cotangent[int(at[0]) : int(at[-1]) + 1], own.shape)
    matrix = sp.csr_array((np.ones(own.size), (np.arange(own.size), at)), (own.size, atom.size))
    return apply_matrix(matrix, cotangent, own.shape)


@lru_cache(maxsize=1)  # asked for once for each argument, of which there may be thousands
def _places_of_arguments(atom: Any) -> list[np.ndarray]:
    """Where the elements of each argument come out."""
    come_out = np.argsort(places(atom), kind="stable")
    return np.split(come_out, np.cumsum([argument.size for argument in atom.args])[:-1])


# Products


@pulls_back(multiply, always=True)
def _multiplication(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    return gather_up(times(atom.args[1 - number], cotangent), atom.args[number].shape)


@pulls_back(DivExpression, always=True)
def _division(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    top, bottom = atom.args
    if number == 0:
        if isinstance(bottom, cp.Constant):
            return gather_up(times(cp.Constant(1.0 / dense(bottom)), cotangent), top.shape)
        return gather_up(cotangent / bottom, top.shape)
    # The square is positive whatever the sign of the denominator.
    slope = times(cp.square(bottom) ** -1, -top)
    return gather_up(times(slope, cotangent), bottom.shape)


@pulls_back(MulExpression)
def _matrix_product(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    left, right = atom.args
    if max(left.ndim, right.ndim) > 2:
        raise unsupported(atom, "multiplies arrays of more than two dimensions")
    other = atom.args[1 - number]
    if left.ndim == right.ndim == 1:
        return times(cotangent, other)
    if number == 0:
        if right.ndim == 1:
            return _outer(cotangent, right)
        return right @ cotangent if left.ndim == 1 else cotangent @ _turned(right)
    if left.ndim == 1:
        return _outer(left, cotangent)
    return _turned(left) @ cotangent


def _turned(matrix: cp.Expression) -> cp.Expression:
    if isinstance(matrix, cp.Constant) and matrix.size < KEPT_ENTRIES:
        return cp.Constant(matrix.value.T)
    return matrix.T  # cvxpy copies what becomes a constant


def _outer(first: cp.Expression, second: cp.Expression) -> cp.Expression:
    return in_shape(first, (first.size, 1)) @ in_shape(second, (1, second.size))


@pulls_back(QuadForm)
def _quadratic_form(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    vector, matrix = atom.args
    if number == 1:
        raise unsupported(atom, "contains a variable in its matrix")
    if isinstance(matrix, cp.Constant):
        slope = cp.Constant(matrix.value + matrix.value.T) @ vector
    else:
        slope = (matrix + matrix.T) @ vector
    return times(cotangent, slope)


@pulls_back(quad_over_lin)
def _quadratic_over_linear(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    vector, bottom = atom.args
    if number == 1:
        squares = cp.sum(cp.square(vector), axis=atom.axis)
        slope = times(squares, in_shape(-(cp.square(bottom) ** -1), ()))
        return in_shape(cp.sum(times(cotangent, slope)), bottom.shape)
    scale = cp.Constant(2.0 / dense(bottom)) if isinstance(bottom, cp.Constant) else 2.0 / bottom
    return times(times(spread(cotangent, vector.shape, atom.axis), in_shape(scale, ())), vector)


@pulls_back(Prod)
def _product(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    argument = atom.args[0]
    order, length = run_order(argument.shape, atom.axis)
    if not limits.PRODUCT_FACTORS.allows(length):
        raise unsupported(atom, f"multiplies more than {limits.PRODUCT_FACTORS}")
    flat = argument if argument.ndim == 1 else cp.vec(argument, order="F")
    slopes: list[Any] = [None] * argument.size
    for run in order.reshape(-1, length):
        for place in run:
            rest = [flat[other] for other in run if other != place]
            slopes[place] = cp.prod(cp.hstack(rest)) if len(rest) > 1 else cp.sum(rest)
            slopes[place] = slopes[place] if rest else cp.Constant(1.0)
    slope = in_shape(cp.hstack(slopes), argument.shape)
    return times(spread(cotangent, argument.shape, atom.axis), slope)


# Functions of each element


def _sigmoid(u: cp.Expression) -> cp.Expression:
    return (1.0 + cp.nlp.tanh(u / 2.0)) / 2.0


_SLOPES: dict[type, Any] = {
    exp: cp.exp,
    log: lambda u: u**-1,
    log1p: lambda u: (1.0 + u) ** -1,
    logistic: _sigmoid,
    sin: cp.nlp.cos,
    cos: lambda u: -cp.nlp.sin(u),
    tan: lambda u: 1.0 + cp.square(cp.nlp.tan(u)),
    sinh: lambda u: (cp.exp(u) + cp.exp(-u)) / 2.0,
    asinh: lambda u: (1.0 + cp.square(u)) ** -0.5,
    tanh: lambda u: 1.0 - cp.square(cp.nlp.tanh(u)),
    atanh: lambda u: (1.0 - cp.square(u)) ** -1,
    normcdf: lambda u: cp.exp(-cp.square(u) / 2.0) / np.sqrt(2.0 * np.pi),
    entr: lambda u: -1.0 - cp.log(u),
    xexp: lambda u: cp.multiply(1.0 + u, cp.exp(u)),
}


@pulls_back(*_SLOPES)
def _elementwise(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    return times(_SLOPES[type(atom)](atom.args[0]), cotangent)


@pulls_back(Power, PowerApprox)
def _power(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    exponent, base = atom.p.value, atom.args[0]
    if exponent is None or atom.p.parameters():
        raise unsupported(atom, "has a parameter for its exponent")
    exponent = float(exponent)
    if exponent == 0.0:
        return cp.Constant(np.zeros(base.shape))
    if exponent == 1.0:
        return cotangent
    lower_power = exponent - 1.0
    # Whole exponents stay whole, since cvxpy takes a base of any sign only for these.
    rest = base if lower_power == 1.0 else cp.power(base, _whole(lower_power))
    return times(times(cp.Constant(exponent), rest), cotangent)


def _whole(number: float) -> float:
    return int(number) if float(number).is_integer() else number


@pulls_back(rel_entr, kl_div)
def _relative_entropy(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    x, y = atom.args
    if number == 0:
        slope = cp.log(x) - cp.log(y)
        slope = slope + 1.0 if isinstance(atom, rel_entr) else slope
    else:
        slope = -x / y
        slope = slope if isinstance(atom, rel_entr) else slope + 1.0
    return gather_up(times(slope, cotangent), atom.args[number].shape)


# Reductions


@pulls_back(log_sum_exp)
def _log_sum_exp(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    u = atom.args[0]
    shares = cp.exp(u - spread(cp.log_sum_exp(u, axis=atom.axis), u.shape, atom.axis))
    return times(spread(cotangent, u.shape, atom.axis), shares)


@pulls_back(Pnorm, PnormApprox)
def _norm(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    u, p = atom.args[0], float(atom.p)
    if p > 1.0 and p % 2.0:
        raise unsupported(atom, "has a symbolic derivative only for p = 2, 4, 6, ... and p < 1")
    # Powers instead of the norm itself, which cvxpy takes only where it is convex.
    total = cp.sum(cp.power(u, _whole(p)), axis=atom.axis)
    scale = times(cotangent, in_shape(cp.power(total, 1.0 / p - 1.0), atom.shape))
    element = u if p == 2.0 else cp.power(u, _whole(p - 1.0))
    return times(spread(scale, u.shape, atom.axis), element)


@pulls_back(GeoMean, GeoMeanApprox)
def _geometric_mean(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    u = atom.args[0]
    order, length = run_order(u.shape, atom.axis)
    weights = np.zeros(length)
    weights[np.flatnonzero(atom._keep)] = [float(weight) for weight in atom.w]
    shares = np.empty(u.size)
    shares[order] = np.tile(weights, u.size // length)
    slope = times(cp.Constant(shares.reshape(u.shape, order="F")), u**-1)
    mean = spread(atom, u.shape, atom.axis)
    return times(spread(cotangent, u.shape, atom.axis), times(mean, slope))
