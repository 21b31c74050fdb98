"""GALET: gradient steps in y, in the shadow implicit gradient w, then in x."""

from __future__ import annotations

import numpy as np

from ..calls import call_along, call_at, call_further
from ..jit import compiled
from ..linalg import advance, axpy, descend, dot, largest, lower_curvature, move_size, norm
from ..projection import project


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
    """Do n iterations of Algorithm 1; returns the largest of the stationarity measures.

    settings: steps alpha, beta, rho (0: automatic), N, T, accuracy of the automatic y, shortcut,
    whether to keep w, accuracy of the automatic w, tolerance, below which accuracy is pointless.
    state: pace of x (3), memory of the curvature (2), last residual in x.
    measures: R_x, R_w of (8) at the last (x, y, w) and the largest entry of the lower slope.
    work: rows old x, old slope, slope, product in x; then probe and five vectors in y.
    """
    alpha, beta, rho = settings[0], settings[1], settings[2]
    inner, shadow, accuracy = int(settings[3]), int(settings[4]), settings[5]
    is_shortcut, keeps_w, accuracy_w = settings[6] > 0.0, settings[7] > 0.0, settings[8]
    n_x, n_y = len(x), len(y)
    old_x, old_slope, slope, product = work[0, :n_x], work[1, :n_x], work[2, :n_x], work[3, :n_x]
    probe, slope_y, trial, image = work[4, :n_y], work[5, :n_y], work[6, :n_y], work[7, :n_y]
    error, second = work[8, :n_y], work[9, :n_y]
    value = work[10]
    residual = np.inf
    for _ in range(n):
        curvature = 1.0
        if beta == 0.0 or rho == 0.0:
            curvature = lower_curvature(g_hessian, x, y, state[3:5], probe, image, 2)
        reference = max(state[5], settings[9])
        # (10): N gradient steps on g(x, .)
        step = beta if beta > 0.0 else 1 / curvature
        below = descend(
            g, g_grad_y, x, y, step, beta > 0.0, inner, accuracy * reference, slope_y, trial, value
        )
        # (12a), from w = 0 unless told to go on from the last w
        step = rho
        if rho == 0.0:
            curvature = lower_curvature(g_hessian, x, y, state[3:5], probe, image, 2)
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
        measures[0] = dot(slope, slope)
        measures[1] = dot(second, second)
        measures[2] = below
        step = advance(alpha, state[:3], slope, x, old_x, old_slope)
        project(x_set, x)
        moved = move_size(x, old_x, step)
        state[5] = moved
        residual = max(moved, below, largest(second))
    return residual
