"""Lowering rules for nonlinear atoms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.cummax import cummax
from cvxpy.atoms.cumprod import cumprod
from cvxpy.atoms.elementwise.abs import abs as abs_atom
from cvxpy.atoms.elementwise.entr import entr
from cvxpy.atoms.elementwise.exp import exp
from cvxpy.atoms.elementwise.huber import huber
from cvxpy.atoms.elementwise.hyperbolic import asinh, atanh, sinh, tanh
from cvxpy.atoms.elementwise.kl_div import kl_div
from cvxpy.atoms.elementwise.log import log
from cvxpy.atoms.elementwise.log1p import log1p
from cvxpy.atoms.elementwise.logistic import logistic
from cvxpy.atoms.elementwise.maximum import maximum
from cvxpy.atoms.elementwise.minimum import minimum
from cvxpy.atoms.elementwise.normcdf import normcdf
from cvxpy.atoms.elementwise.power import Power, PowerApprox
from cvxpy.atoms.elementwise.rel_entr import rel_entr
from cvxpy.atoms.elementwise.trig import cos, sin, tan
from cvxpy.atoms.elementwise.xexp import xexp
from cvxpy.atoms.geo_mean import GeoMean, GeoMeanApprox
from cvxpy.atoms.log_sum_exp import log_sum_exp
from cvxpy.atoms.max import max as max_atom
from cvxpy.atoms.min import min as min_atom
from cvxpy.atoms.norm1 import norm1
from cvxpy.atoms.norm_inf import norm_inf
from cvxpy.atoms.pnorm import Pnorm, PnormApprox
from cvxpy.atoms.prod import Prod
from cvxpy.atoms.quad_form import QuadForm, SymbolicQuadForm
from cvxpy.atoms.quad_over_lin import quad_over_lin
from cvxpy.atoms.sum_largest import sum_largest

from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.rules import Lowering, Operand, rule, run_order
from blomodel.compiler.rules_affine import apply_left, sum_along
from blomodel.compiler.traits import Smoothness, nothing_hidden
from blomodel.kernels import machine as op

_CONVEX = {exp: op.EXP, logistic: op.SOFTPLUS}
# These have no value, or an infinite one, outside the domain that cvxpy states.
_CONCAVE = {log: op.LOG, log1p: op.LOG1P, entr: op.ENTR}
_NEITHER = {
    sin: op.SIN,
    cos: op.COS,
    tan: op.TAN,
    sinh: op.SINH,
    tanh: op.TANH,
    asinh: op.ASINH,
    atanh: op.ATANH,
    normcdf: op.NORMCDF,
}
_ELEMENTWISE = _CONVEX | _CONCAVE | _NEITHER


@rule(*_NEITHER)
@rule(*_CONVEX, is_guarded=True)
@rule(*_CONCAVE, is_guarded=True, hidden_domain=nothing_hidden)
def _elementwise(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    return lowering.builder.unary(_ELEMENTWISE[type(atom)], args[0].node)


@rule(abs_atom, smoothness=Smoothness.KINKED, is_guarded=True, is_kink_at_zero=True)
def _absolute(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    return lowering.builder.unary(op.ABS, args[0].node)


def _attribute(lowering: Lowering, value: Any) -> int:
    """An exponent or threshold: a number, or a parameter that is an input of the tape."""
    return lowering.lower(cp.Expression.cast_to_const(value)).node


def _power_smoothness(atom: Any) -> Smoothness:
    # Even powers are smooth everywhere, the others inside their domain.
    is_smooth = atom.p.value is not None and not 1 < float(atom.p.value) < 2
    return Smoothness.TWICE if is_smooth else Smoothness.ONCE


def _power_domain(atom: Any) -> list[Any]:
    exponent = atom.p.value
    if exponent is None:
        return [atom.args[0]]
    # Roots, other fractional powers and (see _power) negative ones have no value at negative arguments.
    is_plain = exponent <= 1 or exponent % 1 != 0 or exponent % 2 == 0
    return [] if is_plain else [atom.args[0]]


def _squares_or_more(atom: Any) -> bool:
    return atom.p.value is not None and bool(atom.p.value >= 2)


@rule(
    *(Power, PowerApprox),
    smoothness=_power_smoothness,
    hidden_domain=_power_domain,
    is_guarded=lambda atom: not _power_domain(atom),
    flattens_kink=_squares_or_more,
)
def _power(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    b, value = lowering.builder, atom.p.value
    if value is not None and value < 0 and value % 1 == 0 and not atom.args[0].is_nonneg():
        return b.binary(op.POWER, _root_of_inverse(b, args[0].node), b.constant(-2.0 * value), atom.size)
    return b.binary(op.POWER, args[0].node, _attribute(lowering, atom.p), atom.size)


def _root_of_inverse(builder: TapeBuilder, node: int) -> int:
    """Of positive numbers; others have no value.

    cvxpy's ``inv_pos`` and ``quad_over_lin`` mean "infinite elsewhere", and a quotient has values there.
    """
    return builder.binary(op.POWER, node, builder.constant(-0.5), builder.size(node))


@rule(huber, smoothness=Smoothness.ONCE, is_guarded=True)  # its curvature jumps, its slope does not
def _huber(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    # With c = x clipped to [-M, M], the function is c (2 x - c): x^2 inside, 2 M |x| - M^2 outside.
    b, x = lowering.builder, args[0].node
    bound = _attribute(lowering, atom.M)
    below = b.binary(op.MINIMUM, x, bound, atom.size)
    clipped = b.binary(op.MAXIMUM, below, b.unary(op.NEG, bound), atom.size)
    return b.mul(clipped, b.sub(b.scale(2.0, x), clipped, atom.size), atom.size)


@rule(xexp)
def _x_exp(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    return lowering.builder.mul(args[0].node, lowering.builder.unary(op.EXP, args[0].node))


@rule(rel_entr, kl_div, hidden_domain=nothing_hidden)  # infinite outside
def _relative_entropy(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    b = lowering.builder
    x, y = (lowering.spread(arg, atom.shape) for arg in args)
    entropy = b.binary(op.REL_ENTR, x, y, atom.size)
    if isinstance(atom, rel_entr):
        return entropy
    return b.add(b.sub(entropy, x, atom.size), y, atom.size)


def _compares_with_zero(atom: Any) -> bool:
    values = [argument.value for argument in atom.args if argument.is_constant()]
    return len(atom.args) == 2 and any(v is not None and not np.any(v) for v in values)


@rule(minimum, smoothness=Smoothness.KINKED, is_kink_at_zero=_compares_with_zero)
@rule(maximum, smoothness=Smoothness.KINKED, is_guarded=True, is_kink_at_zero=_compares_with_zero)
def _extreme_of_arguments(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    opcode = op.MAXIMUM if isinstance(atom, maximum) else op.MINIMUM
    best, *others = (lowering.spread(arg, atom.shape) for arg in args)
    for other in others:
        best = lowering.builder.binary(opcode, best, other, atom.size)
    return best


# Reductions along axes


@rule(max_atom, smoothness=Smoothness.KINKED, is_guarded=True)
def _max(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    return lowering.builder.segments(op.SEGMENT_MAX, *lowering.runs(args[0], atom.axis))


@rule(min_atom, smoothness=Smoothness.KINKED)
def _min(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    b = lowering.builder
    elements, length = lowering.runs(args[0], atom.axis)
    return b.unary(op.NEG, b.segments(op.SEGMENT_MAX, b.unary(op.NEG, elements), length))


@rule(norm1, smoothness=Smoothness.KINKED, is_guarded=True)
def _norm1(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    magnitudes = lowering.builder.unary(op.ABS, args[0].node)
    return sum_along(lowering.builder, magnitudes, args[0].shape, atom.axis)


@rule(norm_inf, smoothness=Smoothness.KINKED, is_guarded=True)
def _norm_inf(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    b = lowering.builder
    elements, length = lowering.runs(args[0], atom.axis)
    return b.segments(op.SEGMENT_MAX, b.unary(op.ABS, elements), length)


@rule(
    *(Pnorm, PnormApprox),
    smoothness=Smoothness.KINKED,
    hidden_domain=nothing_hidden,
    is_kink_at_zero=lambda atom: bool(atom.p == 2),
)
def _pnorm(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    b, p = lowering.builder, float(atom.p)
    elements, length = lowering.runs(args[0], atom.axis)
    if p == 2.0:
        return b.segments(op.NORM, elements, length)
    if p < 1.0:  # a concave function of nonnegative numbers; fractional powers of others have no value
        base, exponent = (elements, p) if p > 0 else (_root_of_inverse(b, elements), -2.0 * p)
        powers = b.binary(op.POWER, base, b.constant(exponent), b.size(elements))
        return b.binary(op.POWER, b.sum(powers, length), b.constant(1.0 / p))
    magnitudes = b.unary(op.ABS, elements)
    # The norm is homogeneous, so that a scale may be taken out and held fixed. With the largest
    # element for it the sum is at least 1, except for a vector of zeros, where the maximum below
    # picks the constant and gives the subgradient zero.
    largest = b.freeze(b.segments(op.SEGMENT_MAX, magnitudes, length))
    scaled = b.binary(op.SAFE_DIV, magnitudes, b.repeat(largest, length), b.size(elements))
    powers = b.binary(op.POWER, scaled, b.constant(p), b.size(elements))
    total = b.binary(op.MAXIMUM, b.sum(powers, length), b.constant(1.0))
    return b.mul(largest, b.binary(op.POWER, total, b.constant(1.0 / p)))


@rule(log_sum_exp, is_guarded=True)
def _log_sum_exp(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    # The shift by the largest element cancels in exact arithmetic, so it is held fixed.
    b = lowering.builder
    elements, length = lowering.runs(args[0], atom.axis)
    largest = b.freeze(b.segments(op.SEGMENT_MAX, elements, length))
    shifted = b.sub(elements, b.repeat(largest, length), b.size(elements))
    return b.add(largest, b.unary(op.LOG, b.sum(b.unary(op.EXP, shifted), length)))


@rule(sum_largest, smoothness=Smoothness.KINKED)
def _sum_largest(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    b = lowering.builder
    elements, length = lowering.runs(args[0], atom.axis)
    whole = int(np.floor(atom.k))
    if whole >= length:
        return b.sum(elements, length)

    def mask(count: int) -> int:
        return b.segments(op.LARGEST, elements, length, count)

    # A fraction of the next largest element counts if k is not a whole number.
    fraction = float(atom.k) - whole
    weights = mask(whole) if whole else b.zeros(b.size(elements))
    if fraction:
        weights = b.add(b.scale(1.0 - fraction, weights), b.scale(fraction, mask(whole + 1)))
    return b.sum(b.mul(weights, elements), length)


def _halving_product(b: TapeBuilder, elements: int, length: int) -> int:
    """Products of runs by multiplying halves: exact derivatives even where factors are zero."""
    count = b.size(elements) // length
    while length > 1:
        half = length // 2
        begins = length * np.arange(count)[:, None]
        left = b.gather(elements, (begins + np.arange(half)).ravel())
        right = b.gather(elements, (begins + half + np.arange(half)).ravel())
        products = b.mul(left, right, count * half)
        if length % 2:
            rest = begins + length - 1
            at = np.arange(count)[:, None] * (half + 1)
            products = b.select(
                count * (half + 1),
                [
                    (products, np.arange(count * half), (at + np.arange(half)).ravel()),
                    (elements, rest.ravel(), (at + half).ravel()),
                ],
            )
        elements, length = products, half + length % 2
    return elements


@rule(Prod)
def _prod(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    return _halving_product(lowering.builder, *lowering.runs(args[0], atom.axis))


@rule(GeoMean, GeoMeanApprox, hidden_domain=nothing_hidden)  # roots of negative numbers have no value
def _geo_mean(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    b = lowering.builder
    elements, length = lowering.runs(args[0], atom.axis)
    count = b.size(elements) // length
    kept = np.flatnonzero(atom._keep)
    elements = b.gather(elements, (length * np.arange(count)[:, None] + kept).ravel())
    weights = np.tile([float(weight) for weight in atom.w], count)
    powers = b.binary(op.POWER, elements, b.constant(weights), b.size(elements))
    return _halving_product(b, powers, len(kept))


@rule(
    quad_over_lin,
    hidden_domain=nothing_hidden,
    is_guarded=True,
    flattens_kink=True,
)
def _quad_over_lin(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    b, x = lowering.builder, args[0].node
    squares = sum_along(b, b.mul(x, x), args[0].shape, atom.axis)
    below = args[1].node
    if atom.args[1].is_constant() or atom.args[1].is_nonneg():
        return b.div(squares, below, atom.size)
    inverse = b.binary(op.POWER, _root_of_inverse(b, below), b.constant(2.0), b.size(below))
    return b.mul(squares, inverse, atom.size)


@rule(QuadForm, SymbolicQuadForm, smoothness=Smoothness.TWICE, is_guarded=True)
def _quad_form(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    vector, matrix = args
    if matrix.shape != (vector.size, vector.size):
        return lowering.lower(atom.original_expression).node
    x = vector.node
    product = apply_left(lowering, matrix, vector.size, vector.size, x, 1)
    return lowering.builder.dot(x, product)


@rule(cummax, smoothness=Smoothness.KINKED)
def _cumulative_maximum(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    return _cumulative(lowering, atom, args, partial(lowering.builder.binary, op.MAXIMUM))


@rule(cumprod)
def _cumulative_product(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    return _cumulative(lowering, atom, args, lowering.builder.mul)


def _cumulative(
    lowering: Lowering, atom: Any, args: list[Operand], combine: Callable[[int, int], int]
) -> int:
    """Combine with the value 1, 2, 4, ... places before: as many steps as the length has bits."""
    b = lowering.builder
    order, length = run_order(args[0].shape, atom.axis)
    values = b.gather(args[0].node, order)
    place = np.arange(len(order)) % length if len(order) else np.zeros(0, int)
    step = 1
    while step < length:
        has_earlier = place >= step
        late, early = np.flatnonzero(has_earlier), np.flatnonzero(~has_earlier)
        combined = combine(b.gather(values, late - step), b.gather(values, late))
        values = b.select(len(order), [(combined, np.arange(len(late)), late), (values, early, early)])
        step *= 2
    return b.gather(values, np.argsort(order))
