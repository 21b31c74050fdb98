"""The rule of each instruction: linear maps from an operand's change to the result's change.

Maps are written with instructions, so derivatives can be differentiated again. Where a function has no
derivative a subgradient (or zero) is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import pi, sqrt

import numpy as np

from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.tape import Node, Tape, unknown_instruction
from blomodel.kernels import machine as op


@dataclass(frozen=True, slots=True)
class LinearMap:
    """How one operand's change enters the result's change, and the adjoint of that."""

    push: Callable[[int], int]
    pull: Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Selection:
    """The linear map that copies elements; kept apart so that many of them become one node."""

    source: np.ndarray
    target: np.ndarray


# Derivatives of the elementwise functions, from operand and result


def unary_factor(b: TapeBuilder, opcode: int, x: int, out: int) -> int | None:
    """The derivative of an elementwise function; None where it is zero."""
    one = b.constant(1.0)
    match opcode:
        case op.NEG:
            return b.constant(-1.0)
        case op.EXP:
            return out
        case op.LOG:
            return b.div(one, x)
        case op.LOG1P:
            return b.div(one, b.add(one, x))
        case op.SIN:
            return b.unary(op.COS, x)
        case op.COS:
            return b.unary(op.NEG, b.unary(op.SIN, x))
        case op.TAN:
            return b.add(one, b.mul(out, out))
        case op.SINH:
            return b.unary(op.COSH, x)
        case op.COSH:
            return b.unary(op.SINH, x)
        case op.TANH:
            return b.sub(one, b.mul(out, out))
        case op.ASINH:
            return b.div(one, b.unary(op.SQRT, b.add(one, b.mul(x, x))))
        case op.ATANH:
            return b.div(one, b.sub(one, b.mul(x, x)))
        case op.SQRT:
            return b.div(b.constant(0.5), out)
        case op.ABS:
            return b.unary(op.SIGN, x)
        case op.SOFTPLUS:
            return b.unary(op.SIGMOID, x)
        case op.SIGMOID:
            # Written with both tails: out * (1 - out) would lose all digits for large x.
            return b.mul(out, b.unary(op.SIGMOID, b.unary(op.NEG, x)))
        case op.ENTR:
            return b.sub(b.constant(-1.0), b.unary(op.LOG, x))
        case op.NORMCDF:
            density = b.unary(op.EXP, b.scale(-0.5, b.mul(x, x)))
            return b.scale(1.0 / sqrt(2.0 * pi), density)
        case op.SIGN:
            return None  # flat
    raise unknown_instruction(opcode, "the derivatives of elementwise functions")


def binary_factors(
    b: TapeBuilder, opcode: int, x: int, y: int, out: int
) -> tuple[int | None, int | None]:
    """The derivatives in both operands of an elementwise function; None where one is zero."""
    one = b.constant(1.0)
    match opcode:
        case op.ADD:
            return one, one
        case op.SUB:
            return one, b.constant(-1.0)
        case op.MUL:
            return y, x
        case op.DIV:
            return b.div(one, y), b.unary(op.NEG, b.div(out, y))
        case op.SAFE_DIV:
            # The reciprocal of y, but zero at zero.
            inverse = b.binary(op.SAFE_DIV, b.unary(op.ABS, b.unary(op.SIGN, y)), y)
            return inverse, b.unary(op.NEG, b.mul(out, inverse))
        case op.POWER:
            slope = b.mul(y, b.binary(op.POWER, x, b.sub(y, one)))
            growth = None if b.is_constant(y) else b.mul(out, b.unary(op.LOG, x))
            return slope, growth
        case op.MAXIMUM:
            chosen = b.binary(op.GREATER_EQUAL, x, y)
            return chosen, b.sub(one, chosen)
        case op.MINIMUM:
            chosen = b.binary(op.GREATER_EQUAL, y, x)
            return chosen, b.sub(one, chosen)
        case op.REL_ENTR:
            ratio = b.div(x, y)
            return b.add(one, b.unary(op.LOG, ratio)), b.unary(op.NEG, ratio)
        case op.GREATER_EQUAL:
            return None, None  # flat
    raise unknown_instruction(opcode, "the derivatives of functions of two operands")


def _scaling(b: TapeBuilder, factor: int, operand_size: int, size: int) -> LinearMap:
    def pull(cotangent: int) -> int:
        product = b.mul(factor, cotangent, size)
        return product if operand_size == size else b.sum(product)

    return LinearMap(lambda tangent: b.mul(factor, tangent, size), pull)


def _matmul_maps(b: TapeBuilder, node: Node) -> list[LinearMap]:
    x, y = node.args
    m, k, n, transposed = node.data
    tx, ty = transposed % 2 == 1, transposed >= 2

    def pull_left(c: int) -> int:
        if tx:
            return b.matmul(y, c, k, n, m, ty, True)
        return b.matmul(c, y, m, n, k, False, not ty)

    def pull_right(c: int) -> int:
        if ty:
            return b.matmul(c, x, n, m, k, True, tx)
        return b.matmul(x, c, k, m, n, not tx, False)

    return [
        LinearMap(lambda t: b.matmul(t, y, m, k, n, tx, ty), pull_left),
        LinearMap(lambda t: b.matmul(x, t, m, k, n, tx, ty), pull_right),
    ]


def _run_weights(b: TapeBuilder, weights: int, length: int) -> LinearMap:
    """The map of a run-wise function whose gradient on each run is ``weights``."""
    return LinearMap(
        lambda t: b.sum(b.mul(weights, t, b.size(weights)), length),
        lambda c: b.mul(weights, b.repeat(c, length), b.size(weights)),
    )


def linearise(b: TapeBuilder, node: Node, out: int) -> list[LinearMap | Selection | None]:
    """One linear map for each operand of a node; None where the derivative vanishes."""
    if node.op in op.UNARY:
        factor = unary_factor(b, node.op, node.args[0], out)
        return [None if factor is None else _scaling(b, factor, node.size, node.size)]
    if node.op in op.BINARY:
        left, right = node.args
        factors = binary_factors(b, node.op, left, right, out)
        return [
            None if factor is None else _scaling(b, factor, b.size(arg), node.size)
            for factor, arg in zip(factors, node.args, strict=True)
        ]
    if node.op == op.SELECT:
        return list(selections(b, node))
    if node.op == op.MATMUL:
        return list(_matmul_maps(b, node))
    x = node.args[0]
    if node.op == op.FILL:
        return [LinearMap(lambda t: b.fill(t, node.size), b.sum)]
    if node.op == op.SPARSE:
        matrix, columns = node.data
        return [
            LinearMap(
                lambda t: b.sparse(matrix, t, columns),
                lambda c: b.sparse(matrix.transposed, c, columns),
            )
        ]
    if node.op in op.SEGMENTS:
        _, length, k = node.data
        if node.op == op.SUM:
            return [LinearMap(lambda t: b.sum(t, length), lambda c: b.repeat(c, length))]
        if node.op == op.CUMSUM:
            cumulate = partial(b.segments, op.CUMSUM, length=length)
            return [LinearMap(lambda t: cumulate(t, k=k), lambda c: cumulate(c, k=1 - k))]
        if node.op == op.SEGMENT_MAX:
            return [_run_weights(b, b.segments(op.FIRST_MAX, x, length), length)]
        if node.op == op.NORM:
            direction = b.binary(op.SAFE_DIV, x, b.repeat(out, length), b.size(x))
            return [_run_weights(b, direction, length)]
    if node.op in (op.FIRST_MAX, op.LARGEST, op.FREEZE):
        return [None]  # masks are flat, what is frozen counts as constant
    raise unknown_instruction(node.op, "the derivatives")


def selections(b: TapeBuilder, node: Node) -> list[Selection]:
    """What a SELECT takes from each of its operands."""
    source, target = node.data
    target = np.arange(node.size) if target is None else target
    if len(node.args) == 1:
        return [Selection(source, target)]
    ends = np.cumsum([b.size(arg) for arg in node.args])
    part = np.searchsorted(ends, source, side="right")
    arrangement = np.argsort(part, kind="stable")
    cuts = np.searchsorted(part[arrangement], np.arange(1, len(node.args)))
    return [
        Selection(source[chosen] - (end - b.size(arg)), target[chosen])
        for arg, end, chosen in zip(node.args, ends, np.split(arrangement, cuts), strict=True)
    ]


def copied(tape: Tape, b: TapeBuilder, wrt: tuple[str, ...]) -> tuple[list[int], list[bool]]:
    """Emit the tape's nodes again; also tell which of them depend on the named blocks."""
    numbers: list[int] = []
    active: list[bool] = []
    for node in tape.nodes:
        args = tuple(numbers[arg] for arg in node.args)
        numbers.append(b.emit(node.op, args, node.size, node.data))
        if node.op == op.INPUT:
            active.append(tape.input_names[node.data] in wrt)
        else:
            active.append(node.op != op.FREEZE and any(active[arg] for arg in node.args))
    return numbers, active
