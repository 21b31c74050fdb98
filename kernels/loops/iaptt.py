"""IAPTT: the start of the inner steps is an upper variable, and the worst inner point counts."""

from __future__ import annotations

import numpy as np

from ..calls import call_at
from ..jit import compiled
from ..linalg import advance, axpy, copy, move_size
from ..projection import project
from .unrolled import go_back, record_falling_path, record_path


@compiled
def iaptt(
    n,
    f,
    f_grad_x,
    f_grad_y,
    g,
    g_grad_y,
    g_hessian,
    g_cross,
    x_set,
    y_set,
    settings,
    both,
    y,
    path,
    state,
    work,
):
    """Do n iterations; returns the projected gradient in (x, z).

    settings: steps in x, z and y (0: automatic), gradient steps K, whether y is free. both: x, then
    z, the first inner point. path: K + 1 rows. state: pace (3), memory of the curvature (2), the index
    that was worst.
    work: rows old, old slope, slope of both; then product in x, probe, two vectors in y, a number; then
    three rows of ``go_back``.
    """
    alpha, step_z, beta, steps = settings[0], settings[1], settings[2], int(settings[3])
    n_y = len(y)
    n_x = len(both) - n_y
    size = len(both)
    x, z = both[:n_x], both[n_x:]
    old, old_slope, slope = work[0, :size], work[1, :size], work[2, :size]
    product, probe, slope_y = work[3, :n_x], work[4, :n_y], work[5, :n_y]
    image, value = work[6, :n_y], work[7]
    adjoint = slope[n_x:]
    residual = np.inf
    for _ in range(n):
        copy(z, path[0])
        step = beta
        if beta > 0.0:
            record_path(g_grad_y, y_set, x, path, steps, step, slope_y)
        else:
            step = record_falling_path(
                g, g_grad_y, g_hessian, y_set, x, path, steps, state[3:5], probe, image, slope_y, value
            )
        copy(path[steps], y)
        # Pessimistic truncation: the inner point at which f is largest.
        worst, top = steps, -np.inf
        for t in range(1, steps + 1):
            call_at(f, x, path[t], value)
            if value[0] > top:
                worst, top = t, value[0]
        is_same, state[5] = worst == state[5], worst
        call_at(f_grad_x, x, path[worst], slope[:n_x])
        call_at(f_grad_y, x, path[worst], adjoint)
        go_back(
            g_grad_y, g_hessian, g_cross, y_set, settings[4] > 0.0, x, path, worst, step, slope[:n_x],
            product, adjoint, image, work[8:],
        )  # fmt: skip
        if alpha > 0.0:
            copy(both, old)
            axpy(-alpha, slope[:n_x], x)
            axpy(-step_z, slope[n_x:], z)
            project(x_set, x)
            project(y_set, z)
            residual = max(move_size(x, old[:n_x], alpha), move_size(z, old[n_x:], max(step_z, 1e-300)))
        else:
            # Two slopes tell a curvature only if they belong to the same piece of the maximum.
            if not is_same:
                state[2] = 0.0
            step = advance(0.0, state[:3], slope, both, old, old_slope)
            project(x_set, x)
            project(y_set, z)
            residual = move_size(both, old, step)
    return residual
