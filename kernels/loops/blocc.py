"""PBGD-BLOCC: steps in x along the difference of two Lagrangians' slopes, by a max-min solver each."""

from __future__ import annotations

import numpy as np

from ..jit import compiled
from ..lagrangian import evaluate
from ..linalg import axpy, copy, dot, move_size
from ..projection import project

ROUNDING = 1e-12  # relative fall of the dual function that is not seen as one
HALVINGS = 60


@compiled
def step_in_y(both, slope_y, y_set, is_fixed, x, y, weights, memory, values, slope, trial):
    """One projected gradient step on L(x, ., weights); returns the projected slope's largest entry.

    memory[0] is the step, which is halved where L does not fall as it must, unless it is fixed.
    """
    empty = slope[:0]
    evaluate(slope_y, x, y, weights, empty, slope)
    level = 0.0
    if not is_fixed:
        evaluate(both, x, y, empty, empty, values)
        level = dot(weights, values)
    for _ in range(HALVINGS):
        copy(y, trial)
        axpy(-memory[0], slope, trial)
        project(y_set, trial)
        if is_fixed:
            break
        evaluate(both, x, trial, empty, empty, values)
        bound = level + ROUNDING * (1.0 + abs(level))
        for i in range(len(y)):
            moved = trial[i] - y[i]
            bound += slope[i] * moved + 0.5 * moved * moved / memory[0]
        if dot(weights, values) <= bound:
            break
        memory[0] *= 0.5
    moved = move_size(trial, y, memory[0])
    copy(trial, y)
    return moved


@compiled
def max_min(both, slope_y, y_set, low, settings, x, y, weights, memory, space):
    """Accelerated ascent in the multipliers on min over y of L(x, y, multipliers).

    weights: those of f and g in L, then the multipliers, whose smallest values are ``low``.
    settings: 1 for fixed steps, largest number of steps of the multipliers, of y for each of these,
    tolerance. memory: step in y, step of the multipliers, last residual.
    """
    is_fixed, tolerance = settings[0] > 0.0, settings[3]
    steps, inner = int(settings[1]), int(settings[2])
    size = len(weights)
    ahead, before, best = space[0, :size], space[1, :size], space[2, :size]
    values, slope, trial = space[3, :size], space[4, : len(y)], space[5, : len(y)]
    copy(weights, ahead)
    copy(weights, before)
    copy(weights, best)
    count, highest, empty = 0.0, -np.inf, space[0, :0]
    for _ in range(steps):
        count += 1.0
        share = (count - 1.0) / (count + 2.0)
        for k in range(2, size):
            ahead[k] = max(weights[k] + share * (weights[k] - before[k]), low[k - 2])
        moved = np.inf
        for _ in range(inner):
            moved = step_in_y(both, slope_y, y_set, is_fixed, x, y, ahead, memory, values, slope, trial)
            if moved <= tolerance:
                break
        evaluate(both, x, y, empty, empty, values)
        dual = dot(ahead, values)
        if not is_fixed and dual < highest - ROUNDING * (1.0 + abs(highest)):
            # Momentum has gone too far, or, where there was hardly any, the step was too long.
            if count <= 2.0:
                memory[1] *= 0.5
            copy(best, weights)
            copy(best, before)
            count = 0.0
            continue
        highest = dual
        copy(ahead, best)
        copy(weights, before)
        wrong = moved
        for k in range(2, size):
            weights[k] = max(ahead[k] + memory[1] * values[k], low[k - 2])
            wrong = max(wrong, abs(weights[k] - ahead[k]) / memory[1])
        memory[2] = wrong
        if not wrong > tolerance:
            break


@compiled
def blocc(
    n, both, slope_x, slope_y, x_set, y_set, low, settings, inner, x, y_lower, lower_weights,
    y_penalised, penalised_weights, lower_memory, penalised_memory, memory, space,
):  # fmt: skip
    """Do n iterations of Algorithm 4; returns the projected slope's largest entry.

    settings: step eta, gamma, tolerance. inner: settings of the max-min solver. memory: iterations done.
    """
    eta, gamma, tolerance = settings[0], settings[1], settings[2]
    n_x = len(x)
    slope, other, old = space[6, :n_x], space[7, :n_x], space[8, :n_x]
    empty, moved = space[0, :0], np.inf
    for _ in range(n):
        max_min(both, slope_y, y_set, low, inner, x, y_lower, lower_weights, lower_memory, space)  # (54)
        max_min(
            both, slope_y, y_set, low, inner, x, y_penalised, penalised_weights, penalised_memory, space
        )  # (55)
        evaluate(slope_x, x, y_penalised, penalised_weights, empty, slope)  # (56)
        evaluate(slope_x, x, y_lower, lower_weights, empty, other)
        axpy(-1.0, other, slope)
        copy(x, old)
        axpy(-eta * gamma, slope, x)
        project(x_set, x)
        moved = move_size(x, old, eta)
        memory[0] += 1.0
        if not moved > tolerance:
            break
    return moved
