"""Iterative differentiation: store the inner gradient steps, then go back through them."""

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
from ..linalg import ROUNDING, advance, axpy, copy, lower_curvature, move_size
from ..projection import project
from ..tangent import pull_through

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

# Rows for y of what go_back needs for itself
(
    BEFORE,  # before a projection
    AHEAD,
    BEHIND,
    N_BACK_ROWS,
) = range(4)

# Rows of scratch space behind the common ones
(
    ADJOINT,  # in y, as is the image
    IMAGE,
    VALUE,  # one number
    BACK,  # N_BACK_ROWS rows
) = range(MORE_ROWS, MORE_ROWS + 4)
N_ROWS = BACK + N_BACK_ROWS


@compiled
def record_path(g_grad_y, y_set, x, path, steps, step, slope):
    """path[t + 1] = projection of path[t] - step * grad_y g(x, path[t])."""
    for t in range(steps):
        call_at(g_grad_y, x, path[t], slope)
        copy(path[t], path[t + 1])
        axpy(-step, slope, path[t + 1])
        project(y_set, path[t + 1])


@compiled
def record_falling_path(
    g, g_grad_y, g_hessian, y_set, x, path, steps, memory, probe, image, slope, value
):
    """The same with a step of at most 1 / curvature at both ends, at which g falls; returns it."""
    step = 1 / lower_curvature(g_hessian, x, path[0], memory, probe, image, 2)
    call_at(g, x, path[0], value)
    before = value[0]
    for _ in range(40):
        record_path(g_grad_y, y_set, x, path, steps, step, slope)
        call_at(g, x, path[steps], value)
        # One step of this length must lower g by a part of |move|^2 / step, and so must many.
        moved = 0.0
        for i in range(len(slope)):
            moved += (path[1, i] - path[0, i]) ** 2
        falls = value[0] <= before - 0.25 * moved / step + ROUNDING * (1 + abs(before))
        curvature = lower_curvature(g_hessian, x, path[steps], memory, probe, image, 2)
        if falls and step * curvature <= 1.2:
            break
        step = min(0.5 * step, 1 / curvature)
    return step


@compiled
def go_back(
    g_grad_y, g_hessian, g_cross, y_set, is_free, x, path, last, step, slope, product, adjoint, image,
    work,
):  # fmt: skip
    """Pull ``adjoint``, a derivative by path[last], back to x (added to slope) and to path[0]."""
    n_y = len(adjoint)
    before, ahead, behind = work[BEFORE, :n_y], work[AHEAD, :n_y], work[BEHIND, :n_y]
    for back in range(last):
        at = path[last - 1 - back]
        if not is_free:
            call_at(g_grad_y, x, at, image)
            copy(at, before)
            axpy(-step, image, before)
            pull_through(y_set, before, adjoint, ahead, behind)
        call_along(g_cross, x, at, adjoint, product)
        axpy(-step, product, slope)
        call_along(g_hessian, x, at, adjoint, image)
        axpy(-step, image, adjoint)


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
