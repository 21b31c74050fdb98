"""GAM: implicit gradients through the active set of a constrained lower level."""

from __future__ import annotations

import numpy as np

from ..jit import compiled
from ..lagrangian import evaluate, kkt_matrix, kkt_residual, mark_active, solve_in_place
from ..linalg import axpy, copy, dot, largest
from ..projection import project

SHORTEST = 1e-3  # step with which a line search begins at least
HALVINGS = 30
ATTEMPTS = 20  # gradients that are mixed at a kink
GRADIENT_STEPS = 400  # of the augmented Lagrangian, where Newton's method does not contract


@compiled
def _answer(both, slope_y, curve_yy, low, x, y, weights, tolerance, steps, space, matrix):
    """Lower answer and multipliers at x by the primal-dual active set method; returns the residual."""
    n_y, n_rows = len(y), len(low)
    values, slope, active = space[0, : n_rows + 1], space[1, :n_y], space[2, :n_rows]
    unit, column, row = space[3, : n_rows + 1], space[4, :n_y], space[5, :n_y]
    right, kept_y, kept = space[6, : n_y + n_rows], space[7, :n_y], space[8, : n_rows + 1]
    empty = space[0, :0]
    residual, stiffness = np.inf, 0.0
    gradient_steps, since, newton_steps = 0, 0, 0
    while True:
        evaluate(both, x, y, empty, empty, values)
        if gradient_steps > 0:
            # Too far away for Newton's method: the augmented Lagrangian brings it nearer.
            for k in range(n_rows):
                unit[k + 1] = max(weights[k + 1] + values[k + 1], low[k])
            unit[0] = 1.0
        else:
            copy(weights, unit)
        evaluate(slope_y, x, y, unit, empty, slope)
        if gradient_steps > 0:
            axpy(-1.0 / (1.0 + np.sqrt(stiffness) + stiffness), slope, y)
            since += 1
            if since % 10 == 0:
                copy(unit, weights)
            gradient_steps -= 1
            residual = np.inf
            continue
        following = kkt_residual(weights, low, values, slope)
        if not following > tolerance or newton_steps == steps:
            return following
        if newton_steps > 0 and not following < 10.0 * residual + 1.0:
            copy(kept_y, y)
            copy(kept, weights)
            gradient_steps = GRADIENT_STEPS
            newton_steps += 1
            continue
        residual = following
        newton_steps += 1
        copy(y, kept_y)
        copy(weights, kept)
        mark_active(weights, low, values, active)
        # The slope without the rows that are dropped; Newton's step then finds their neighbours'.
        for k in range(n_rows):
            if active[k] == 0.0:
                weights[k + 1] = 0.0
        size = kkt_matrix(slope_y, curve_yy, x, y, weights, active, unit, column, row, matrix)
        stiffness = 0.0
        for i in range(n_y):
            for j in range(size):
                stiffness += matrix[i, j] * matrix[i, j]
        # Multipliers of the active rows are solved for themselves, not for their change: the
        # right-hand side is then the slope of g alone.
        copy(weights, unit)
        for k in range(n_rows):
            unit[k + 1] = 0.0
        evaluate(slope_y, x, y, unit, empty, slope)
        at = n_y
        for i in range(n_y):
            right[i] = -slope[i]
        for k in range(n_rows):
            if active[k] != 0.0:
                right[at] = -values[k + 1]
                at += 1
        solve_in_place(matrix, right, size)
        axpy(1.0, right[:n_y], y)
        at = n_y
        for k in range(n_rows):
            if active[k] != 0.0:
                weights[k + 1] = right[at]
                at += 1


@compiled
def _gradient(slope_x, slope_y, curve_xy, curve_yy, f_x, f_y, x, y, weights, active, out, space, matrix):
    """Gradient of f(x, y(x)) when the rows marked in ``active`` stay active."""
    n_x, n_y, n_rows = len(x), len(y), len(weights) - 1
    unit, column, row = space[3, : n_rows + 1], space[4, :n_y], space[5, :n_y]
    right, part, empty = space[6, : n_y + n_rows], space[9, :n_x], space[0, :0]
    size = kkt_matrix(slope_y, curve_yy, x, y, weights, active, unit, column, row, matrix)
    evaluate(f_y, x, y, empty, empty, row)
    for i in range(n_y):
        right[i] = row[i]
    for i in range(n_y, size):
        right[i] = 0.0
    solve_in_place(matrix, right, size)  # adjoint of the derivative of the KKT conditions
    evaluate(f_x, x, y, empty, empty, out)
    evaluate(curve_xy, x, y, weights, right[:n_y], part)
    axpy(-1.0, part, out)
    unit[0] = 0.0
    at = n_y
    for k in range(n_rows):
        unit[k + 1] = 0.0
        if active[k] != 0.0:
            unit[k + 1] = right[at]
            at += 1
    evaluate(slope_x, x, y, unit, empty, part)
    axpy(-1.0, part, out)


@compiled
def gam(
    n, f, f_x, f_y, both, slope_x, slope_y, curve_xy, curve_yy, x_set, low, settings, x, y, weights,
    memory, space, matrix,
):  # fmt: skip
    """Do n projected steps along implicit gradients; returns the size of the last unit step.

    settings: fixed step (0: by a line search), tolerance and steps of the lower solve, whether to end at
    a trial point without lower answer (memory[4] is 1 then, and the point is left in space[12]). memory:
    step, value of f at the point, 1 when no direction falls any more (0 is returned then), steps taken.
    """
    fixed, tolerance, steps = settings[0], settings[1], int(settings[2])
    n_x, n_y, n_rows = len(x), len(y), len(low)
    slope, other, trial = space[10, :n_x], space[11, :n_x], space[12, :n_x]
    try_y, try_weights, active = space[13, :n_y], space[14, : n_rows + 1], space[15, :n_rows]
    value, values, side = space[16, :1], space[0, : n_rows + 1], space[2, :n_rows]
    # Where the next gradient is taken: the point itself, then points beyond a kink near it.
    at_x, at_y, at_weights = space[17, :n_x], space[18, :n_y], space[19, : n_rows + 1]
    home, empty = space[20, :n_rows], space[0, :0]
    residual = np.inf
    for _ in range(n):
        copy(x, at_x)
        copy(y, at_y)
        copy(weights, at_weights)
        is_better = False
        for attempt in range(ATTEMPTS):
            evaluate(both, at_x, at_y, empty, empty, values)
            mark_active(at_weights, low, values, active)
            if attempt == 0:
                copy(active, home)
            _gradient(
                slope_x, slope_y, curve_xy, curve_yy, f_x, f_y, at_x, at_y, at_weights, active, other,
                space, matrix,
            )  # fmt: skip
            # The shortest mixture of the gradients on both sides of a kink falls along the kink.
            share = 1.0
            if attempt > 0:
                gap = 0.0
                for i in range(n_x):
                    gap += (slope[i] - other[i]) ** 2
                share = (dot(slope, slope) - dot(slope, other)) / gap if gap > 0.0 else 0.0
                share = min(max(share, 0.0), 1.0)
            for i in range(n_x):
                slope[i] = (1.0 - share) * slope[i] + share * other[i] if attempt > 0 else other[i]
                trial[i] = x[i] - slope[i]
            project(x_set, trial)
            axpy(-1.0, x, trial)
            residual = largest(trial)
            is_beyond = False
            step = fixed if fixed > 0.0 else max(memory[0], SHORTEST)
            for _ in range(HALVINGS):
                for i in range(n_x):
                    trial[i] = x[i] - step * slope[i]
                project(x_set, trial)
                copy(y, try_y)
                copy(weights, try_weights)
                wrong = _answer(
                    both, slope_y, curve_yy, low, trial, try_y, try_weights, tolerance, steps, space,
                    matrix,
                )  # fmt: skip
                if settings[3] > 0.0 and not wrong <= 100.0 * tolerance:
                    memory[4] = 1.0
                    return 0.0
                evaluate(f, trial, try_y, empty, empty, value)
                moved = 0.0
                for i in range(n_x):
                    moved += (trial[i] - x[i]) ** 2
                falls = value[0] < memory[1] - 1e-2 * moved / step
                if fixed > 0.0 or (falls and wrong <= 100.0 * tolerance):
                    is_better = True
                    break
                if wrong <= 100.0 * tolerance:
                    # The nearest point beyond a kink tells the gradient of the other side.
                    # values belong to the last lower solve, that at the trial point
                    mark_active(try_weights, low, values, side)
                    changes = 0.0
                    for k in range(n_rows):
                        changes += abs(home[k] - side[k])
                    if changes > 0.0:
                        is_beyond = True
                        copy(trial, at_x)
                        copy(try_y, at_y)
                        copy(try_weights, at_weights)
                step *= 0.5
            if is_better or not is_beyond:
                break
        if not is_better:
            memory[2] = 1.0
            return 0.0
        copy(trial, x)
        copy(try_y, y)
        copy(try_weights, weights)
        memory[0], memory[1] = 2.0 * step, value[0]
        memory[3] += 1.0
    return residual
