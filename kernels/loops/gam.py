"""GAM: implicit gradients through the active set of a constrained lower level."""

from __future__ import annotations

import numpy as np

from ..jit import compiled
from ..lagrangian import evaluate_lagrangian, kkt_matrix, kkt_residual, mark_active, solve_in_place
from ..linalg import axpy, copy, dot, largest
from ..projection import project

SHORTEST = 1e-3  # step with which a line search begins at least
HALVINGS = 30
ATTEMPTS = 20  # gradients that are mixed at a kink
GRADIENT_STEPS = 400  # of the augmented Lagrangian, where Newton's method does not contract

# Settings
(
    STEP_X,  # 0: by a line search
    TOLERANCE,  # of the lower solve
    NEWTON_STEPS,  # of the lower solve, at most
    ENDS_WITHOUT_ANSWER,  # 1: end at a trial point at which no lower answer is found
    N_SETTINGS,
) = range(5)

# Memory
(
    NEXT_STEP,  # of the line search
    VALUE,  # f at the point
    IS_STUCK,  # 1: no direction falls any more
    DONE,  # steps taken
    IS_WITHOUT_ANSWER,  # 1: it ended at a trial point without lower answer, which is left in TRIAL_X
    N_MEMORY,
) = range(6)

# Rows of scratch space; those of the lower solve first
(
    VALUES,  # of (g, rows)
    SLOPE_Y,
    ACTIVE,  # 1 for each row that counts as active, at the point of VALUES
    UNIT,  # weights of (g, rows)
    COLUMN,  # in y
    ROW,
    RIGHT,  # of the KKT system
    KEPT_Y,  # the last point from which Newton's method contracted
    KEPT_WEIGHTS,
    PART_X,
    SLOPE,
    OTHER_SLOPE,  # on the other side of a kink
    TRIAL_X,
    TRIAL_Y,
    TRIAL_WEIGHTS,
    ACTIVE_AT,  # active where the gradient is taken
    TRIAL_VALUE,  # one number
    AT_X,  # where the next gradient is taken: the point itself, then points beyond a kink near it
    AT_Y,
    AT_WEIGHTS,
    ACTIVE_HOME,  # active at the point itself
    N_ROWS,
) = range(22)


@compiled
def _answer(both, slope_y, curve_yy, low, x, y, weights, tolerance, steps, space, matrix):
    """Lower answer and multipliers at x by the primal-dual active set method; returns the residual."""
    n_y, n_rows = len(y), len(low)
    values, slope, active = space[VALUES, : n_rows + 1], space[SLOPE_Y, :n_y], space[ACTIVE, :n_rows]
    unit, column, row = space[UNIT, : n_rows + 1], space[COLUMN, :n_y], space[ROW, :n_y]
    right, kept_y = space[RIGHT, : n_y + n_rows], space[KEPT_Y, :n_y]
    kept, empty = space[KEPT_WEIGHTS, : n_rows + 1], values[:0]
    residual, stiffness = np.inf, 0.0
    gradient_steps, since, newton_steps = 0, 0, 0
    while True:
        evaluate_lagrangian(both, x, y, empty, empty, values)
        if gradient_steps > 0:
            # Too far away for Newton's method: the augmented Lagrangian brings it nearer.
            for k in range(n_rows):
                unit[k + 1] = max(weights[k + 1] + values[k + 1], low[k])
            unit[0] = 1.0
        else:
            copy(weights, unit)
        evaluate_lagrangian(slope_y, x, y, unit, empty, slope)
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
        evaluate_lagrangian(slope_y, x, y, unit, empty, slope)
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
    unit, column, row = space[UNIT, : n_rows + 1], space[COLUMN, :n_y], space[ROW, :n_y]
    right, part, empty = space[RIGHT, : n_y + n_rows], space[PART_X, :n_x], column[:0]
    size = kkt_matrix(slope_y, curve_yy, x, y, weights, active, unit, column, row, matrix)
    evaluate_lagrangian(f_y, x, y, empty, empty, row)
    for i in range(n_y):
        right[i] = row[i]
    for i in range(n_y, size):
        right[i] = 0.0
    solve_in_place(matrix, right, size)  # adjoint of the derivative of the KKT conditions
    evaluate_lagrangian(f_x, x, y, empty, empty, out)
    evaluate_lagrangian(curve_xy, x, y, weights, right[:n_y], part)
    axpy(-1.0, part, out)
    unit[0] = 0.0
    at = n_y
    for k in range(n_rows):
        unit[k + 1] = 0.0
        if active[k] != 0.0:
            unit[k + 1] = right[at]
            at += 1
    evaluate_lagrangian(slope_x, x, y, unit, empty, part)
    axpy(-1.0, part, out)


@compiled
def gam(
    n, f, f_x, f_y, both, slope_x, slope_y, curve_xy, curve_yy, x_set, low, settings, x, y, weights,
    memory, space, matrix,
):  # fmt: skip
    """Do n projected steps along implicit gradients; returns the size of the last unit step.

    It ends before with 0 where it is stuck or without answer, as its memory then says.
    """
    fixed, tolerance, steps = settings[STEP_X], settings[TOLERANCE], int(settings[NEWTON_STEPS])
    n_x, n_y, n_rows = len(x), len(y), len(low)
    slope, other, trial = space[SLOPE, :n_x], space[OTHER_SLOPE, :n_x], space[TRIAL_X, :n_x]
    try_y, try_weights = space[TRIAL_Y, :n_y], space[TRIAL_WEIGHTS, : n_rows + 1]
    active, side, home = space[ACTIVE_AT, :n_rows], space[ACTIVE, :n_rows], space[ACTIVE_HOME, :n_rows]
    value, values = space[TRIAL_VALUE], space[VALUES, : n_rows + 1]
    at_x, at_y, at_weights = space[AT_X, :n_x], space[AT_Y, :n_y], space[AT_WEIGHTS, : n_rows + 1]
    empty = values[:0]
    residual = np.inf
    for _ in range(n):
        copy(x, at_x)
        copy(y, at_y)
        copy(weights, at_weights)
        is_better = False
        for attempt in range(ATTEMPTS):
            evaluate_lagrangian(both, at_x, at_y, empty, empty, values)
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
            step = fixed if fixed > 0.0 else max(memory[NEXT_STEP], SHORTEST)
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
                if settings[ENDS_WITHOUT_ANSWER] > 0.0 and not wrong <= 100.0 * tolerance:
                    memory[IS_WITHOUT_ANSWER] = 1.0
                    return 0.0
                evaluate_lagrangian(f, trial, try_y, empty, empty, value)
                moved = 0.0
                for i in range(n_x):
                    moved += (trial[i] - x[i]) ** 2
                falls = value[0] < memory[VALUE] - 1e-2 * moved / step
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
            memory[IS_STUCK] = 1.0
            return 0.0
        copy(trial, x)
        copy(try_y, y)
        copy(try_weights, weights)
        memory[NEXT_STEP], memory[VALUE] = 2.0 * step, value[0]
        memory[DONE] += 1.0
    return residual
