"""PBGD-BLOCC: steps in x along the difference of two Lagrangians' slopes, by a max-min solver each."""

from __future__ import annotations

import numpy as np

from ..jit import compiled
from ..lagrangian import evaluate_lagrangian
from ..linalg import axpy, copy, dot, move_size
from ..projection import project

ROUNDING = 1e-12  # relative fall of the dual function that is not seen as one
HALVINGS = 60

# Settings
(
    STEP_X,  # eta
    PENALTY,  # gamma
    TOLERANCE,
    N_SETTINGS,
) = range(4)

# Settings of the max-min solver
(
    IS_FIXED,  # 1: its steps are taken as they are
    MULTIPLIER_STEPS,  # at most
    INNER_STEPS,  # of y for each of these, at most
    INNER_TOLERANCE,
    HAS_MOMENTUM,  # 0: plain ascent
    N_INNER_SETTINGS,
) = range(6)

# Memory of a max-min solver
(
    STEP_Y,
    STEP_MULTIPLIER,
    LAST_RESIDUAL,
    N_INNER_MEMORY,
) = range(4)

# Memory of the loop
(
    DONE,  # iterations so far
    N_MEMORY,
) = range(2)

# Rows of scratch space; those of the max-min solver first
(
    EXTRAPOLATED,  # weights with momentum, as the next two of the size of the weights
    LAST_WEIGHTS,
    BEST_WEIGHTS,
    VALUES,  # of (f, g, rows)
    SLOPE_Y,
    TRIAL_Y,
    SLOPE,
    OTHER_SLOPE,
    OLD_X,
    N_ROWS,
) = range(10)


@compiled
def step_in_y(both, slope_y, y_set, is_fixed, x, y, weights, memory, values, slope, trial):
    """One projected gradient step on L(x, ., weights); returns the projected slope's largest entry.

    memory[STEP_Y] is halved where L does not fall as it must, unless it is fixed.
    """
    empty = slope[:0]
    evaluate_lagrangian(slope_y, x, y, weights, empty, slope)
    level = 0.0
    if not is_fixed:
        evaluate_lagrangian(both, x, y, empty, empty, values)
        level = dot(weights, values)
    for _ in range(HALVINGS):
        copy(y, trial)
        axpy(-memory[STEP_Y], slope, trial)
        project(y_set, trial)
        if is_fixed:
            break
        evaluate_lagrangian(both, x, trial, empty, empty, values)
        bound = level + ROUNDING * (1.0 + abs(level))
        for i in range(len(y)):
            moved = trial[i] - y[i]
            bound += slope[i] * moved + 0.5 * moved * moved / memory[STEP_Y]
        if dot(weights, values) <= bound:
            break
        memory[STEP_Y] *= 0.5
    moved = move_size(trial, y, memory[STEP_Y])
    copy(trial, y)
    return moved


@compiled
def max_min(both, slope_y, y_set, low, settings, x, y, weights, memory, space):
    """Ascent in the multipliers, accelerated or plain, on min over y of L(x, y, multipliers).

    weights: those of f and g in L, then the multipliers, whose smallest values are ``low``.
    """
    is_fixed, tolerance = settings[IS_FIXED] > 0.0, settings[INNER_TOLERANCE]
    steps, inner = int(settings[MULTIPLIER_STEPS]), int(settings[INNER_STEPS])
    size = len(weights)
    ahead, before = space[EXTRAPOLATED, :size], space[LAST_WEIGHTS, :size]
    best, values = space[BEST_WEIGHTS, :size], space[VALUES, :size]
    slope, trial = space[SLOPE_Y, : len(y)], space[TRIAL_Y, : len(y)]
    copy(weights, ahead)
    copy(weights, before)
    copy(weights, best)
    count, highest, empty = 0.0, -np.inf, ahead[:0]
    for _ in range(steps):
        count += 1.0
        share = (count - 1.0) / (count + 2.0) if settings[HAS_MOMENTUM] > 0.0 else 0.0
        for k in range(2, size):
            ahead[k] = max(weights[k] + share * (weights[k] - before[k]), low[k - 2])
        moved = np.inf
        for _ in range(inner):
            moved = step_in_y(both, slope_y, y_set, is_fixed, x, y, ahead, memory, values, slope, trial)
            if moved <= tolerance:
                break
        evaluate_lagrangian(both, x, y, empty, empty, values)
        dual = dot(ahead, values)
        if not is_fixed and dual < highest - ROUNDING * (1.0 + abs(highest)):
            # Momentum has gone too far, or, where there was hardly any, the step was too long.
            if count <= 2.0:
                memory[STEP_MULTIPLIER] *= 0.5
            copy(best, weights)
            copy(best, before)
            count = 0.0
            continue
        highest = dual
        copy(ahead, best)
        copy(weights, before)
        wrong = moved
        for k in range(2, size):
            weights[k] = max(ahead[k] + memory[STEP_MULTIPLIER] * values[k], low[k - 2])
            wrong = max(wrong, abs(weights[k] - ahead[k]) / memory[STEP_MULTIPLIER])
        memory[LAST_RESIDUAL] = wrong
        if not wrong > tolerance:
            break


@compiled
def blocc(
    n, both, slope_x, slope_y, x_set, y_set, low, settings, inner, x, y_lower, lower_weights,
    y_penalised, penalised_weights, lower_memory, penalised_memory, memory, space,
):  # fmt: skip
    """Do n iterations of Algorithm 4; returns the projected slope's largest entry.

    inner: settings of the max-min solver.
    """
    eta, gamma, tolerance = settings[STEP_X], settings[PENALTY], settings[TOLERANCE]
    n_x = len(x)
    slope, other, old = space[SLOPE, :n_x], space[OTHER_SLOPE, :n_x], space[OLD_X, :n_x]
    empty, moved = slope[:0], np.inf
    for _ in range(n):
        max_min(both, slope_y, y_set, low, inner, x, y_lower, lower_weights, lower_memory, space)  # (54)
        max_min(
            both, slope_y, y_set, low, inner, x, y_penalised, penalised_weights, penalised_memory, space
        )  # (55)
        evaluate_lagrangian(slope_x, x, y_penalised, penalised_weights, empty, slope)  # (56)
        evaluate_lagrangian(slope_x, x, y_lower, lower_weights, empty, other)
        axpy(-1.0, other, slope)
        copy(x, old)
        axpy(-eta * gamma, slope, x)
        project(x_set, x)
        moved = move_size(x, old, eta)
        memory[DONE] += 1.0
        if not moved > tolerance:
            break
    return moved
