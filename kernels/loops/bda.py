"""BDA: inner steps that descend on a mixture of f and g, differentiated backwards."""

from __future__ import annotations

import numpy as np

from ..calls import call_along, call_at
from ..jit import compiled
from ..linalg import advance, axpy, copy, lower_curvature, move_size
from ..projection import project
from ..tangent import pull_through


@compiled
def _mixed_step(f_grad_y, g_grad_y, x, y, share, step_f, step_g, f_y, g_y):
    """Aggregation: y - (a_t s_u grad f + (1 - a_t) s_l grad g), with a_t falling as 1 / t."""
    call_at(f_grad_y, x, y, f_y)
    call_at(g_grad_y, x, y, g_y)
    axpy(-share * step_f, f_y, y)
    axpy(-(1 - share) * step_g, g_y, y)


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
    y_set,
    settings,
    x,
    y,
    path,
    state,
    work,
):
    """Do n iterations; returns the projected gradient in x.

    settings: step in x, step s_l of g (0: automatic), step s_u of f, weight of f, inner steps K,
    whether y is free. path: K + 1 rows, the first being where the inner steps start. state: pace of x
    (3), curvature (2).
    work: rows old x, old slope, slope, product in x; then probe and six vectors in y.
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
    before, ahead, behind = work[8, :n_y], work[9, :n_y], work[10, :n_y]
    is_free = settings[5] > 0.0
    residual = np.inf
    for _ in range(n):
        step_g = beta
        if beta == 0.0:
            step_g = 1 / lower_curvature(g_hessian, x, path[0], state[3:5], probe, image, 2)
        for t in range(steps):
            share, ahead_y = weight / (t + 1), path[t + 1]
            copy(path[t], ahead_y)
            _mixed_step(f_grad_y, g_grad_y, x, ahead_y, share, step_f, step_g, slope_y, image)
            project(y_set, ahead_y)
        copy(path[steps], y)
        call_at(f_grad_x, x, y, slope)
        call_at(f_grad_y, x, y, adjoint)
        for back in range(steps):
            t = steps - 1 - back
            share = weight / (t + 1)
            if not is_free:
                copy(path[t], before)
                _mixed_step(f_grad_y, g_grad_y, x, before, share, step_f, step_g, slope_y, image)
                pull_through(y_set, before, adjoint, ahead, behind)
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
