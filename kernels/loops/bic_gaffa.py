"""BiC-GAFFA: one gradient step each on the regularised gap function of the lower Lagrangian."""

from __future__ import annotations

from ..jit import compiled
from ..lagrangian import evaluate_lagrangian
from ..linalg import axpy, copy, largest
from ..projection import project

# Settings; the steps come first
(
    STEP_X,  # alpha, of (x, y)
    STEP_MULTIPLIER,  # beta, of z
    STEP_THETA,  # eta
    N_STEPS,
) = range(4)
(
    PROXIMAL,  # gamma_1
    PROXIMAL_MULTIPLIER,  # gamma_2
    PENALTY,  # c
    PENALTY_POWER,  # p
    MULTIPLIER_BOUND,  # r
    N_SETTINGS,
) = range(N_STEPS, N_STEPS + 6)

# Memory
(
    DONE,  # iterations so far
    N_MEMORY,
) = range(2)

# Rows of scratch space
(
    VALUES,  # of (g, rows)
    MULTIPLIERS,  # (1, those that maximise the gap)
    D_X,
    PART_X,
    D_Y,
    PART_Y,
    N_ROWS,
) = range(7)


@compiled
def bic_gaffa(
    n, f_x, f_y, both, slope_x, slope_y, x_set, low, settings, x, y, theta, z, memory, space
):  # fmt: skip
    """Do n iterations; returns the last move of (x, y), over the step and times the penalty weight.

    z and the multipliers that maximise the gap are kept as (1, multipliers).
    """
    alpha, beta, eta = settings[STEP_X], settings[STEP_MULTIPLIER], settings[STEP_THETA]
    gamma_1, gamma_2 = settings[PROXIMAL], settings[PROXIMAL_MULTIPLIER]
    c, power, bound = settings[PENALTY], settings[PENALTY_POWER], settings[MULTIPLIER_BOUND]
    n_x, n_y, n_rows = len(x), len(y), len(low)
    values, multipliers = space[VALUES, : n_rows + 1], space[MULTIPLIERS, : n_rows + 1]
    d_x, part_x = space[D_X, :n_x], space[PART_X, :n_x]
    d_y, part_y = space[D_Y, :n_y], space[PART_Y, :n_y]
    residual, empty = 0.0, values[:0]
    multipliers[0] = 1.0
    for _ in range(n):
        penalty = c * (memory[DONE] + 1.0) ** power  # c_k = c (k + 1)^p
        memory[DONE] += 1.0
        # theta: one step on L(x, ., z) with the proximal term
        evaluate_lagrangian(slope_y, x, theta, z, empty, d_y)
        for i in range(n_y):
            theta[i] -= eta * (d_y[i] + (theta[i] - y[i]) / gamma_1)
        # lambda: the maximiser in closed form, z + gamma_2 c(x, y) cut to its range
        evaluate_lagrangian(both, x, y, empty, empty, values)
        for k in range(n_rows):
            multipliers[k + 1] = max(z[k + 1] + gamma_2 * values[k + 1], low[k])
        # directions of f / c_k + the gap function
        evaluate_lagrangian(f_x, x, y, empty, empty, d_x)
        evaluate_lagrangian(slope_x, x, y, multipliers, empty, part_x)
        for i in range(n_x):
            d_x[i] = d_x[i] / penalty + part_x[i]
        evaluate_lagrangian(slope_x, x, theta, z, empty, part_x)
        axpy(-1.0, part_x, d_x)
        evaluate_lagrangian(f_y, x, y, empty, empty, d_y)
        evaluate_lagrangian(slope_y, x, y, multipliers, empty, part_y)
        for i in range(n_y):
            d_y[i] = d_y[i] / penalty + part_y[i] - (y[i] - theta[i]) / gamma_1
        evaluate_lagrangian(both, x, theta, empty, empty, values)
        for k in range(n_rows):
            d_z = (multipliers[k + 1] - z[k + 1]) / gamma_2 - values[k + 1]
            z[k + 1] = min(max(z[k + 1] - beta * d_z, low[k]), bound)
        copy(x, part_x)
        axpy(-alpha, d_x, x)
        project(x_set, x)
        axpy(-1.0, x, part_x)
        axpy(-alpha, d_y, y)
        residual = penalty * max(largest(part_x) / alpha, largest(d_y))
    return residual
