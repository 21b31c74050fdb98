"""Approximate implicit differentiation: a linear system in y, by conjugate gradients or a series."""

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
from ..linalg import (
    advance,
    axpy,
    conjugate_gradients,
    descend_on_g,
    largest,
    lower_curvature,
    move_size,
)
from ..projection import project

# Settings
(
    STEP_X,  # 0: adaptive
    STEP_Y,  # 0: automatic
    STEP_SERIES,  # 0: automatic
    INNER_STEPS,  # gradient steps in y, at most
    LINEAR_STEPS,  # of the linear solve
    LINEAR_TOLERANCE,
    ACCURACY,  # of y, relative to the slope in x; 0: all the inner steps are done
    IS_SERIES,  # 1: sum a series, 0: conjugate gradients
    TOLERANCE,  # slope in x below which more accuracy is pointless
    N_SETTINGS,
) = range(10)

# State behind pace and curvature
(
    LAST_SLOPE,  # projected slope in x
    N_STATE,
) = range(MORE_STATE, MORE_STATE + 2)

# Rows for y of the linear solve
(
    RIGHT,
    RESIDUAL,
    DIRECTION,
    IMAGE,
    N_LINEAR_ROWS,
) = range(5)

# Rows of scratch space behind the common ones
(
    TRIAL,  # in y
    LINEAR,  # N_LINEAR_ROWS rows
) = range(MORE_ROWS, MORE_ROWS + 2)
VALUE = LINEAR + N_LINEAR_ROWS  # one number
N_ROWS = VALUE + 1


@compiled
def neumann(hessian, x, y, right, solution, term, image, step, terms, tolerance):
    """Neumann series: solution = step * sum over q < terms of (I - step H)^q right.

    Returns the number of terms that were added.
    """
    for i in range(len(right)):
        term[i] = step * right[i]
        solution[i] = term[i]
    first = largest(term)
    for done in range(1, terms):
        call_along(hessian, x, y, term, image)
        axpy(-step, image, term)
        axpy(1.0, term, solution)
        if largest(term) <= tolerance * first:
            return done
    return terms


@compiled
def hypergradient(
    f_grad_x,
    f_grad_y,
    g_hessian,
    g_cross,
    x,
    y,
    v,
    is_series,
    step,
    steps,
    tolerance,
    slope,
    product,
    work,
):
    """Hypergradient slope = grad_x f - g_xy v with H v = grad_y f; conjugate gradients begin at v."""
    n_y = len(y)
    right, residual = work[RIGHT, :n_y], work[RESIDUAL, :n_y]
    direction, image = work[DIRECTION, :n_y], work[IMAGE, :n_y]
    call_at(f_grad_y, x, y, right)
    if is_series:
        neumann(g_hessian, x, y, right, v, direction, image, step, steps, tolerance)
    else:
        conjugate_gradients(g_hessian, x, y, right, v, residual, direction, image, steps, tolerance)
    call_at(f_grad_x, x, y, slope)
    call_along(g_cross, x, y, v, product)
    axpy(-1.0, product, slope)


@compiled
def implicit(
    n, f_grad_x, f_grad_y, g, g_grad_y, g_hessian, g_cross, x_set, settings, x, y, v, state, work
):
    """Do n iterations; returns the larger of the projected hypergradient and the lower slope."""
    alpha, beta, eta = settings[STEP_X], settings[STEP_Y], settings[STEP_SERIES]
    inner, accuracy = int(settings[INNER_STEPS]), settings[ACCURACY]
    steps, tolerance = int(settings[LINEAR_STEPS]), settings[LINEAR_TOLERANCE]
    is_series = settings[IS_SERIES] > 0.0
    n_x, n_y = len(x), len(y)
    pace, memory = state[PACE:CURVATURE], state[CURVATURE:MORE_STATE]
    old_x, old_slope = work[OLD_X, :n_x], work[OLD_SLOPE, :n_x]
    slope, product = work[SLOPE, :n_x], work[PRODUCT, :n_x]
    probe, slope_y, trial = work[PROBE, :n_y], work[SLOPE_Y, :n_y], work[TRIAL, :n_y]
    solver, value = work[LINEAR:VALUE], work[VALUE]
    residual = np.inf
    for _ in range(n):
        curvature = 1.0
        if beta == 0.0 or eta == 0.0:
            curvature = lower_curvature(g_hessian, x, y, memory, probe, trial, 2)
        step = beta if beta > 0.0 else 1 / curvature
        goal = accuracy * max(state[LAST_SLOPE], settings[TOLERANCE])
        below = descend_on_g(g, g_grad_y, x, y, step, beta > 0.0, inner, goal, slope_y, trial, value)
        step = eta
        if is_series and eta == 0.0:
            # The power steps approach the curvature from below: a margin keeps the series convergent.
            step = 0.9 / lower_curvature(g_hessian, x, y, memory, probe, trial, 2)
        hypergradient(
            f_grad_x, f_grad_y, g_hessian, g_cross, x, y, v, is_series, step, steps, tolerance, slope,
            product, solver,
        )  # fmt: skip
        step = advance(alpha, pace, slope, x, old_x, old_slope)
        project(x_set, x)
        moved = move_size(x, old_x, step)
        state[LAST_SLOPE] = moved
        residual = max(moved, below)
    return residual
