"""BAMM: one step each of y, the multiplier v and x on an average of both objectives."""

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
from ..linalg import advance, axpy, largest, lower_curvature, move_size
from ..projection import project

# Settings
(
    STEP_X,  # 0: adaptive
    STEP_Y,  # 0: automatic
    STEP_V,  # 0: automatic
    UPPER_SHARE,  # mu_0, of f in the average
    SHARE_POWER,  # p: mu_k = mu_0 (k + 1)^-p
    STEP_POWER,  # tau: steps fall with (k + 1)^(-tau / 2), that of x with (k + 1)^(-3 tau / 2)
    INNER_STEPS,  # of y and v for each one of x
    IS_TOGETHER,  # 1: x uses y and v as they were before their step
    N_SETTINGS,
) = range(9)

# State behind pace and curvature
(
    COUNT,  # iterations done
    N_STATE,
) = range(MORE_STATE, MORE_STATE + 2)

# Rows of scratch space behind the common ones
(
    F_Y,  # in y
    IMAGE,
    OTHER,
    AVERAGE,  # in y: slope of the average
    N_ROWS,
) = range(MORE_ROWS, MORE_ROWS + 5)


@compiled
def _slope_in_x(f_grad_x, f_cross, g_cross, share, x, y, v, slope, product):
    """d_x = grad_x f - (mu f_xy + (1 - mu) g_xy) v."""
    call_at(f_grad_x, x, y, slope)
    call_along(f_cross, x, y, v, product)
    axpy(-share, product, slope)
    call_along(g_cross, x, y, v, product)
    axpy(share - 1.0, product, slope)


@compiled
def bamm(
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
    v,
    state,
    work,
):
    """Do n iterations; returns the largest of the projected slope in x and the slopes in y and v."""
    n_x, n_y = len(x), len(y)
    inner, is_together = int(settings[INNER_STEPS]), settings[IS_TOGETHER] > 0.0
    pace, memory = state[PACE:CURVATURE], state[CURVATURE:MORE_STATE]
    old_x, old_slope = work[OLD_X, :n_x], work[OLD_SLOPE, :n_x]
    slope, product = work[SLOPE, :n_x], work[PRODUCT, :n_x]
    probe, g_y, f_y = work[PROBE, :n_y], work[SLOPE_Y, :n_y], work[F_Y, :n_y]
    image, other, average = work[IMAGE, :n_y], work[OTHER, :n_y], work[AVERAGE, :n_y]
    residual = np.inf
    for _ in range(n):
        k = state[COUNT] + 1.0
        share = settings[UPPER_SHARE] * k ** -settings[SHARE_POWER]
        fall = k ** (-0.5 * settings[STEP_POWER])
        curvature = 1.0
        if settings[STEP_Y] == 0.0 or settings[STEP_V] == 0.0:
            curvature = lower_curvature(g_hessian, x, y, memory, probe, image, 2)
        step_y = settings[STEP_Y] * fall if settings[STEP_Y] > 0.0 else 0.5 / curvature
        step_v = settings[STEP_V] * fall if settings[STEP_V] > 0.0 else 0.5 / curvature
        if is_together:
            _slope_in_x(f_grad_x, f_cross, g_cross, share, x, y, v, slope, product)
        left = 0.0
        for _ in range(inner):
            call_at(f_grad_y, x, y, f_y)
            call_at(g_grad_y, x, y, g_y)
            for i in range(n_y):
                average[i] = share * f_y[i] + (1.0 - share) * g_y[i]
            call_along(f_hessian, x, y, v, image)
            call_along(g_hessian, x, y, v, other)
            for i in range(n_y):
                f_y[i] -= share * image[i] + (1.0 - share) * other[i]  # d_v
            # Where g does not see y the average moves it by the share of f alone.
            left = max(largest(average) / max(share, 1e-6), largest(f_y))
            axpy(step_v, f_y, v)
            axpy(-step_y, average, y)
        if not is_together:
            _slope_in_x(f_grad_x, f_cross, g_cross, share, x, y, v, slope, product)
        fixed = settings[STEP_X] * fall**3
        step = advance(fixed, pace, slope, x, old_x, old_slope)
        project(x_set, x)
        residual = max(move_size(x, old_x, step), left)
        state[COUNT] = k
    return residual
