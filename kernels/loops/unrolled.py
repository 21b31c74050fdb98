"""Iterative differentiation: store the inner gradient steps, then go back through them."""

from __future__ import annotations

import numpy as np

from ..calls import call_along, call_at
from ..jit import compiled
from ..linalg import ROUNDING, advance, axpy, copy, lower_curvature, move_size
from ..projection import project
from ..tangent import pull_through


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
    """Pull ``adjoint``, a derivative by path[last], back to x (added to slope) and to path[0].

    work: three rows for y, used unless y is free.
    """
    n_y = len(adjoint)
    for back in range(last):
        at = path[last - 1 - back]
        if not is_free:
            call_at(g_grad_y, x, at, image)
            copy(at, work[0, :n_y])
            axpy(-step, image, work[0, :n_y])
            pull_through(y_set, work[0, :n_y], adjoint, work[1, :n_y], work[2, :n_y])
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

    settings: steps in x and y (0: automatic), gradient steps T, whether T counts from the last y,
    whether y is free. path: T + 1 rows. state: pace of x (3), memory of the curvature (2).
    work: rows old x, old slope, slope, product in x; then probe and three vectors in y, a number; then
    three rows of ``go_back``.
    """
    alpha, beta, steps, is_warm = settings[0], settings[1], int(settings[2]), settings[3] > 0.0
    is_free = settings[4] > 0.0
    n_x, n_y = len(x), len(y)
    old_x, old_slope, slope, product = work[0, :n_x], work[1, :n_x], work[2, :n_x], work[3, :n_x]
    probe, slope_y, adjoint, image, value = (
        work[4, :n_y],
        work[5, :n_y],
        work[6, :n_y],
        work[7, :n_y],
        work[8],
    )
    residual = np.inf
    for _ in range(n):
        if is_warm:
            copy(y, path[0])
        step = beta
        if beta > 0.0:
            record_path(g_grad_y, y_set, x, path, steps, step, slope_y)
        else:
            step = record_falling_path(
                g, g_grad_y, g_hessian, y_set, x, path, steps, state[3:5], probe, image, slope_y, value
            )
        copy(path[steps], y)
        call_at(f_grad_x, x, y, slope)
        call_at(f_grad_y, x, y, adjoint)
        go_back(
            g_grad_y, g_hessian, g_cross, y_set, is_free, x, path, steps, step, slope, product, adjoint,
            image, work[9:],
        )  # fmt: skip
        # The projected slope in y, before x moves
        call_at(g_grad_y, x, y, slope_y)
        copy(y, image)
        axpy(-step, slope_y, image)
        project(y_set, image)
        below = move_size(image, y, step)
        step = advance(alpha, state[:3], slope, x, old_x, old_slope)
        project(x_set, x)
        residual = move_size(x, old_x, step)
        if is_warm:  # from a fixed first point the slope stays as the T steps leave it
            residual = max(residual, below)
    return residual
