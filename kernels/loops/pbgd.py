"""PBGD in the Gauss-Seidel order; the Jacobi order is the loop of JNT-PBGD."""

from __future__ import annotations

import numpy as np

from ..fields import INNER_STEPS, INNER_TOLERANCE, MORE_SETTINGS, PENALTY, STEP_X, STEP_Y
from ..jit import compiled
from ..linalg import advance, axpy, move_size
from ..moves import descend_with_prox, evaluate, set_point, set_weight
from ..projection import project

# Settings behind those of all loops with a penalty weight; STEP_Y is that of y_g
(
    RESTART,  # 1: both inner loops begin anew in every iteration
    STEP_Y_PENALISED,  # of (7d)
    N_SETTINGS,
) = range(MORE_SETTINGS, MORE_SETTINGS + 3)

# Rows of scratch space
(
    OLD_X,  # x and its slope before the step
    OLD_SLOPE,
    BEFORE,  # in y: where an inner step began
    N_ROWS,
) = range(4)


@compiled
def pbgd_gauss_seidel(
    n, lower, penalised, upper, x_set, y_set, nothing, settings, x, y, y_g, restart, first_y, pace, work
):
    """Do n iterations of Algorithm 2; returns the largest entry of the last projected slope in x.

    lower: g_y at the points x, y. penalised: f_y + gamma g_y at the points x, y. upper: the slope of
    (7e) at the points x, y_g, y. restart, first_y: where y_g and y begin anew.
    """
    alpha, beta, gamma = settings[STEP_X], settings[STEP_Y], settings[PENALTY]
    inner, tolerance = int(settings[INNER_STEPS]), settings[INNER_TOLERANCE]
    is_restarted, beta_y = settings[RESTART] > 0.0, settings[STEP_Y_PENALISED]
    n_x, n_y = len(x), len(y)
    old_x, old_slope, before = work[OLD_X, :n_x], work[OLD_SLOPE, :n_x], work[BEFORE, :n_y]
    no_amounts = old_x[:0]
    set_weight(penalised, 0, gamma)
    set_weight(upper, 0, gamma)
    residual = np.inf
    for _ in range(n):
        if is_restarted:
            y_g[:] = restart
            y[:] = first_y
        # (7a)
        descend_with_prox(lower, x, y_g, beta, nothing, no_amounts, y_set, inner, tolerance, before)
        # (7d)
        descend_with_prox(
            penalised, x, y, beta_y, nothing, no_amounts, y_set, inner, gamma * tolerance, before
        )
        # (7e)
        set_point(upper, 1, x)
        set_point(upper, 2, y_g)
        set_point(upper, 3, y)
        step = advance(alpha, pace, evaluate(upper), x, old_x, old_slope)
        project(x_set, x)
        residual = move_size(x, old_x, step)
    return residual


@compiled
def pbgd_together(n, both, upper, x_set, y_set, settings, x, y_g, y, restart, first_y, pace, work):
    """The same iterations with a given number of inner steps, those of y_g and y done side by side.

    Neither of the two needs the other one, so that products with the same matrix become one product.
    both: g_y at y_g, then f_y + gamma g_y at y. upper: the slope of (7e). The points x, y_g and y lie in
    the workspace of both.
    """
    alpha, beta, gamma = settings[STEP_X], settings[STEP_Y], settings[PENALTY]
    inner, is_restarted = int(settings[INNER_STEPS]), settings[RESTART] > 0.0
    beta_y = settings[STEP_Y_PENALISED]
    n_x, n_y = len(x), len(y)
    old_x, old_slope = work[OLD_X, :n_x], work[OLD_SLOPE, :n_x]
    set_weight(both, 0, gamma)
    residual = np.inf
    for _ in range(n):
        if is_restarted:
            y_g[:] = restart
            y[:] = first_y
        for _ in range(inner):
            slope = evaluate(both)
            axpy(-beta, slope[:n_y], y_g)
            axpy(-beta_y, slope[n_y:], y)
            project(y_set, y_g)
            project(y_set, y)
        step = advance(alpha, pace, evaluate(upper), x, old_x, old_slope)
        project(x_set, x)
        residual = move_size(x, old_x, step)
    return residual
