"""Approximate implicit differentiation: a linear system in y, by conjugate gradients or a series."""

from __future__ import annotations

import numpy as np

from ..calls import call_along, call_at
from ..jit import compiled
from ..linalg import (
    advance,
    axpy,
    conjugate_gradients,
    descend,
    largest,
    lower_curvature,
    move_size,
)
from ..projection import project


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
    right, residual, direction, image = work[0, :n_y], work[1, :n_y], work[2, :n_y], work[3, :n_y]
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
    """Do n iterations; returns the larger of the projected hypergradient and the lower slope.

    settings: steps in x and y, step of the series (0: automatic), gradient steps, steps of the linear
    solve, its tolerance, accuracy of the automatic y, whether to sum a series,
    tolerance, below which accuracy is pointless.
    state: pace of x (3), memory of the curvature (2), last residual in x.
    work: rows old x, old slope, slope, product in x; then probe and six vectors in y.
    """
    alpha, beta, eta = settings[0], settings[1], settings[2]
    inner, steps, tolerance, accuracy = int(settings[3]), int(settings[4]), settings[5], settings[6]
    is_series = settings[7] > 0.0
    n_x, n_y = len(x), len(y)
    old_x, old_slope, slope, product = work[0, :n_x], work[1, :n_x], work[2, :n_x], work[3, :n_x]
    probe, slope_y, trial = work[4, :n_y], work[5, :n_y], work[6, :n_y]
    solver, value = work[7:11], work[11]
    residual = np.inf
    for _ in range(n):
        curvature = 1.0
        if beta == 0.0 or eta == 0.0:
            curvature = lower_curvature(g_hessian, x, y, state[3:5], probe, trial, 2)
        step = beta if beta > 0.0 else 1 / curvature
        goal = accuracy * max(state[5], settings[8])
        below = descend(g, g_grad_y, x, y, step, beta > 0.0, inner, goal, slope_y, trial, value)
        step = eta
        if is_series and eta == 0.0:
            # The power steps approach the curvature from below: a margin keeps the series convergent.
            step = 0.9 / lower_curvature(g_hessian, x, y, state[3:5], probe, trial, 2)
        hypergradient(
            f_grad_x, f_grad_y, g_hessian, g_cross, x, y, v, is_series, step, steps, tolerance, slope,
            product, solver,
        )  # fmt: skip
        step = advance(alpha, state[:3], slope, x, old_x, old_slope)
        project(x_set, x)
        moved = move_size(x, old_x, step)
        state[5] = moved
        residual = max(moved, below)
    return residual
