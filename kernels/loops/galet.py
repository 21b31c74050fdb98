"""GALET: gradient steps in y, in the shadow implicit gradient w, then in x."""

from __future__ import annotations

import numpy as np

from ..calls import call_along, call_at, call_further
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
from ..linalg import advance, axpy, descend_on_g, dot, largest, lower_curvature, move_size, norm
from ..projection import project

# Settings
(
    STEP_X,  # alpha; 0: adaptive
    STEP_Y,  # beta; 0: automatic
    STEP_SHADOW,  # rho; 0: automatic
    INNER_STEPS,  # N
    SHADOW_STEPS,  # T
    ACCURACY,  # of y, relative to the slope in x; 0: all the inner steps are done
    SHADOW_ACCURACY,  # the same for w
    IS_SHORTCUT,  # 1: (15) instead of (12)
    RESTART,  # 1: the steps in w begin at 0, not at the last w
    TOLERANCE,  # slope in x below which more accuracy is pointless
    N_SETTINGS,
) = range(11)

# State behind pace and curvature
(
    LAST_SLOPE,  # projected slope in x
    N_STATE,
) = range(MORE_STATE, MORE_STATE + 2)

# Measures of (8) at the last (x, y, w)
(
    R_X,
    R_W,
    LOWER_SLOPE,  # largest entry
    N_MEASURES,
) = range(4)

# Rows of scratch space behind the common ones
(
    TRIAL,  # in y, as are the next three
    IMAGE,
    ERROR,
    SECOND,
    VALUE,  # one number
    N_ROWS,
) = range(MORE_ROWS, MORE_ROWS + 6)


@compiled
def galet(
    n,
    f_grad_x,
    f_grad_y,
    g,
    g_grad_y,
    g_hessian,
    g_cross,
    x_set,
    settings,
    x,
    y,
    w,
    state,
    measures,
    work,
):
    """Do n iterations of Algorithm 1; returns the largest of the stationarity measures."""
    alpha, beta, rho = settings[STEP_X], settings[STEP_Y], settings[STEP_SHADOW]
    inner, accuracy = int(settings[INNER_STEPS]), settings[ACCURACY]
    shadow, accuracy_w = int(settings[SHADOW_STEPS]), settings[SHADOW_ACCURACY]
    is_shortcut, keeps_w = settings[IS_SHORTCUT] > 0.0, settings[RESTART] == 0.0
    n_x, n_y = len(x), len(y)
    pace, memory = state[PACE:CURVATURE], state[CURVATURE:MORE_STATE]
    old_x, old_slope = work[OLD_X, :n_x], work[OLD_SLOPE, :n_x]
    slope, product = work[SLOPE, :n_x], work[PRODUCT, :n_x]
    probe, slope_y = work[PROBE, :n_y], work[SLOPE_Y, :n_y]
    trial, image, value = work[TRIAL, :n_y], work[IMAGE, :n_y], work[VALUE]
    error, second = work[ERROR, :n_y], work[SECOND, :n_y]
    residual = np.inf
    for _ in range(n):
        curvature = 1.0
        if beta == 0.0 or rho == 0.0:
            curvature = lower_curvature(g_hessian, x, y, memory, probe, image, 2)
        reference = max(state[LAST_SLOPE], settings[TOLERANCE])
        # (10): N gradient steps on g(x, .)
        step = beta if beta > 0.0 else 1 / curvature
        below = descend_on_g(
            g, g_grad_y, x, y, step, beta > 0.0, inner, accuracy * reference, slope_y, trial, value
        )
        # (12a), from w = 0 unless told to go on from the last w
        step = rho
        if rho == 0.0:
            curvature = lower_curvature(g_hessian, x, y, memory, probe, image, 2)
            step = 1 / curvature if is_shortcut else 1 / curvature**2
        call_at(f_grad_y, x, y, slope_y)
        if not keeps_w:
            for i in range(n_y):
                w[i] = 0.0
        call_along(g_hessian, x, y, w, image)
        for _ in range(shadow):
            for i in range(n_y):
                error[i] = slope_y[i] + image[i]
            if is_shortcut:  # (15)
                axpy(-step, error, w)
                size = norm(error)
            else:  # (12b)
                call_further(g_hessian, error, second)
                axpy(-step, second, w)
                size = norm(second)
            call_further(g_hessian, w, image)
            if size <= accuracy_w * reference:
                break
        call_at(f_grad_x, x, y, slope)  # (13)
        call_along(g_cross, x, y, w, product)
        axpy(1.0, product, slope)
        # (8): the measures at the point before the step in x
        for i in range(n_y):
            error[i] = slope_y[i] + image[i]
        call_further(g_hessian, error, second)
        measures[R_X] = dot(slope, slope)
        measures[R_W] = dot(second, second)
        measures[LOWER_SLOPE] = below
        step = advance(alpha, pace, slope, x, old_x, old_slope)
        project(x_set, x)
        moved = move_size(x, old_x, step)
        state[LAST_SLOPE] = moved
        residual = max(moved, below, largest(second))
    return residual
