"""BiC-GAFFA: one gradient step each on the regularised gap function of the lower Lagrangian."""

from __future__ import annotations

from ..jit import compiled
from ..lagrangian import evaluate
from ..linalg import axpy, copy, largest
from ..projection import project


@compiled
def bic_gaffa(
    n, f_x, f_y, both, slope_x, slope_y, x_set, low, settings, x, y, theta, z, memory, space
):  # fmt: skip
    """Do n iterations; returns the last move of (x, y), over the step and times the penalty weight.

    z and the multipliers that maximise the gap are kept as (1, multipliers). settings: step of (x, y),
    step of z, step of theta, gamma_1, gamma_2, c, exponent of c, largest multiplier. memory: number
    of iterations done.
    """
    alpha, beta, eta, gamma_1, gamma_2 = (
        settings[0], settings[1], settings[2], settings[3], settings[4],
    )  # fmt: skip
    n_x, n_y, n_rows = len(x), len(y), len(low)
    values, multipliers = space[0, : n_rows + 1], space[1, : n_rows + 1]
    d_x, part_x, d_y, part_y = space[2, :n_x], space[3, :n_x], space[4, :n_y], space[5, :n_y]
    residual, empty = 0.0, space[0, :0]
    multipliers[0] = 1.0
    for _ in range(n):
        penalty = settings[5] * (memory[0] + 1.0) ** settings[6]  # c_k = c (k + 1)^p
        memory[0] += 1.0
        # theta: one step on L(x, ., z) with the proximal term
        evaluate(slope_y, x, theta, z, empty, d_y)
        for i in range(n_y):
            theta[i] -= eta * (d_y[i] + (theta[i] - y[i]) / gamma_1)
        # lambda: the maximiser in closed form, z + gamma_2 c(x, y) cut to its range
        evaluate(both, x, y, empty, empty, values)
        for k in range(n_rows):
            multipliers[k + 1] = max(z[k + 1] + gamma_2 * values[k + 1], low[k])
        # directions of f / c_k + the gap function
        evaluate(f_x, x, y, empty, empty, d_x)
        evaluate(slope_x, x, y, multipliers, empty, part_x)
        for i in range(n_x):
            d_x[i] = d_x[i] / penalty + part_x[i]
        evaluate(slope_x, x, theta, z, empty, part_x)
        axpy(-1.0, part_x, d_x)
        evaluate(f_y, x, y, empty, empty, d_y)
        evaluate(slope_y, x, y, multipliers, empty, part_y)
        for i in range(n_y):
            d_y[i] = d_y[i] / penalty + part_y[i] - (y[i] - theta[i]) / gamma_1
        evaluate(both, x, theta, empty, empty, values)
        for k in range(n_rows):
            d_z = (multipliers[k + 1] - z[k + 1]) / gamma_2 - values[k + 1]
            z[k + 1] = min(max(z[k + 1] - beta * d_z, low[k]), settings[7])
        copy(x, part_x)
        axpy(-alpha, d_x, x)
        project(x_set, x)
        axpy(-1.0, x, part_x)
        axpy(-alpha, d_y, y)
        residual = penalty * max(largest(part_x) / alpha, largest(d_y))
    return residual
