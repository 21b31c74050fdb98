"""Steps that the loops share: evaluate a direction, and descend along it with prox and projection.

A direction is a tuple ``(code, integers, workspace, layout)`` that gives a slope at the points in its
workspace. Its instructions leave vectors from which the slope is combined::

    slope = own * point + constant + sum_j coefficient_j * vector_j

where ``point`` is the last point of the direction, which a descent moves, and all the numbers are affine
in the direction's weights. Where no vector depends on the point, the slope is *steady*: all steps can
then be done without running an instruction, and without prox and bounds all at once.

``layout`` begins with the fields below; then come offset and size of each input (weights first, points
after them), then the offsets of the vectors. The workspace holds, from TERMS on, one row for the number
``own``, one for ``constant``, one for each vector: a fixed part, then the factor of each weight.
"""

from __future__ import annotations

import numpy as np
from numba import carray, types

from .jit import compiled, helper, inlined
from .linalg import copy
from .linked import ENDLESS, address, doubles, linked, signed
from .machine import run_at
from .projection import BOX, project_at
from .projection import N_COLUMNS as SET_COLUMNS
from .prox import L1, prox_at
from .prox import N_COLUMNS as PENALTY_COLUMNS

(
    START,  # first instruction
    PREFIX,  # first instruction that depends on the last point
    LENGTH,  # number of instructions
    OUTPUT,  # where the slope is left
    OUTPUT_SIZE,
    POINT,  # where the last point lies
    IS_PLAIN,  # 1: the instructions leave the slope itself, nothing is combined
    IS_STEADY,  # 1: no vector depends on the last point
    IS_ABSOLUTE,  # 1: the absolute values of the vectors are combined
    TERMS,  # where the rows of coefficients lie; see ROW
    N_VECTORS,  # at least 1
    VECTORS,  # where in the layout the offsets of the vectors begin
    IS_LIGHT,  # 1: steady, combined from two vectors, and there are no instructions
    SLOPES,  # how many slopes the loops have taken so far; steps done at once count one by one
    INPUTS,
) = range(15)
N_WEIGHTS = 2
ROW = 1 + N_WEIGHTS  # numbers for each coefficient
CHECK = 8  # inner steps between two looks at how far y still moves
_ONE = np.uint64(1)
BLOCK = np.uint64(256)  # entries on which several steps are done before the next are begun


@helper
def _add_product(w, n, factor, vector, out):
    for i in range(n):
        w[out + i] += factor * w[vector + i]


@inlined
def _number(w, layout, row):
    """Own (row 0), constant (row 1) or the coefficient of a vector, at the present weights."""
    at, weights = np.uint64(layout[TERMS] + ROW * row), np.uint64(layout[INPUTS])
    return w[at] + w[at + _ONE] * w[weights] + w[at + _ONE + _ONE] * w[weights + _ONE]


@helper
def _cut(value, low, high):
    """The nearest number between the bounds; NaN stays."""
    value = low if value < low else value
    return high if value > high else value


@helper
def _shrunk(value, amount):
    """The prox of amount * |.|; written so that NaN stays and a loop around it vectorises."""
    return value - _cut(value, -amount, amount)


@helper
def _combine(w, layout):
    """The constant plus the vectors, where the slope is left."""
    n, out, count = np.uint64(layout[OUTPUT_SIZE]), np.uint64(layout[OUTPUT]), layout[N_VECTORS]
    constant, factor = _number(w, layout, 1), _number(w, layout, 2)
    vector = np.uint64(layout[layout[VECTORS]])
    if layout[IS_ABSOLUTE] == 1:
        for i in range(n):
            w[out + i] = constant + factor * abs(w[vector + i])
        for j in range(1, count):
            factor, vector = _number(w, layout, 2 + j), np.uint64(layout[layout[VECTORS] + j])
            for i in range(n):
                w[out + i] += factor * abs(w[vector + i])
    else:
        for i in range(n):
            w[out + i] = constant + factor * w[vector + i]
        for j in range(1, count):
            _add_product(w, n, _number(w, layout, 2 + j), np.uint64(layout[layout[VECTORS] + j]), out)


@inlined
def _step(w, layout, step, amounts, has_l1, bounds, has_box):
    """Do point -= step * slope, then the proximal step; in one pass where few vectors are combined."""
    n, point = np.uint64(layout[OUTPUT_SIZE]), np.uint64(layout[POINT])
    own, constant, factor_a = _number(w, layout, 0), _number(w, layout, 1), _number(w, layout, 2)
    vectors, count = layout[VECTORS], layout[N_VECTORS]
    a, b, factor_b = np.uint64(layout[vectors]), np.uint64(0), 0.0
    if count == 2:
        b, factor_b = np.uint64(layout[vectors + 1]), _number(w, layout, 3)
    elif count > 2 or layout[IS_ABSOLUTE] == 1:
        _combine(w, layout)
        a, factor_a, constant = np.uint64(layout[OUTPUT]), 1.0, 0.0
    if count == 2 and layout[IS_ABSOLUTE] == 1 and has_box and not has_l1:
        for i in range(n):
            rest = constant + factor_a * abs(w[a + i]) + factor_b * abs(w[b + i])
            value = w[point + i] - step * (own * w[point + i] + rest)
            w[point + i] = _cut(value, bounds[i], bounds[n + i])
        return
    if count == 2 and layout[IS_ABSOLUTE] == 1:
        for i in range(n):
            rest = constant + factor_a * abs(w[a + i]) + factor_b * abs(w[b + i])
            w[point + i] -= step * (own * w[point + i] + rest)
    elif count == 2 and has_l1:
        for i in range(n):
            rest = constant + factor_a * w[a + i] + factor_b * w[b + i]
            value = w[point + i] - step * (own * w[point + i] + rest)
            w[point + i] = _shrunk(value, step * amounts[i])
    elif count == 2:
        for i in range(n):
            rest = constant + factor_a * w[a + i] + factor_b * w[b + i]
            w[point + i] -= step * (own * w[point + i] + rest)
    elif has_l1:
        for i in range(n):
            rest = constant + factor_a * w[a + i]
            value = w[point + i] - step * (own * w[point + i] + rest)
            w[point + i] = _shrunk(value, step * amounts[i])
    else:
        for i in range(n):
            rest = constant + factor_a * w[a + i]
            w[point + i] -= step * (own * w[point + i] + rest)
    if has_l1 and count == 2 and layout[IS_ABSOLUTE] == 1:
        for i in range(n):
            w[point + i] = _shrunk(w[point + i], step * amounts[i])
    if has_box:
        for i in range(n):
            w[point + i] = _cut(w[point + i], bounds[i], bounds[n + i])


@inlined
def _steady_steps(w, point, rest, n, own, step, count, amounts, has_l1, bounds, has_box):
    """Steps along own * point + rest with the proximal step after each, a block of entries at a time."""
    for begin in range(np.uint64(0), n, BLOCK):
        end = min(begin + BLOCK, n)
        for _ in range(count):
            if has_l1 and has_box:
                for i in range(begin, end):
                    value = w[point + i] - step * (own * w[point + i] + w[rest + i])
                    value = _shrunk(value, step * amounts[i])
                    w[point + i] = _cut(value, bounds[i], bounds[n + i])
            elif has_l1:
                for i in range(begin, end):
                    value = w[point + i] - step * (own * w[point + i] + w[rest + i])
                    w[point + i] = _shrunk(value, step * amounts[i])
            else:
                for i in range(begin, end):
                    value = w[point + i] - step * (own * w[point + i] + w[rest + i])
                    w[point + i] = _cut(value, bounds[i], bounds[n + i])


@helper
def _steady_descent(w, layout, step, steps, tolerance, amounts, has_l1, bounds, has_box, before):
    """Steps along a steady slope with absolute values or bounds; returns the last move over the step."""
    n, point, rest = np.uint64(layout[OUTPUT_SIZE]), np.uint64(layout[POINT]), np.uint64(layout[OUTPUT])
    own, moved, done = _number(w, layout, 0), 0.0, 0
    _combine(w, layout)
    # Without a tolerance all steps at once; else the first, then CHECK more, and so on.
    ahead = steps if tolerance == 0.0 else 1
    while done < steps:
        done += ahead
        if tolerance > 0.0:
            # The last step before a look is done by itself, so that its length can be told.
            ahead -= 1
        for is_last in range(2 if tolerance > 0.0 else 1):
            if is_last == 1:
                ahead = 1
                _keep(w, point, n, before)
            _steady_steps(w, point, rest, n, own, step, ahead, amounts, has_l1, bounds, has_box)
        if tolerance > 0.0:
            moved = _largest_change(w, point, n, before) / step
            if not moved > tolerance:
                break
        ahead = min(CHECK, steps - done)
    layout[SLOPES] += done
    return moved


@helper
def _keep(w, point, n, before):
    for i in range(n):
        before[i] = w[point + i]


@helper
def _largest_change(w, point, n, before):
    largest = 0.0
    for i in range(n):
        change = abs(w[point + i] - before[i])
        largest = largest if change <= largest else change  # NaN is kept
    return largest


@helper
def _steady_jump(w, layout, step, steps, tolerance):
    """Steps along a steady slope, all at once, until they are short; returns the last move over step.

    Each step multiplies the slope by 1 - step * own, so that k steps are one step along the first slope,
    as long as the geometric sum of these factors.
    """
    n, point, out = np.uint64(layout[OUTPUT_SIZE]), np.uint64(layout[POINT]), np.uint64(layout[OUTPUT])
    own = _number(w, layout, 0)
    _combine(w, layout)
    _add_product(w, n, own, point, out)
    size = 0.0
    for i in range(n):
        entry = abs(w[out + i])
        size = size if entry <= size else entry  # NaN is kept
    length, factor, moved = 0.0, 1.0, size
    for k in range(steps):
        length += factor
        layout[SLOPES] += 1
        if k % CHECK == 0 or k == steps - 1:
            moved = abs(factor) * size
            if not moved > tolerance:
                break
        factor *= 1.0 - step * own
    _add_product(w, n, -step * length, out, point)
    return moved


_INT, _DOUBLE = types.int64, types.float64


@linked(_DOUBLE, *(_INT,) * 4, _DOUBLE, _INT, _DOUBLE, *(_INT,) * 9)
def descend_at(
    code_at, integers_at, w_at, layout_at, step, steps, tolerance, amounts_at, penalty_at, n_penalty,
    places_at, set_at, n_set, bounds_at, scratch_at, before_at,
):  # fmt: skip
    """:func:`descend` with the arrays as addresses; without a penalty ``n_penalty`` is 0."""
    w, layout = carray(doubles(w_at), ENDLESS), carray(signed(layout_at), ENDLESS)
    amounts, bounds = carray(doubles(amounts_at), ENDLESS), carray(doubles(bounds_at), ENDLESS)
    before = carray(doubles(before_at), ENDLESS)
    prefix, last = layout[PREFIX], layout[LENGTH]
    n, point = np.uint64(layout[OUTPUT_SIZE]), np.uint64(layout[POINT])
    point_at = w_at + 8 * layout[POINT]
    if layout[START] < prefix:
        run_at(code_at, integers_at, w_at, layout[START], prefix)
    is_steady = layout[IS_STEADY] == 1
    if is_steady and n_penalty == 0 and n_set == 0:
        if tolerance > 0.0:
            return _steady_jump(w, layout, step, steps, tolerance)
        if steps > 1:
            # One step does for all of them, see _steady_jump.
            length, factor = 0.0, 1.0 - step * _number(w, layout, 0)
            for _ in range(steps):
                length = 1.0 + factor * length
            layout[SLOPES] += steps - 1
            step, steps = step * length, 1
    # Absolute values and bounds of all entries, in their order, are done here.
    has_l1 = has_box = False
    if n_penalty == 1:
        row = carray(signed(penalty_at), PENALTY_COLUMNS)
        has_l1 = row[0] == L1 and row[2] == layout[OUTPUT_SIZE] and row[3] == 0 and row[4] == 0
    if n_set == 1:
        row = carray(signed(set_at), SET_COLUMNS)
        has_box = row[0] == BOX and row[1] == 0 and row[2] == layout[OUTPUT_SIZE] and row[3] == 0
    has_other_penalty = n_penalty > 0 and not has_l1
    has_box = has_box and not has_other_penalty  # bounds come after the penalty
    has_other_set = n_set > 0 and not has_box
    if steps > 1 and is_steady and not has_other_penalty and not has_other_set:
        return _steady_descent(
            w, layout, step, steps, tolerance, amounts, has_l1, bounds, has_box, before
        )
    moved = 0.0
    for k in range(steps):
        layout[SLOPES] += 1
        is_checked = tolerance > 0.0 and (k % CHECK == 0 or k == steps - 1)
        if is_checked:
            _keep(w, point, n, before)
        if prefix < last:
            run_at(code_at, integers_at, w_at, prefix, last)
        _step(w, layout, step, amounts, has_l1, bounds, has_box)
        if has_other_penalty:
            prox_at(penalty_at, n_penalty, places_at, amounts_at, step, point_at)
        if has_other_set:
            project_at(set_at, n_set, bounds_at, scratch_at, point_at)
        if is_checked:
            moved = _largest_change(w, point, n, before) / step
            if not moved > tolerance:
                break
    return moved


@linked(_INT, _INT, _INT, _DOUBLE)
def light_step_at(w_at, layout_at, step):
    """One step along a light slope; returns 0. Short vectors need not pay for all of descend_at."""
    w, layout = carray(doubles(w_at), ENDLESS), carray(signed(layout_at), ENDLESS)
    n, point = np.uint64(layout[OUTPUT_SIZE]), np.uint64(layout[POINT])
    vectors = np.uint64(layout[VECTORS])
    own, constant = _number(w, layout, 0), _number(w, layout, 1)
    factor_a, factor_b = _number(w, layout, 2), _number(w, layout, 3)
    a, b = np.uint64(layout[vectors]), np.uint64(layout[vectors + _ONE])
    for i in range(n):
        rest = constant + factor_a * w[a + i] + factor_b * w[b + i]
        w[point + i] -= step * (own * w[point + i] + rest)
    layout[SLOPES] += 1
    return 0


@linked(types.int64, *(types.int64,) * 4)
def evaluate_at(code_at, integers_at, w_at, layout_at):
    """:func:`evaluate` with the arrays as addresses; returns 0."""
    w, layout = carray(doubles(w_at), ENDLESS), carray(signed(layout_at), ENDLESS)
    if layout[START] < layout[LENGTH]:
        run_at(code_at, integers_at, w_at, layout[START], layout[LENGTH])
    layout[SLOPES] += 1
    if layout[IS_PLAIN] == 0:
        _combine(w, layout)
        own, point = _number(w, layout, 0), np.uint64(layout[POINT])
        if own != 0.0:
            _add_product(w, np.uint64(layout[OUTPUT_SIZE]), own, point, np.uint64(layout[OUTPUT]))
    return 0


@compiled
def evaluate(direction):
    """The slope at the points that are set, as a view of the workspace."""
    code, integers, w, layout = direction
    evaluate_at(address(code), address(integers), address(w), address(layout))
    return w[layout[OUTPUT] : layout[OUTPUT] + layout[OUTPUT_SIZE]]


@compiled
def needs_evaluation(direction):
    """Whether the slope has to be computed; it may also be one of the points, or constant."""
    layout = direction[3]
    return layout[START] < layout[LENGTH] or layout[IS_PLAIN] == 0


@compiled
def set_weight(direction, position, value):
    """Set one weight of the direction."""
    direction[2][direction[3][INPUTS] + position] = value


@compiled
def point_of(direction, position):
    """The place of a point in the direction; points count from 1, after the weights."""
    layout = direction[3]
    offset = layout[INPUTS + 2 * position]
    return direction[2][offset : offset + layout[INPUTS + 2 * position + 1]]


@compiled
def set_point(direction, position, values):
    """Copy a point into the direction."""
    copy(values, point_of(direction, position))


@compiled
def descend(direction, step, penalty, amounts, point_set, steps, tolerance, before):
    """Proximal gradient steps on the last point, at most ``steps``; returns the last move over the step.

    The other points are set. ``amounts`` are the weights of the penalty, empty where there is none. With
    a tolerance of 0 all the steps are done, and how far the point still moves is not asked.
    """
    code, integers, w, layout = direction
    rows, places = penalty
    set_rows, bounds, scratch = point_set
    n_penalty = len(rows) if len(amounts) > 0 else 0
    is_light = layout[IS_LIGHT] == 1 and steps == 1 and tolerance == 0.0
    if is_light and n_penalty == 0 and len(set_rows) == 0:
        light_step_at(address(w), address(layout), step)
        return 0.0
    return descend_at(
        address(code), address(integers), address(w), address(layout), step, steps, tolerance,
        address(amounts), address(rows), n_penalty, address(places),
        address(set_rows), len(set_rows), address(bounds), address(scratch), address(before),
    )  # fmt: skip


@compiled
def descend_with_prox(direction, x, y, step, penalty, amounts, y_set, steps, tolerance, before):
    """The same for a direction with the points x and y that are kept elsewhere."""
    set_point(direction, 1, x)
    set_point(direction, 2, y)
    moved = descend(direction, step, penalty, amounts, y_set, steps, tolerance, before)
    copy(point_of(direction, 2), y)
    return moved


@compiled
def distance(a, b):
    """Largest absolute difference; NaN where there is one."""
    largest = 0.0
    for i in range(len(a)):
        difference = abs(a[i] - b[i])
        if not difference <= largest:
            largest = difference
            if difference != difference:
                return difference
    return largest
