"""Small pieces shared by loops: vectors, curvature, conjugate gradients, gradient steps."""

from __future__ import annotations

import numpy as np

from .calls import call_along, call_at, call_further
from .fields import ESTIMATE, GROWTH, HIGHEST, IS_STARTED, STEP
from .jit import compiled

ROUNDING = 1e-13  # relative decrease below this is not seen in function values


@compiled
def dot(a, b):
    """Inner product."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled
def norm(a):
    """Euclidean norm."""
    return np.sqrt(dot(a, a))


@compiled
def largest(a):
    """Largest absolute entry; NaN if any entry is."""
    top = 0.0
    for i in range(len(a)):
        if not abs(a[i]) <= top:
            top = abs(a[i])
            if top != top:
                return top
    return top


@compiled
def copy(source, target):
    """Copy: target = source."""
    for i in range(len(source)):
        target[i] = source[i]


@compiled
def axpy(factor, a, b):
    """Add a multiple: b += factor * a."""
    for i in range(len(a)):
        b[i] += factor * a[i]


@compiled
def lower_curvature(hessian, x, y, memory, probe, image, repeats):
    """Largest |eigenvalue| of the lower Hessian at (x, y) by power steps on the kept vector probe.

    memory: see ESTIMATE, HIGHEST in fields. An estimate falls slowly and never to nothing,
    because 1/estimate is the step of the next gradient steps, which may reach steeper places.
    """
    if memory[ESTIMATE] == 0.0:
        repeats = 20
    size = 0.0
    for _ in range(repeats):
        call_along(hessian, x, y, probe, image)
        length = norm(image)
        size = length / max(norm(probe), 1e-300)
        if not 1e-200 < length < 1e200:
            break
        # A little of the old direction stays, so that the probe cannot die in a kernel.
        for i in range(len(probe)):
            probe[i] = 0.999 * image[i] / length + 0.001 * probe[i]
    if not np.isfinite(size):
        size = memory[ESTIMATE]
    memory[HIGHEST] = max(memory[HIGHEST], size)
    memory[ESTIMATE] = max(size, 0.5 * memory[ESTIMATE], 1e-3 * memory[HIGHEST], 1e-10)
    return memory[ESTIMATE]


@compiled
def descend_on_g(g, g_grad_y, x, y, step, is_fixed, steps, tolerance, slope, trial, value):
    """Gradient steps on g(x, .) until the slope is small; returns the largest entry of the slope.

    A fixed step is taken as it is; otherwise it is halved until g falls as a smooth function must.
    The slope that is left in ``slope`` belongs to the last y.
    """
    call_at(g_grad_y, x, y, slope)
    if is_fixed:
        for _ in range(steps):
            axpy(-step, slope, y)
            call_at(g_grad_y, x, y, slope)
            if largest(slope) <= tolerance:
                break
        return largest(slope)
    call_at(g, x, y, value)
    current = value[0]
    for _ in range(steps):
        if not largest(slope) > tolerance:
            break
        square = dot(slope, slope)
        for _ in range(60):
            for i in range(len(y)):
                trial[i] = y[i] - step * slope[i]
            call_at(g, x, trial, value)
            if value[0] <= current - 0.25 * step * square + ROUNDING * (1 + abs(current)):
                break
            step *= 0.5
        current = value[0]
        copy(trial, y)
        call_at(g_grad_y, x, y, slope)
    return largest(slope)


@compiled
def conjugate_gradients(hessian, x, y, right, solution, residual, direction, image, steps, tolerance):
    """Solve H(x, y) s = right from the given s; returns the number of steps.

    Stops when the residual is ``tolerance`` times the right-hand side, or at a direction without
    positive curvature, where the quadratic model has no minimum.
    """
    call_along(hessian, x, y, solution, image)
    for i in range(len(right)):
        residual[i] = right[i] - image[i]
        direction[i] = residual[i]
    square = dot(residual, residual)
    goal = (tolerance * norm(right)) ** 2
    for done in range(steps):
        if not square > goal:
            return done
        call_further(hessian, direction, image)
        curvature = dot(direction, image)
        if not curvature > 1e-16 * dot(direction, direction):
            return done
        length = square / curvature
        axpy(length, direction, solution)
        axpy(-length, image, residual)
        following = dot(residual, residual)
        for i in range(len(direction)):
            direction[i] = residual[i] + following / square * direction[i]
        square = following
    return steps


@compiled
def advance(fixed, pace, slope, x, old_x, old_slope):
    """Step: x -= step * slope, keeping x and slope for the next call; returns the step.

    A fixed step of 0 asks for the rule of Malitsky and Mishchenko (2020), whose step is at most half
    the inverse of the curvature met on the last move and grows slowly. pace: see STEP in fields.
    """
    step = fixed
    if fixed == 0.0:
        step = pace[STEP]
        if pace[IS_STARTED] == 0.0:
            if step == 0.0:
                step = 1e-3 * (1 + norm(x)) / max(norm(slope), 1e-300)
            pace[IS_STARTED] = 1.0
        else:
            moved, changed = 0.0, 0.0
            for i in range(len(x)):
                moved += (x[i] - old_x[i]) ** 2
                changed += (slope[i] - old_slope[i]) ** 2
            if moved > 0.0:
                step *= np.sqrt(1 + pace[GROWTH])
                if changed > 0.0:
                    step = min(step, 0.5 * np.sqrt(moved / changed))
                pace[GROWTH] = step / pace[STEP]
        # Where the slope jumps, the curvature met before says nothing: no move is longer than x.
        step = min(step, (1 + norm(x)) / max(norm(slope), 1e-300))
        pace[STEP] = step
    copy(x, old_x)
    copy(slope, old_slope)
    axpy(-step, slope, x)
    return step


@compiled
def move_size(x, old_x, step):
    """Largest entry of (x - old_x) / step: the projected gradient; NaN if any entry is."""
    size = 0.0
    for i in range(len(x)):
        entry = abs(x[i] - old_x[i]) / step
        if not entry <= size:
            size = entry
            if size != size:
                return size
    return size
