"""BDA: inner steps that descend on a mixture of f and g, differentiated backwards."""

from __future__ import annotations

import numpy as np

from ..calls import call_along, call_at
from ..jit import compiled
from ..linalg import advance, axpy, copy, lower_curvature, move_size
from ..projection import project


@compiled
def bda(
    n,
    f_grad_x,
    f_grad_y,
    f_hessian,
    f_cross,
    g_grad_y,
    g_hessian,
    g_cross,
    x_set,
    settings,
    x,
    y,
    path,
    state,
    work,
):
    """Do n iterations; returns the projected gradient in x.

    settings: step in x, step s_l of g (0: automatic), step s_u of f, weight of f, inner steps K.
    path: K + 1 rows, the first being where the inner steps start. state: pace of x (3), curvature (2).
    work: rows old x, old slope, slope, product in x; then probe and three vectors in y.
    """
    alpha, beta, step_f, weight, steps = (
        settings[0],
        settings[1],
        settings[2],
        settings[3],
        int(settings[4]),
    )
    n_x, n_y = len(x), len(y)
    old_x, old_slope, slope, product = work[0, :n_x], work[1, :n_x], work[2, :n_x], work[3, :n_x]
    probe, slope_y, adjoint, image = work[4, :n_y], work[5, :n_y], work[6, :n_y], work[7, :n_y]
    residual = np.inf
    for _ in range(n):
        step_g = beta
        if beta == 0.0:
            step_g = 1 / lower_curvature(g_hessian, x, path[0], state[3:5], probe, image, 2)
        for t in range(steps):
            # Aggregation: y - (a_t s_u grad f + (1 - a_t) s_l grad g), with a_t falling as 1 / t.
            share = weight / (t + 1)
            copy(path[t], path[t + 1])
            call_at(f_grad_y, x, path[t], slope_y)
            axpy(-share * step_f, slope_y, path[t + 1])
            call_at(g_grad_y, x, path[t], slope_y)
            axpy(-(1 - share) * step_g, slope_y, path[t + 1])
        copy(path[steps], y)
        call_at(f_grad_x, x, y, slope)
        call_at(f_grad_y, x, y, adjoint)
        for back in range(steps):
            t = steps - 1 - back
            share = weight / (t + 1)
            call_along(f_cross, x, path[t], adjoint, product)
            axpy(-share * step_f, product, slope)
            call_along(g_cross, x, path[t], adjoint, product)
            axpy(-(1 - share) * step_g, product, slope)
            call_along(f_hessian, x, path[t], adjoint, image)
            call_along(g_hessian, x, path[t], adjoint, slope_y)
            axpy(-share * step_f, image, adjoint)
            axpy(-(1 - share) * step_g, slope_y, adjoint)
        step = advance(alpha, state[:3], slope, x, old_x, old_slope)
        project(x_set, x)
        residual = move_size(x, old_x, step)
    return residual
