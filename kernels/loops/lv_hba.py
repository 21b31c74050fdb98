"""LV-HBA: one gradient step each on the proximal Lagrangian value function's penalty."""

from __future__ import annotations

from ..jit import compiled
from ..lagrangian import evaluate
from ..linalg import copy, largest
from ..projection import project


@compiled
def lv_hba(
    n, f_x, f_y, both, slope_x, slope_y, rows, low, settings, point, theta, multipliers, z, memory, space
):  # fmt: skip
    """Do n iterations; returns the last move of (x, y), over the step and times the penalty weight.

    rows: both levels' constraints as a set of (x / unit, y). point: x, then y. multipliers and z are
    kept as (1, multipliers). settings: step of (x / unit, y), step of z, step of theta, step of the
    multipliers, gamma_1, gamma_2, c, exponent of c, largest multiplier, unit. memory: number of
    iterations done.
    """
    alpha, beta, eta, eta_dual = settings[0], settings[1], settings[2], settings[3]
    gamma_1, gamma_2, largest_multiplier, unit = settings[4], settings[5], settings[8], settings[9]
    n_y, n_rows = len(theta), len(low)
    n_x = len(point) - n_y
    x, y = point[:n_x], point[n_x:]
    values, plain = space[0, : n_rows + 1], space[1, : n_rows + 1]
    d_x, part_x, d_y, part_y = space[2, :n_x], space[3, :n_x], space[4, :n_y], space[5, :n_y]
    before = space[6, : n_x + n_y]
    plain[0] = 1.0
    for k in range(n_rows):
        plain[k + 1] = 0.0
    residual, empty = 0.0, space[0, :0]
    for _ in range(n):
        penalty = settings[6] * (memory[0] + 1.0) ** settings[7]  # c_k = c (k + 1)^p
        memory[0] += 1.0
        # theta and lambda: descent and ascent on the proximal Lagrangian
        evaluate(slope_y, x, theta, multipliers, empty, d_y)
        evaluate(both, x, theta, empty, empty, values)
        for i in range(n_y):
            theta[i] -= eta * (d_y[i] + (theta[i] - y[i]) / gamma_1)
        for k in range(n_rows):
            rise = values[k + 1] - (multipliers[k + 1] - z[k + 1]) / gamma_2
            raised = max(multipliers[k + 1] + eta_dual * rise, low[k])
            multipliers[k + 1] = min(raised, largest_multiplier)
        # directions of f / c_k + g - the proximal Lagrangian value
        evaluate(f_x, x, y, empty, empty, d_x)
        evaluate(slope_x, x, y, plain, empty, part_x)
        for i in range(n_x):
            d_x[i] = d_x[i] / penalty + part_x[i]
        evaluate(slope_x, x, theta, multipliers, empty, part_x)
        evaluate(f_y, x, y, empty, empty, d_y)
        evaluate(slope_y, x, y, plain, empty, part_y)
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
