"""LV-HBA: one gradient step each on the proximal Lagrangian value function's penalty."""

from __future__ import annotations

from ..jit import compiled
from ..lagrangian import evaluate_lagrangian
from ..linalg import copy, largest
from ..projection import project

# Settings; the steps come first
(
    STEP_X,  # alpha, of (x / unit, y)
    STEP_MULTIPLIER,  # beta, of z
    STEP_THETA,  # eta
    STEP_ASCENT,  # eta, of the multipliers that maximise
    N_STEPS,
) = range(5)
(
    PROXIMAL,  # gamma_1
    PROXIMAL_MULTIPLIER,  # gamma_2
    PENALTY,  # c
    PENALTY_POWER,  # p
    MULTIPLIER_BOUND,  # r
    UNIT,  # of x
    N_SETTINGS,
) = range(N_STEPS, N_STEPS + 7)

# Memory
(
    DONE,  # iterations so far
    N_MEMORY,
) = range(2)

# Rows of scratch space
(
    VALUES,  # of (g, rows)
    PLAIN,  # (1, 0): the weights of g alone
    D_X,
    PART_X,
    D_Y,
    PART_Y,
    BEFORE,  # (x, y) before the step
    N_ROWS,
) = range(8)


@compiled
def lv_hba(
    n, f_x, f_y, both, slope_x, slope_y, rows, low, settings, point, theta, multipliers, z, memory, space
):  # fmt: skip
    """Do n iterations; returns the last move of (x, y), over the step and times the penalty weight.

    rows: both levels' constraints as a set of (x / unit, y). point: x, then y. multipliers and z are
    kept as (1, multipliers).
    """
    alpha, beta = settings[STEP_X], settings[STEP_MULTIPLIER]
    eta, eta_dual = settings[STEP_THETA], settings[STEP_ASCENT]
    gamma_1, gamma_2 = settings[PROXIMAL], settings[PROXIMAL_MULTIPLIER]
    c, power, unit = settings[PENALTY], settings[PENALTY_POWER], settings[UNIT]
    largest_multiplier = settings[MULTIPLIER_BOUND]
    n_y, n_rows = len(theta), len(low)
    n_x = len(point) - n_y
    x, y = point[:n_x], point[n_x:]
    values, plain = space[VALUES, : n_rows + 1], space[PLAIN, : n_rows + 1]
    d_x, part_x = space[D_X, :n_x], space[PART_X, :n_x]
    d_y, part_y = space[D_Y, :n_y], space[PART_Y, :n_y]
    before = space[BEFORE, : n_x + n_y]
    plain[0] = 1.0
    for k in range(n_rows):
        plain[k + 1] = 0.0
    residual, empty = 0.0, values[:0]
    for _ in range(n):
        penalty = c * (memory[DONE] + 1.0) ** power  # c_k = c (k + 1)^p
        memory[DONE] += 1.0
        # theta and lambda: descent and ascent on the proximal Lagrangian
        evaluate_lagrangian(slope_y, x, theta, multipliers, empty, d_y)
        evaluate_lagrangian(both, x, theta, empty, empty, values)
        for i in range(n_y):
            theta[i] -= eta * (d_y[i] + (theta[i] - y[i]) / gamma_1)
        for k in range(n_rows):
            rise = values[k + 1] - (multipliers[k + 1] - z[k + 1]) / gamma_2
            raised = max(multipliers[k + 1] + eta_dual * rise, low[k])
            multipliers[k + 1] = min(raised, largest_multiplier)
        # directions of f / c_k + g - the proximal Lagrangian value
        evaluate_lagrangian(f_x, x, y, empty, empty, d_x)
        evaluate_lagrangian(slope_x, x, y, plain, empty, part_x)
        for i in range(n_x):
            d_x[i] = d_x[i] / penalty + part_x[i]
        evaluate_lagrangian(slope_x, x, theta, multipliers, empty, part_x)
        evaluate_lagrangian(f_y, x, y, empty, empty, d_y)
        evaluate_lagrangian(slope_y, x, y, plain, empty, part_y)
        for i in range(n_x):
            x[i] /= unit
        copy(point, before)
        for i in range(n_x):
            x[i] -= alpha * unit * (d_x[i] - part_x[i])
        for i in range(n_y):
            y[i] -= alpha * (d_y[i] / penalty + part_y[i] - (y[i] - theta[i]) / gamma_1)
        for k in range(n_rows):
            raised = max(z[k + 1] + beta * (multipliers[k + 1] - z[k + 1]) / gamma_2, low[k])
            z[k + 1] = min(raised, largest_multiplier)
        # (x, y) back to both levels' constraints
        project(rows, point)
        for i in range(n_x + n_y):
            before[i] -= point[i]
        for i in range(n_x):
            before[i] /= unit
            x[i] *= unit
        residual = penalty * largest(before) / alpha
    return residual
