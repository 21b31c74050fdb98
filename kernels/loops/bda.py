"""BDA: inner steps that descend on a mixture of f and g, differentiated backwards."""

from __future__ import annotations

import numpy as np

from ..calls import call_along, call_at
from ..fields import (
    CURVATURE,
    MORE_ROWS,
    MORE_STATE,
    OLD_SLOPE,
    OLD_X,
    PACE,
    PROBE,
    PRODUCT,
    SLOPE,
    SLOPE_Y,
)
from ..jit import compiled
from ..linalg import advance, axpy, copy, lower_curvature, move_size
from ..projection import project
from ..tangent import pull_through

# Settings
(
    STEP_X,  # 0: adaptive
    STEP_Y,  # s_l, of g; 0: automatic
    STEP_Y_UPPER,  # s_u, of f in y
    UPPER_SHARE,  # a_0, of f in the first inner step
    INNER_STEPS,  # K
    IS_FREE,  # 1: y is
    N_SETTINGS,
) = range(7)

N_STATE = MORE_STATE

# Rows of scratch space behind the common ones, all in y
(
    ADJOINT,
    IMAGE,
    BEFORE,  # before a projection
    AHEAD,
    BEHIND,
    N_ROWS,
) = range(MORE_ROWS, MORE_ROWS + 6)


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

    path: K + 1 rows, the first being where the inner steps start.
    """
    alpha, beta, step_f = settings[STEP_X], settings[STEP_Y], settings[STEP_Y_UPPER]
    weight, steps, is_free = settings[UPPER_SHARE], int(settings[INNER_STEPS]), settings[IS_FREE] > 0.0
    n_x, n_y = len(x), len(y)
    pace, curvature = state[PACE:CURVATURE], state[CURVATURE:MORE_STATE]
    old_x, old_slope = work[OLD_X, :n_x], work[OLD_SLOPE, :n_x]
    slope, product = work[SLOPE, :n_x], work[PRODUCT, :n_x]
    probe, slope_y = work[PROBE, :n_y], work[SLOPE_Y, :n_y]
    adjoint, image = work[ADJOINT, :n_y], work[IMAGE, :n_y]
    before, ahead, behind = work[BEFORE, :n_y], work[AHEAD, :n_y], work[BEHIND, :n_y]
    residual = np.inf
    for _ in range(n):
        step_g = beta
        if beta == 0.0:
            step_g = 1 / lower_curvature(g_hessian, x, path[0], curvature, probe, image, 2)
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
        step = advance(alpha, pace, slope, x, old_x, old_slope)
        project(x_set, x)
        residual = move_size(x, old_x, step)
    return residual
