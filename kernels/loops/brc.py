"""BRC: gradient steps in y, then x along an implicit gradient with outer products for Hessians."""

from __future__ import annotations

import numpy as np

from ..calls import call_at
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
from ..linalg import advance, axpy, dot, lower_curvature, move_size
from ..projection import project

# Settings
(
    STEP_X,  # 0: adaptive
    STEP_Y,  # 0: automatic
    INNER_STEPS,  # T
    FLOOR,  # added to |grad_y g|^2
    N_SETTINGS,
) = range(5)

N_STATE = MORE_STATE

# Rows of scratch space behind the common ones, in y
(
    F_Y,
    IMAGE,
    N_ROWS,
) = range(MORE_ROWS, MORE_ROWS + 3)


@compiled
def brc(n, f_grad_x, f_grad_y, g_grad_x, g_grad_y, g_hessian, x_set, y_set, settings, x, y, state, work):
    """Do n iterations; returns the projected slope in x."""
    n_x, n_y = len(x), len(y)
    inner, beta = int(settings[INNER_STEPS]), settings[STEP_Y]
    pace, memory = state[PACE:CURVATURE], state[CURVATURE:MORE_STATE]
    old_x, old_slope = work[OLD_X, :n_x], work[OLD_SLOPE, :n_x]
    slope, g_x = work[SLOPE, :n_x], work[PRODUCT, :n_x]
    probe, g_y, f_y, image = work[PROBE, :n_y], work[SLOPE_Y, :n_y], work[F_Y, :n_y], work[IMAGE, :n_y]
    residual = np.inf
    for _ in range(n):
        step_y = beta
        if beta == 0.0:
            step_y = 0.5 / lower_curvature(g_hessian, x, y, memory, probe, image, 2)
        for _ in range(inner):
            call_at(g_grad_y, x, y, g_y)
            axpy(-step_y, g_y, y)
            project(y_set, y)
        call_at(g_grad_y, x, y, g_y)
        call_at(g_grad_x, x, y, g_x)
        call_at(f_grad_y, x, y, f_y)
        call_at(f_grad_x, x, y, slope)
        # g_xy ~ grad_x g grad_y g', g_yy ~ grad_y g grad_y g'
        square = dot(g_y, g_y) + settings[FLOOR]
        if square > 0.0:
            axpy(-dot(g_y, f_y) / square, g_x, slope)
        step = advance(settings[STEP_X], pace, slope, x, old_x, old_slope)
        project(x_set, x)
        residual = move_size(x, old_x, step)
    return residual
