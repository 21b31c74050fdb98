"""Iterative differentiation: store the inner gradient steps, then go back through them."""

from __future__ import annotations

import numpy as np

from ..backwards import N_BACK_ROWS, go_back, record_falling_path, record_path
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
from ..linalg import advance, axpy, copy, move_size
from ..projection import project

# Settings
(
    STEP_X,  # 0: adaptive
    STEP_Y,  # 0: automatic
    INNER_STEPS,  # T
    RESTART,  # 1: the inner steps begin at the first y, not at the last one
    IS_FREE,  # 1: y is
    N_SETTINGS,
) = range(6)

N_STATE = MORE_STATE

# Rows of scratch space behind the common ones
(
    ADJOINT,  # in y, as is the image
    IMAGE,
    VALUE,  # one number
    BACK,  # N_BACK_ROWS rows
) = range(MORE_ROWS, MORE_ROWS + 4)
N_ROWS = BACK + N_BACK_ROWS


@compiled
def unrolled(
    n, f_grad_x, f_grad_y, g, g_grad_y, g_hessian, g_cross, x_set, y_set, settings, x, y, path, state,
    work,
):  # fmt: skip
    """Do n iterations; returns the larger of the projected gradients in x and y.

    path: T + 1 rows.
    """
    alpha, beta, steps = settings[STEP_X], settings[STEP_Y], int(settings[INNER_STEPS])
    is_warm, is_free = settings[RESTART] == 0.0, settings[IS_FREE] > 0.0
    n_x, n_y = len(x), len(y)
    pace, curvature = state[PACE:CURVATURE], state[CURVATURE:MORE_STATE]
    old_x, old_slope = work[OLD_X, :n_x], work[OLD_SLOPE, :n_x]
    slope, product = work[SLOPE, :n_x], work[PRODUCT, :n_x]
    probe, slope_y = work[PROBE, :n_y], work[SLOPE_Y, :n_y]
    adjoint, image, value = work[ADJOINT, :n_y], work[IMAGE, :n_y], work[VALUE]
    residual = np.inf
    for _ in range(n):
        if is_warm:
            copy(y, path[0])
        step = beta
        if beta > 0.0:
            record_path(g_grad_y, y_set, x, path, steps, step, slope_y)
        else:
            step = record_falling_path(
                g, g_grad_y, g_hessian, y_set, x, path, steps, curvature, probe, image, slope_y, value
            )
        copy(path[steps], y)
        call_at(f_grad_x, x, y, slope)
        call_at(f_grad_y, x, y, adjoint)
        go_back(
            g_grad_y, g_hessian, g_cross, y_set, is_free, x, path, steps, step, slope, product, adjoint,
            image, work[BACK:],
        )  # fmt: skip
        # The projected slope in y, before x moves
        call_at(g_grad_y, x, y, slope_y)
        copy(y, image)
        axpy(-step, slope_y, image)
        project(y_set, image)
        below = move_size(image, y, step)
        step = advance(alpha, pace, slope, x, old_x, old_slope)
        project(x_set, x)
        residual = move_size(x, old_x, step)
        if is_warm:  # from a fixed first point the slope stays as the T steps leave it
            residual = max(residual, below)
    return residual
