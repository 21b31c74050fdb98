"""The machine that runs a tape: one compiled interpreter for every problem.

An instruction is a row of the table ``code``; its operands are positions in one workspace of
doubles, its index lists lie in ``integers``. All integers are unsigned, because Numba guards
signed subscripts against negative values, which keeps loops from being vectorised.

Columns of an instruction, by family (matrices are stored column by column)::

    unary      op  n     out  a
    binary     op  n     out  a  step_a  b  step_b          a step of 0 repeats a scalar
    FILL       op  n     out  a
    GATHER     op  n     out  where                         out[i] = workspace[integers[where + i]]
    SCATTER    op  n     out  where  pairs                  pairs (source, target), targets from 0
    segments   op  count out  a  length  k                  count runs of the same length
    MATMUL     op  m     out  a  k  b  n  transposed        bit 1: a transposed, bit 2: b transposed,
                                                            bit 3: kept while b stays the same
    SPARSE     op  rows  out  a  where  data  columns  rows_a   CSR: row starts, column numbers

The high half of SPARSE's ``columns`` tells how many rows of the matrix come behind those that are meant.
An op with ``DIVISIBLE`` added may be done by several threads (``division.py``).
"""

from __future__ import annotations

import math

import numpy as np
from numba import carray, types

from .division import is_done_in_parts, is_on
from .jit import compiled, helper, unlocked
from .linked import ENDLESS, address, doubles, linked, unsigned

WIDTH = 8  # columns of the table ``code``
SPARSE_LISTS = 4  # the column of SPARSE that is a place among the integers

# Elementwise functions of one operand.
(
    NEG,
    EXP,
    LOG,
    LOG1P,
    SIN,
    COS,
    TAN,
    SINH,
    COSH,
    TANH,
    ASINH,
    ATANH,
    SQRT,
    ABS,
    SIGN,
    SOFTPLUS,
    SIGMOID,
    ENTR,
    NORMCDF,
) = range(19)
# Elementwise functions of two operands.
(ADD, SUB, MUL, DIV, SAFE_DIV, POWER, MAXIMUM, MINIMUM, GREATER_EQUAL, REL_ENTR) = range(19, 29)
# Linear maps.
(FILL, GATHER, SCATTER, SUM, CUMSUM, MATMUL, SPARSE) = range(29, 36)
# Functions of runs of equal length.
(SEGMENT_MAX, FIRST_MAX, NORM, LARGEST) = range(36, 40)
DIVISIBLE = 64  # added to the op of an instruction that is worth being divided among threads
# Known to the compiler only: these never reach the machine.
(INPUT, CONSTANT, SELECT, FREEZE) = range(100, 104)

UNARY = frozenset(range(NEG, NORMCDF + 1))
BINARY = frozenset(range(ADD, REL_ENTR + 1))
SEGMENTS = frozenset((SUM, CUMSUM, SEGMENT_MAX, FIRST_MAX, NORM, LARGEST))
NAMES = {
    value: name
    for name, value in list(globals().items())
    if name.isupper()
    and isinstance(value, int)
    and name not in ("WIDTH", "ENDLESS", "SPARSE_LISTS", "DIVISIBLE")
}

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_HALF, _LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)
_SQRT_HALF = math.sqrt(0.5)
# Below this many multiplications a plain loop beats the call of a matrix library.
_SMALL_PRODUCT = np.uint64(4096)
_LARGE_MATRIX = np.uint64(100_000)  # entries from which a product with a vector goes to the library too


@helper
def _unary(op, n, out, a, w):
    if op == NEG:
        for i in range(n):
            w[out + i] = -w[a + i]
    elif op == EXP:
        for i in range(n):
            w[out + i] = np.exp(w[a + i])
    elif op == LOG:
        for i in range(n):
            w[out + i] = np.log(w[a + i])
    elif op == LOG1P:
        for i in range(n):
            w[out + i] = np.log1p(w[a + i])
    elif op == SIN:
        for i in range(n):
            w[out + i] = np.sin(w[a + i])
    elif op == COS:
        for i in range(n):
            w[out + i] = np.cos(w[a + i])
    elif op == TAN:
        for i in range(n):
            w[out + i] = np.tan(w[a + i])
    elif op == SINH:
        for i in range(n):
            w[out + i] = np.sinh(w[a + i])
    elif op == COSH:
        for i in range(n):
            w[out + i] = np.cosh(w[a + i])
    elif op == TANH:
        for i in range(n):
            w[out + i] = np.tanh(w[a + i])
    elif op == ASINH:
        for i in range(n):
            w[out + i] = np.arcsinh(w[a + i])
    elif op == ATANH:
        for i in range(n):
            w[out + i] = np.arctanh(w[a + i])
    elif op == SQRT:
        for i in range(n):
            w[out + i] = np.sqrt(w[a + i])
    elif op == ABS:
        for i in range(n):
            w[out + i] = abs(w[a + i])
    elif op == SIGN:
        for i in range(n):
            w[out + i] = np.sign(w[a + i])
    elif op == SOFTPLUS:
        for i in range(n):
            x = w[a + i]
            w[out + i] = max(x, 0.0) + np.log1p(np.exp(-abs(x)))
    elif op == SIGMOID:
        for i in range(n):
            x = w[a + i]
            tail = np.exp(-abs(x))
            w[out + i] = (1.0 if x >= 0.0 else tail) / (1.0 + tail)
    elif op == ENTR:
        for i in range(n):
            x = w[a + i]
            w[out + i] = -x * np.log(x) if x > 0.0 else (0.0 if x == 0.0 else -np.inf)
    elif op == NORMCDF:
        for i in range(n):
            w[out + i] = 0.5 * math.erfc(-w[a + i] * _SQRT_HALF)


@helper
def _power(x, exponent):
    if exponent == 3.0:
        return x * x * x
    if exponent == 4.0:
        return (x * x) * (x * x)
    return x**exponent


@helper
def _binary(op, n, out, a, step_a, b, step_b, w):
    # A scalar operand gets loops of its own where it is common, because only those are vectorised.
    both = step_a == step_b
    scalar, vector = (w[b], a) if step_b == _ZERO else (w[a], b)
    if op == ADD:
        if both:
            for i in range(n):
                w[out + i] = w[a + i] + w[b + i]
        else:
            for i in range(n):
                w[out + i] = scalar + w[vector + i]
    elif op == SUB:
        if both:
            for i in range(n):
                w[out + i] = w[a + i] - w[b + i]
        elif step_b == _ZERO:
            for i in range(n):
                w[out + i] = w[vector + i] - scalar
        else:
            for i in range(n):
                w[out + i] = scalar - w[vector + i]
    elif op == MUL:
        if both:
            for i in range(n):
                w[out + i] = w[a + i] * w[b + i]
        else:
            for i in range(n):
                w[out + i] = scalar * w[vector + i]
    elif op == DIV:
        for i in range(n):
            w[out + i] = w[a + step_a * i] / w[b + step_b * i]
    elif op == SAFE_DIV:
        for i in range(n):
            top = w[a + step_a * i]
            w[out + i] = 0.0 if top == 0.0 else top / w[b + step_b * i]
    elif op == POWER:
        for i in range(n):
            w[out + i] = _power(w[a + step_a * i], w[b + step_b * i])
    elif op == MAXIMUM:
        for i in range(n):
            left, right = w[a + step_a * i], w[b + step_b * i]
            w[out + i] = left if left >= right or left != left else right
    elif op == MINIMUM:
        for i in range(n):
            left, right = w[a + step_a * i], w[b + step_b * i]
            w[out + i] = left if left <= right or left != left else right
    elif op == GREATER_EQUAL:
        for i in range(n):
            w[out + i] = 1.0 if w[a + step_a * i] >= w[b + step_b * i] else 0.0
    elif op == REL_ENTR:
        for i in range(n):
            x, y = w[a + step_a * i], w[b + step_b * i]
            if x > 0.0 and y > 0.0:
                w[out + i] = x * np.log(x / y)
            elif x == 0.0 and y >= 0.0:
                w[out + i] = 0.0
            else:
                w[out + i] = np.inf


@helper
def _norm(start, length, w):
    """Euclidean norm of one run; scaled only where the plain sum over- or underflows."""
    total = 0.0
    for i in range(length):
        total += w[start + i] * w[start + i]
    if 1e-280 < total < np.inf:
        return np.sqrt(total)
    scale = 0.0
    for i in range(length):
        scale = max(scale, abs(w[start + i]))
    if scale == 0.0 or not np.isfinite(scale) or np.isnan(total):
        return np.sqrt(total)
    total = 0.0
    for i in range(length):
        total += (w[start + i] / scale) ** 2
    return scale * np.sqrt(total)


@helper
def _segments(op, count, out, a, length, k, w):
    for s in range(count):
        start = a + s * length
        if op == SUM:
            total = 0.0
            for i in range(length):
                total += w[start + i]
            w[out + s] = total
        elif op == NORM:
            w[out + s] = _norm(start, length, w)
        elif op == SEGMENT_MAX:
            best = w[start]
            for i in range(length):
                best = max(best, w[start + i])
            w[out + s] = best
        elif op == FIRST_MAX:
            first = start
            for i in range(length):
                w[out + s * length + i] = 0.0
                if w[start + i] > w[first]:
                    first = start + i
            w[out + (first - a)] = 1.0
        elif op == CUMSUM:
            total = 0.0
            for i in range(length):
                at = length - _ONE - i if k == _ONE else i
                total += w[start + at]
                w[out + s * length + at] = total
        elif op == LARGEST:
            # Selection of the k largest by repeated search; ties go to the first.
            for i in range(length):
                w[out + s * length + i] = 0.0
            for _ in range(k):
                found = False
                best = start
                for i in range(length):
                    if w[out + s * length + i] == 0.0 and (not found or w[start + i] > w[best]):
                        best = start + i
                        found = True
                w[out + (best - a)] = 1.0


@helper
def _has_changed(n, new, old, w):
    """Whether two vectors differ; the new one then takes the old one's place."""
    for i in range(n):
        if w[new + i] != w[old + i]:  # also where there is no number
            for j in range(n):
                w[old + j] = w[new + j]
            return True
    return False


@helper
def _part(w_at, begin, size):
    """Numbers of the workspace, or of a constant that lies outside of it, as an array."""
    return carray(doubles(int(w_at + 8 * np.int64(begin))), int(size))


@helper
def _inner(length, a, b, step_b, w):
    """The inner product of two vectors, in four sums, since each addition has to wait for the last."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    quarter = length >> _TWO
    for block in range(quarter):
        i = block << _TWO
        at = b + i * step_b
        first += w[a + i] * w[at]
        second += w[a + i + _ONE] * w[at + step_b]
        third += w[a + i + _TWO] * w[at + (step_b << _ONE)]
        fourth += w[a + i + _TWO + _ONE] * w[at + (step_b << _ONE) + step_b]
    for i in range(quarter << _TWO, length):
        first += w[a + i] * w[b + i * step_b]
    return (first + second) + (third + fourth)


@helper
def _matmul(m, out, a, k, b, n, transposed, w, w_at):
    a_transposed = transposed % 2 == 1
    b_transposed = transposed % 4 >= 2
    # The last b lies behind the product. Both begin as zeros, which fit each other.
    if transposed >= 4 and not _has_changed(k * n, b, out + m * n, w):
        return
    if m * k * n > _SMALL_PRODUCT and m > _ONE and n > _ONE:
        # Column-major storage is the transpose of NumPy's order, hence C' = B' A'.
        product = _part(w_at, out, m * n).reshape((n, m))
        left = _part(w_at, a, m * k)
        right = _part(w_at, b, k * n)
        if a_transposed and b_transposed:
            np.dot(right.reshape((k, n)).T, left.reshape((m, k)).T, product)
        elif a_transposed:
            np.dot(right.reshape((n, k)), left.reshape((m, k)).T, product)
        elif b_transposed:
            np.dot(right.reshape((k, n)).T, left.reshape((k, m)), product)
        else:
            np.dot(right.reshape((n, k)), left.reshape((k, m)), product)
        return
    if n == _ONE and m > _ONE and m * k > _LARGE_MATRIX:
        # The time is that of reading the matrix, which a plain sum, one addition after another, is not.
        product, left, right = _part(w_at, out, m), _part(w_at, a, m * k), _part(w_at, b, k)
        if a_transposed:
            np.dot(left.reshape((m, k)), right, product)
        else:
            np.dot(left.reshape((k, m)).T, right, product)
        return
    step_k, step_n = (n, _ONE) if b_transposed else (_ONE, k)
    if a_transposed or m == _ONE:
        for j in range(n):
            for i in range(m):
                w[out + j * m + i] = _inner(k, a + i * k, b + j * step_n, step_k, w)
    else:
        for j in range(n):
            for i in range(m):
                w[out + j * m + i] = 0.0
            for inner in range(k):
                factor = w[b + inner * step_k + j * step_n]
                for i in range(m):
                    w[out + j * m + i] += w[a + inner * m + i] * factor


@linked(types.int64, types.int64, types.int64, types.int64, types.int64, types.int64)
def run_at(code_at, integers_at, w_at, first, last):
    """Run the instructions ``first`` to ``last - 1``; the arrays as addresses. Returns 0."""
    table = carray(unsigned(code_at), (ENDLESS, WIDTH))
    integers, w = carray(unsigned(integers_at), ENDLESS), carray(doubles(w_at), ENDLESS)
    for position in range(np.uint64(first), np.uint64(last)):
        op = table[position, 0]
        if op >= DIVISIBLE:
            if is_on() != 0 and is_done_in_parts(code_at, integers_at, w_at, np.int64(position)) == 1:
                continue
            op -= np.uint64(DIVISIBLE)
        n = table[position, 1]
        out = table[position, 2]
        a = table[position, 3]
        if op <= NORMCDF:
            _unary(op, n, out, a, w)
        elif op <= REL_ENTR:
            _binary(op, n, out, a, table[position, 4], table[position, 5], table[position, 6], w)
        elif op == FILL:
            for i in range(n):
                w[out + i] = w[a]
        elif op == GATHER:
            for i in range(n):
                w[out + i] = w[integers[a + i]]
        elif op == SCATTER:
            for i in range(n):
                w[out + i] = 0.0
            pairs = table[position, 4]
            for i in range(pairs):
                w[out + integers[a + pairs + i]] += w[integers[a + i]]
        elif op == MATMUL:
            _matmul(
                n,
                out,
                a,
                table[position, 4],
                table[position, 5],
                table[position, 6],
                table[position, 7],
                w,
                w_at,
            )
        elif op == SPARSE:
            where = table[position, 4]
            data = table[position, 5]
            numbers = where + n + (table[position, 6] >> _HALF) + _ONE
            for column in range(table[position, 6] & _LOW_HALF):
                source = a + column * table[position, 7]
                target = out + column * n
                for i in range(n):
                    total = 0.0
                    for inner in range(integers[where + i], integers[where + i + _ONE]):
                        total += w[data + inner] * w[source + integers[numbers + inner]]
                    w[target + i] = total
        else:
            _segments(op, n, out, a, table[position, 4], table[position, 5], w)
    return 0


@compiled
def run(code, integers, w, first, last):
    """Run the instructions ``first`` to ``last - 1`` on the workspace ``w``."""
    run_at(address(code), address(integers), address(w), first, last)


@unlocked
def run_part(code_at, integers_at, w_at, last):
    """Run the first instructions of a table without holding Python's lock; the arrays as addresses."""
    run_at(code_at, integers_at, w_at, 0, last)


@compiled
def run_each(code, integers, w, first, begin, outputs, points, result):
    """Run once for each row of ``points`` in the input at ``begin``, one row of ``result`` for each."""
    for row in range(result.shape[0]):
        for i in range(points.shape[1]):
            w[begin + i] = points[row, i]
        run(code, integers, w, first, len(code))
        for i in range(result.shape[1]):
            result[row, i] = w[outputs + i]


@compiled
def sweep(code, integers, w, prefix, seeds, n_seeds, outputs, n_outputs, first, result):
    """Run once for each unit vector in the seed input, one row of ``result`` for each.

    Instructions before ``prefix`` do not depend on the seed and have been run already.
    """
    for row in range(result.shape[0]):
        for i in range(n_seeds):
            w[seeds + i] = 0.0
        w[seeds + first + row] = 1.0
        run(code, integers, w, prefix, len(code))
        for i in range(n_outputs):
            result[row, i] = w[outputs + i]
