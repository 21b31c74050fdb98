"""Steps that the loops share: evaluate a direction, and descend along it with prox and projection.

A direction is a tuple ``(code, integers, workspace, layout)``; ``layout`` holds start, number of
instructions, output offset, output size, then offset and size of each input (weights first), and at its
end: whether the result is a whole vector where pieces are run, where the last point lies (0 where the
direction cannot be run in pieces), the first instruction that depends on the last point.
"""

from __future__ import annotations

import numpy as np

from .jit import compiled
from .linalg import copy
from .machine import ABS, ADD, COS, MUL, SUB, SUM, run
from .projection import BOX, project
from .prox import L1, prox

START, LENGTH, OUTPUT, OUTPUT_SIZE, INPUTS = 0, 1, 2, 3, 4
# Instructions beyond the machine's own, with the columns  op  n  out  a  1  b  scalar.
PRODUCT_ADDED, LESS_PRODUCT, PRODUCT_LESS = 40, 41, 42  # a + s b, a - s b, s b - a
NEITHER, RIGHT, BOTH = 0, 1, 3  # which operands of a binary instruction are vectors
PIECE = np.uint64(512)  # entries; a dozen vectors of them fit the nearest cache
# All unsigned, like the machine's places: mixed with signed numbers they would become doubles.
_ZERO, _RESULT, _LEFT, _RIGHT = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(4)
CHECK = 8  # inner steps between two looks at how far y still moves


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
def follow(code, w, first, last):
    """Run instructions up to the first that needs the machine; returns its position, or ``last``.

    Only loops without calls stand here: the arrays of a function that calls others are counted in
    and out each time, which costs more than a short instruction.
    """
    for position in range(first, last):
        op = code[position, 0]
        n = code[position, 1]
        out = code[position, 2]
        a = code[position, 3]
        b = code[position, 5]
        steps = 2 * code[position, 4] + code[position, 6]
        if op == PRODUCT_ADDED:
            factor = w[code[position, 6]]
            for i in range(n):
                w[out + i] = w[a + i] + factor * w[b + i]
        elif op == LESS_PRODUCT:
            factor = w[code[position, 6]]
            for i in range(n):
                w[out + i] = w[a + i] - factor * w[b + i]
        elif op == PRODUCT_LESS:
            factor = w[code[position, 6]]
            for i in range(n):
                w[out + i] = factor * w[b + i] - w[a + i]
        elif op == ADD:
            if steps == BOTH:
                for i in range(n):
                    w[out + i] = w[a + i] + w[b + i]
            elif steps == NEITHER:
                w[out] = w[a] + w[b]
            else:
                scalar, vector = (w[a], b) if steps == RIGHT else (w[b], a)
                for i in range(n):
                    w[out + i] = scalar + w[vector + i]
        elif op == MUL:
            if steps == BOTH:
                for i in range(n):
                    w[out + i] = w[a + i] * w[b + i]
            elif steps == NEITHER:
                w[out] = w[a] * w[b]
            else:
                scalar, vector = (w[a], b) if steps == RIGHT else (w[b], a)
                for i in range(n):
                    w[out + i] = scalar * w[vector + i]
        elif op == SUB and steps == BOTH:
            for i in range(n):
                w[out + i] = w[a + i] - w[b + i]
        elif op == SUB and steps == NEITHER:
            w[out] = w[a] - w[b]
        elif op == ABS:
            for i in range(n):
                w[out + i] = abs(w[a + i])
        elif op == COS:
            for i in range(n):
                w[out + i] = np.cos(w[a + i])
        elif op == SUM and n == 1:
            total = 0.0
            for i in range(code[position, 4]):
                total += w[a + i]
            w[out] = total
        else:
            return position
    return last


@compiled
def step_in_pieces(code, w, first, last, slope_at, slope_moves, point_at, n, step):
    """point -= step * slope for slopes whose entries do not mix, a piece of the entries at a time.

    All instructions run on one piece before the next is begun, and what lies between them is kept in the
    same few places, so that it never leaves the nearest cache. Column 7 says which operands are whole
    vectors: bit 0 the result, bit 1 the left, bit 2 the right one.
    """
    count = np.uint64(n)
    for begin in range(_ZERO, count, PIECE):
        m = min(PIECE, count - begin)
        for position in range(first, last):
            op = code[position, 0]
            whole = code[position, 7]
            out = code[position, 2] + (begin if whole & _RESULT else _ZERO)
            a = code[position, 3] + (begin if whole & _LEFT else _ZERO)
            b = code[position, 5] + (begin if whole & _RIGHT else _ZERO)
            if op >= PRODUCT_ADDED:
                factor = w[code[position, 6]]
                if op == PRODUCT_ADDED:
                    for i in range(m):
                        w[out + i] = w[a + i] + factor * w[b + i]
                elif op == LESS_PRODUCT:
                    for i in range(m):
                        w[out + i] = w[a + i] - factor * w[b + i]
                else:
                    for i in range(m):
                        w[out + i] = factor * w[b + i] - w[a + i]
                continue
            steps = 2 * code[position, 4] + code[position, 6]
            scalar, vector = (w[a], b) if steps == RIGHT else (w[b], a)
            if op == ADD:
                if steps == BOTH:
                    for i in range(m):
                        w[out + i] = w[a + i] + w[b + i]
                else:
                    for i in range(m):
                        w[out + i] = scalar + w[vector + i]
            elif op == SUB:
                if steps == BOTH:
                    for i in range(m):
                        w[out + i] = w[a + i] - w[b + i]
                elif steps == RIGHT:
                    for i in range(m):
                        w[out + i] = scalar - w[vector + i]
                else:
                    for i in range(m):
                        w[out + i] = w[vector + i] - scalar
            elif op == MUL:
                if steps == BOTH:
                    for i in range(m):
                        w[out + i] = w[a + i] * w[b + i]
                else:
                    for i in range(m):
                        w[out + i] = scalar * w[vector + i]
            elif op == ABS:
                for i in range(m):
                    w[out + i] = abs(w[a + i])
            elif op == COS:
                for i in range(m):
                    w[out + i] = np.cos(w[a + i])
        at = np.uint64(slope_at) + (begin if slope_moves else _ZERO)
        to = np.uint64(point_at) + begin
        for i in range(m):
            w[to + i] -= step * w[at + i]


@compiled
def shrink_all(v, amounts, step):
    """The prox of step * sum amounts_i |v_i|, where all entries have one."""
    for i in range(len(v)):
        amount = step * amounts[i]
        above, below = v[i] - amount, v[i] + amount
        # Written so that NaN stays and the loop vectorises.
        above = 0.0 if above < 0.0 else above
        below = 0.0 if below > 0.0 else below
        v[i] = above + below


@compiled
def cut_all(v, bounds):
    """Cut every entry to its bounds, the lower ones first."""
    n = len(v)
    low, high = bounds[:n], bounds[n:]
    for i in range(n):
        value = v[i]
        value = low[i] if value < low[i] else value
        v[i] = high[i] if value > high[i] else value


@compiled
def is_plain_box(spec, n):
    """Whether a set is one box over all n entries."""
    rows = spec[0]
    if not (len(rows) == 1 and rows[0, 0] == BOX):
        return False
    return rows[0, 1] == 0 and rows[0, 2] == n and rows[0, 3] == 0


@compiled
def is_plain_l1(spec, n):
    """Whether a penalty is the weighted absolute values of all n entries, in their order."""
    rows, places, _ = spec
    if not (len(rows) == 1 and rows[0, 0] == L1 and rows[0, 2] == n and rows[0, 3] == 0):
        return False
    for i in range(n):
        if places[rows[0, 1] + i] != i:
            return False
    return True


@compiled
def follow_rest(code, integers, w, position, last):
    """Run what :func:`follow` left, by the machine where needed."""
    while position < last:
        run(code, integers, w, position, position + 1)
        position = follow(code, w, position + 1, last)


@compiled
def prepare(direction):
    """Run the part that does not depend on the last point; all other points are set."""
    code, integers, workspace, layout = direction
    last = layout[len(layout) - 1]
    position = follow(code, workspace, layout[START], last)
    if position < last:
        follow_rest(code, integers, workspace, position, last)


@compiled
def result_of(direction):
    """The place of the result."""
    layout = direction[3]
    return direction[2][layout[OUTPUT] : layout[OUTPUT] + layout[OUTPUT_SIZE]]


@compiled
def evaluate(direction):
    """Run all of the direction; returns a view of the result."""
    code, integers, workspace, layout = direction
    last = layout[LENGTH]
    position = follow(code, workspace, layout[START], last)
    if position < last:
        follow_rest(code, integers, workspace, position, last)
    return result_of(direction)


@compiled
def move(point, step, slope):
    """point -= step * slope."""
    for i in range(len(point)):
        point[i] -= step * slope[i]


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


@compiled
def descend_in_place(direction, y, step, penalty, amounts, y_set, steps, tolerance, before):
    """Proximal gradient steps on y, at most ``steps``; returns the last move over the step.

    y is the last point of the direction itself, and the others are set. With a tolerance of 0 all the
    steps are done, and how far y still moves is not asked.
    """
    prepare(direction)
    code, integers, w, layout = direction
    first, last, slope = layout[len(layout) - 1], layout[LENGTH], result_of(direction)
    has_prox, is_free = len(amounts) > 0, len(y_set[0]) == 0
    has_l1, has_box = has_prox and is_plain_l1(penalty, len(y)), is_plain_box(y_set, len(y))
    bounds = y_set[1]
    slope_at, slope_moves, y_at = layout[OUTPUT], layout[len(layout) - 3], layout[len(layout) - 2]
    moved = 0.0
    for k in range(steps):
        is_checked = tolerance > 0.0 and (k % CHECK == 0 or k == steps - 1)
        if is_checked:
            copy(y, before)
        if y_at > 0:
            step_in_pieces(code, w, first, last, slope_at, slope_moves, y_at, len(y), step)
        else:
            position = follow(code, w, first, last)
            if position < last:
                follow_rest(code, integers, w, position, last)
            move(y, step, slope)
        if has_l1:
            shrink_all(y, amounts, step)
        elif has_prox:
            prox(penalty, amounts, step, y)
        if has_box:
            cut_all(y, bounds)
        elif not is_free:
            project(y_set, y)
        if is_checked:
            moved = distance(y, before) / step
            if not moved > tolerance:
                break
    return moved


@compiled
def descend_with_prox(direction, x, y, step, penalty, amounts, y_set, steps, tolerance, before):
    """The same for a direction with the points x and y that are kept elsewhere."""
    set_point(direction, 1, x)
    current = point_of(direction, 2)
    copy(y, current)
    moved = descend_in_place(direction, current, step, penalty, amounts, y_set, steps, tolerance, before)
    copy(current, y)
    return moved
