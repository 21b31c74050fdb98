"""IAPTT: the start of the inner steps is an upper variable, and the worst inner point counts."""

from __future__ import annotations

import numpy as np

from ..backwards import N_BACK_ROWS, go_back, record_falling_path, record_path
from ..calls import call_at
from ..fields import (
    CURVATURE,
    IS_STARTED,
    MORE_ROWS,
    MORE_STATE,
    OLD_SLOPE,
    PACE,
    PROBE,
    PRODUCT,
    SLOPE,
    SLOPE_Y,
)
from ..fields import OLD_X as OLD_BOTH
from ..jit import compiled
from ..linalg import advance, axpy, copy, move_size
from ..projection import project

# Settings
(
    STEP_X,  # 0: adaptive, then for z too
    STEP_START,  # of z, the first inner point
    STEP_Y,  # 0: automatic
    INNER_STEPS,  # K
    IS_FREE,  # 1: y is
    N_SETTINGS,
) = range(6)

# State behind pace and curvature
(
    WORST,  # inner step at which f was largest
    N_STATE,
) = range(MORE_STATE, MORE_STATE + 2)

# Rows of scratch space behind the common ones, of which the old point and both slopes are of (x, z)
(
    IMAGE,  # in y
    VALUE,  # one number
    BACK,  # N_BACK_ROWS rows
) = range(MORE_ROWS, MORE_ROWS + 3)
N_ROWS = BACK + N_BACK_ROWS


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

    both: x, then z, the first inner point. path: K + 1 rows.
    """
    alpha, step_z, beta = settings[STEP_X], settings[STEP_START], settings[STEP_Y]
    steps, is_free = int(settings[INNER_STEPS]), settings[IS_FREE] > 0.0
    n_y = len(y)
    n_x = len(both) - n_y
    size = len(both)
    x, z = both[:n_x], both[n_x:]
    pace, curvature = state[PACE:CURVATURE], state[CURVATURE:MORE_STATE]
    old, old_slope, slope = work[OLD_BOTH, :size], work[OLD_SLOPE, :size], work[SLOPE, :size]
    product, probe, slope_y = work[PRODUCT, :n_x], work[PROBE, :n_y], work[SLOPE_Y, :n_y]
    image, value = work[IMAGE, :n_y], work[VALUE]
    adjoint = slope[n_x:]
    residual = np.inf
    for _ in range(n):
        copy(z, path[0])
        step = beta
        if beta > 0.0:
            record_path(g_grad_y, y_set, x, path, steps, step, slope_y)
        else:
            step = record_falling_path(
                g, g_grad_y, g_hessian, y_set, x, path, steps, curvature, probe, image, slope_y, value
            )
        copy(path[steps], y)
        # Pessimistic truncation: the inner point at which f is largest.
        worst, top = steps, -np.inf
        for t in range(1, steps + 1):
            call_at(f, x, path[t], value)
            if value[0] > top:
                worst, top = t, value[0]
        is_same, state[WORST] = worst == state[WORST], worst
        call_at(f_grad_x, x, path[worst], slope[:n_x])
        call_at(f_grad_y, x, path[worst], adjoint)
        go_back(
            g_grad_y, g_hessian, g_cross, y_set, is_free, x, path, worst, step, slope[:n_x],
            product, adjoint, image, work[BACK:],
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
                pace[IS_STARTED] = 0.0
            step = advance(0.0, pace, slope, both, old, old_slope)
            project(x_set, x)
            project(y_set, z)
            residual = move_size(both, old, step)
    return residual
