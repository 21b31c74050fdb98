"""Inner gradient steps that are stored, and the way back through them."""

from __future__ import annotations

from .calls import call_along, call_at
from .jit import compiled
from .linalg import ROUNDING, axpy, copy, lower_curvature
from .projection import project
from .tangent import pull_through

# Rows for y of what go_back needs for itself
(
    BEFORE,  # before a projection
    AHEAD,
    BEHIND,
    N_BACK_ROWS,
) = range(4)


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
