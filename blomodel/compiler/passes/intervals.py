"""Bounds of a tape's outputs over boxes of inputs, by interval arithmetic.

The bounds hold up to rounding. Where a function is undefined on part of an interval, its values
on the rest are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from blomodel.basics.arrays import is_on_disk
from blomodel.compiler.kinds import Rules, first_operand
from blomodel.compiler.tape import Node, Tape, unknown_instruction
from blomodel.kernels import machine as op

Interval = tuple[np.ndarray, np.ndarray]

_INCREASING = frozenset(
    (op.EXP, op.SINH, op.TANH, op.ASINH, op.SIGN, op.SOFTPLUS, op.SIGMOID, op.NORMCDF)
)
# Increasing on a domain; arguments are cut to it.
_INCREASING_ON = {
    op.LOG: (0.0, np.inf),
    op.LOG1P: (-1.0, np.inf),
    op.SQRT: (0.0, np.inf),
    op.ATANH: (-1.0, 1.0),
}


def intervals(tape: Tape, bounds: Mapping[str, tuple[Any, Any]]) -> Interval:
    """Lower and upper bounds of every output element.

    Parameters
    ----------
    tape : Tape
    bounds : dict
        Block name to (lower, upper), numbers or vectors; a block not named may be anything.
    """
    low, high = node_intervals(tape, bounds)[tape.output]
    return low.copy(), high.copy()


def node_intervals(tape: Tape, bounds: Mapping[str, tuple[Any, Any]]) -> list[Interval]:
    """The same for every node of the tape."""
    known: list[Interval] = []
    with np.errstate(all="ignore"):
        for node in tape.nodes:
            if node.op == op.INPUT:
                low, high = bounds.get(tape.input_names[node.data], (-np.inf, np.inf))
                shape = (node.size,)
                known.append((_spread(low, shape), _spread(high, shape)))
            elif node.op == op.CONSTANT:
                known.append((node.data, node.data))
            else:
                low, high = _RULES(node, [known[arg] for arg in node.args])
                # A sum of opposite infinities says nothing.
                low = np.where(np.isnan(low), -np.inf, low)
                high = np.where(np.isnan(high), np.inf, high)
                known.append((_spread(low, (node.size,)), _spread(high, (node.size,))))
    return known


def _spread(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(np.asarray(values, dtype=float), shape)


# Elementwise functions


def _values(opcode: int, at: np.ndarray) -> np.ndarray:
    """The machine's own values, so that bounds agree with what a tape computes."""
    n = at.size
    workspace = np.concatenate([at, np.zeros(n)])
    code = np.zeros((1, op.WIDTH), dtype=np.uint64)
    code[0, :4] = opcode, n, n, 0
    op.run(code, np.zeros(1, dtype=np.uint64), workspace, 0, 1)
    return workspace[n:]


def _unary(opcode: int, low: np.ndarray, high: np.ndarray) -> Interval:
    if opcode in _INCREASING:
        return _values(opcode, low), _values(opcode, high)
    if opcode in _INCREASING_ON:
        begin, end = _INCREASING_ON[opcode]
        return _values(opcode, np.maximum(low, begin)), _values(opcode, np.minimum(high, end))
    if opcode == op.NEG:
        return -high, -low
    if opcode == op.ABS:
        return _magnitude(low, high)
    if opcode == op.COSH:
        least, most = _magnitude(low, high)
        return np.cosh(least), np.cosh(most)
    if opcode == op.COS:
        return _wave(op.COS, low, high, 0.0)
    if opcode == op.SIN:
        return _wave(op.SIN, low, high, np.pi / 2)
    if opcode == op.TAN:
        # Within one branch the tangent increases.
        branch = np.floor(low / np.pi + 0.5) == np.floor(high / np.pi + 0.5)
        return np.where(branch, np.tan(low), -np.inf), np.where(branch, np.tan(high), np.inf)
    if opcode == op.ENTR:
        return _entropy(low, high)
    raise unknown_instruction(opcode, "interval arithmetic of elementwise functions")


def _entropy(low: np.ndarray, high: np.ndarray) -> Interval:
    """Bounds of -x log(x): it rises to 1/e at 1/e, falls after it, is minus infinity below zero."""
    left, right = (_values(op.ENTR, np.maximum(end, 0.0)) for end in (low, high))
    right = np.where(high == np.inf, -np.inf, right)
    top = (low <= 1 / np.e) & (high >= 1 / np.e)
    return (
        np.where(low < 0.0, -np.inf, np.minimum(left, right)),
        np.where(top, 1 / np.e, np.maximum(left, right)),
    )


def _magnitude(low: np.ndarray, high: np.ndarray) -> Interval:
    straddles = (low < 0.0) & (high > 0.0)
    least = np.where(straddles, 0.0, np.minimum(np.abs(low), np.abs(high)))
    return least, np.maximum(np.abs(low), np.abs(high))


def _wave(opcode: int, low: np.ndarray, high: np.ndarray, top: float) -> Interval:
    """Bounds of sine or cosine, the one whose maximum is at ``top``."""

    def passes(phase: float) -> np.ndarray:
        """Whether the interval holds a point phase + 2 pi k."""
        turns = (low - phase) / (2 * np.pi), (high - phase) / (2 * np.pi)
        # A little slack, so that rounding of the quotient cannot lose an extreme point.
        return np.ceil(turns[0] - 1e-9) <= np.floor(turns[1] + 1e-9)

    finite = np.isfinite(low) & np.isfinite(high)
    ends = _values(opcode, low), _values(opcode, high)
    least = np.where(finite & ~passes(top + np.pi), np.minimum(*ends), -1.0)
    most = np.where(finite & ~passes(top), np.maximum(*ends), 1.0)
    return least, most


def _times(a: Interval, b: Interval) -> Interval:
    ends = [x * y for x in a for y in b]
    # Zero times infinity is zero here: the infinite end is never attained.
    ends = [np.where(np.isnan(end), 0.0, end) for end in ends]
    return np.minimum.reduce(ends), np.maximum.reduce(ends)


def _square(a: Interval) -> Interval:
    least, most = _magnitude(*a)
    return least * least, most * most


def _reciprocal(low: np.ndarray, high: np.ndarray) -> Interval:
    straddles = (low < 0.0) & (high > 0.0)
    least = np.where(straddles | (high == 0.0), -np.inf, 1.0 / high)
    most = np.where(straddles | (low == 0.0), np.inf, 1.0 / low)
    zero = (low == 0.0) & (high == 0.0)
    return np.where(zero, -np.inf, least), np.where(zero, np.inf, most)


def _binary(opcode: int, a: Interval, b: Interval, same: bool) -> Interval:
    if opcode == op.ADD:
        return a[0] + b[0], a[1] + b[1]
    if opcode == op.SUB:
        return (a[0] * 0.0, a[0] * 0.0) if same else (a[0] - b[1], a[1] - b[0])
    if opcode == op.MUL:
        return _square(a) if same else _times(a, b)
    if opcode == op.DIV:
        return _times(a, _reciprocal(*b))
    if opcode == op.SAFE_DIV:
        low, high = _times(a, _reciprocal(*b))
        has_zero = (a[0] <= 0.0) & (a[1] >= 0.0)
        return (
            np.where(has_zero, np.minimum(low, 0.0), low),
            np.where(has_zero, np.maximum(high, 0.0), high),
        )
    if opcode == op.MAXIMUM:
        return np.maximum(a[0], b[0]), np.maximum(a[1], b[1])
    if opcode == op.MINIMUM:
        return np.minimum(a[0], b[0]), np.minimum(a[1], b[1])
    if opcode == op.GREATER_EQUAL:
        return (a[0] >= b[1]).astype(float), (a[1] >= b[0]).astype(float)
    if opcode == op.REL_ENTR:
        # x log(x / y) = x log x - x log y on its domain
        entropy = _unary(op.ENTR, np.maximum(a[0], 0.0), a[1])
        mixed = _times((np.maximum(a[0], 0.0), a[1]), _unary(op.LOG, *b))
        outside = (a[0] < 0.0) | (b[0] <= 0.0)
        low, high = -entropy[1] - mixed[1], -entropy[0] - mixed[0]
        return low, np.where(outside, np.inf, high)
    if opcode == op.POWER:
        return _power(a, b)
    raise unknown_instruction(opcode, "interval arithmetic of functions of two operands")


def _power(base: Interval, exponent: Interval) -> Interval:
    number = exponent[0].flat[0]
    if np.all(exponent[0] == number) and np.all(exponent[1] == number):
        if number < 0.0:
            return _reciprocal(*_power(base, (-exponent[1], -exponent[0])))
        if number % 2 == 0.0:
            least, most = _magnitude(*base)
            return least**number, most**number
        if number % 2 == 1.0:
            return base[0] ** number, base[1] ** number
    low, high = np.maximum(base[0], 0.0), np.maximum(base[1], 0.0)
    corners = [x**e for x in (low, high) for e in exponent]
    # Powers of positive numbers are monotone in base and in exponent.
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


# Sums, selections, runs and products with matrices


def _select(node: Node, args: list[Interval]) -> Interval:
    source, target = node.data
    ends = [np.concatenate([arg[side] for arg in args])[source] for side in (0, 1)]
    if target is None:
        return ends[0], ends[1]
    sums = np.zeros((2, node.size))
    for total, end in zip(sums, ends, strict=True):
        np.add.at(total, target, end)
    return sums[0], sums[1]


def _runs(node: Node, arg: Interval) -> Interval:
    count, length, k = node.data
    low, high = (end.reshape(count, length) for end in arg)
    if node.op == op.SUM:
        return low.sum(axis=1), high.sum(axis=1)
    if node.op == op.SEGMENT_MAX:
        return low.max(axis=1), high.max(axis=1)
    if node.op == op.NORM:
        least, most = _square((low, high))
        return np.sqrt(least.sum(axis=1)), np.sqrt(most.sum(axis=1))
    if node.op == op.CUMSUM:
        step = -1 if k else 1
        sums = [np.cumsum(end[:, ::step], axis=1)[:, ::step].ravel() for end in (low, high)]
        return sums[0], sums[1]
    if node.op in (op.FIRST_MAX, op.LARGEST):  # masks
        return np.zeros(node.size), np.ones(node.size)
    raise unknown_instruction(node.op, "interval arithmetic of runs")


def _matmul(node: Node, left: Interval, right: Interval) -> Interval:
    m, k, n, transposed = node.data
    same = node.args[0] == node.args[1] and m == n == 1
    product: Callable[[Interval, Interval], Interval] = _times
    if same:  # the sum of squares of one vector

        def product(a: Interval, b: Interval) -> Interval:
            return _square(a)

    if m == n == 1:  # two vectors
        terms = product(left, right)
        return terms[0].sum(keepdims=True), terms[1].sum(keepdims=True)

    def matrix(end: np.ndarray, rows: int, columns: int, flipped: bool) -> np.ndarray:
        return end.reshape(columns, rows) if not flipped else end.reshape(rows, columns).T

    if is_on_disk(left[0]):  # nothing is found out about files
        return np.full(m * n, -np.inf), np.full(m * n, np.inf)
    # Stored by columns, so that a C-order reshape gives the transpose: a[l] is column l.
    a = [matrix(end, m, k, transposed % 2 == 1) for end in left]
    b = [matrix(end, k, n, transposed >= 2).T for end in right]
    if np.array_equal(a[0], a[1]):
        return _images(a[0], b)
    low, high = np.zeros((n, m)), np.zeros((n, m))
    for inner in range(k):
        column = (a[0][inner][None, :], a[1][inner][None, :])
        row = (b[0][inner][:, None], b[1][inner][:, None])
        term = product(column, row)
        low += term[0]
        high += term[1]
    return low.ravel(), high.ravel()


def _images(columns: np.ndarray, rows: list[np.ndarray]) -> Interval:
    """A matrix of numbers, given by its columns, times intervals, given by their rows."""
    low, high = rows
    if not np.isfinite(low).any() and not np.isfinite(high).any():  # free variables
        reached = np.where(np.any(columns != 0.0, axis=0), np.inf, 0.0)
        reached = np.tile(reached, low.shape[1])
        return -reached, reached
    positive, negative = np.maximum(columns, 0.0), np.minimum(columns, 0.0)

    def end(of_positive: np.ndarray, of_negative: np.ndarray, infinity: float) -> np.ndarray:
        total = np.zeros((of_positive.shape[1], columns.shape[1]))
        for part, factors in ((positive, of_positive), (negative, of_negative)):
            is_finite = np.isfinite(factors)
            total += np.where(is_finite, factors, 0.0).T @ part
            if not is_finite.all():
                total[((~is_finite).T.astype(float) @ (part != 0.0)) > 0] = infinity
        return total

    return end(low, high, -np.inf).ravel(), end(high, low, np.inf).ravel()


def _sparse(node: Node, arg: Interval) -> Interval:
    matrix, columns = node.data
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.csr.indptr))
    sums = np.zeros((2, columns, matrix.shape[0]))
    entries = (matrix.csr.data, matrix.csr.data)
    ends = [end.reshape(columns, matrix.shape[1]) for end in arg]
    for column in range(columns):
        at = (ends[0][column][matrix.csr.indices], ends[1][column][matrix.csr.indices])
        for side, term in enumerate(_times(entries, at)):
            np.add.at(sums[side, column], rows, term)
    return sums[0].ravel(), sums[1].ravel()


_RULES = Rules[Interval](
    purpose="interval arithmetic",
    unary=lambda node, args: _unary(node.op, *args[0]),
    binary=lambda node, args: _binary(node.op, args[0], args[1], node.args[0] == node.args[1]),
    fill=first_operand,
    freeze=first_operand,
    select=_select,
    matmul=lambda node, args: _matmul(node, *args),
    sparse=lambda node, args: _sparse(node, *args),
    segments=lambda node, args: _runs(node, *args),
)
