"""JNT-PBGD: the lower problem by gradient steps, then one projected step in (x, y) together."""

from __future__ import annotations

import numpy as np

from ..fields import INNER_STEPS, INNER_TOLERANCE, MORE_SETTINGS, PENALTY, STEP_X, STEP_Y
from ..jit import compiled
from ..linalg import advance, move_size
from ..moves import descend_with_prox, evaluate, set_point, set_weight
from ..projection import project

# Settings behind those of all loops with a penalty weight; STEP_X is the step in (x, y)
(
    RESTART,  # 1: y_g begins anew in every iteration
    N_SETTINGS,
) = range(MORE_SETTINGS, MORE_SETTINGS + 2)

# Rows of scratch space
(
    OLD_POINT,  # z and its slope before the step
    OLD_SLOPE,
    BEFORE,  # in y: where an inner step began
    N_ROWS,
) = range(4)


@compiled
def jnt_pbgd(n, lower, joint, x_set, y_set, nothing, settings, z, n_x, y_g, restart, pace, work):
    """Do n iterations of Algorithm 1; returns the largest entry of the last projected joint slope.

    z holds x, then y. lower: g_y at the points x, y. joint: slopes in x and in y at the points x, y_g, y
    with the weight gamma. nothing: an empty penalty. restart: where y_g begins anew.
    """
    eta, step_y, gamma = settings[STEP_X], settings[STEP_Y], settings[PENALTY]
    inner, tolerance = int(settings[INNER_STEPS]), settings[INNER_TOLERANCE]
    is_restarted = settings[RESTART] > 0.0
    x, y = z[:n_x], z[n_x:]
    old_z, old_slope = work[OLD_POINT, : len(z)], work[OLD_SLOPE, : len(z)]
    before, no_amounts = work[BEFORE, : len(y_g)], old_z[:0]
    set_weight(joint, 0, gamma)
    residual = np.inf
    for _ in range(n):
        if is_restarted:
            y_g[:] = restart
        # (18), and (7a) of the paper on global optimality: y_g minimises g
        descend_with_prox(lower, x, y_g, step_y, nothing, no_amounts, y_set, inner, tolerance, before)
        # (19), and (7b)-(7c): one step on f + gamma (g - g(x, y_g)) in x and y at once
        set_point(joint, 1, x)
        set_point(joint, 2, y_g)
        set_point(joint, 3, y)
        step = advance(eta, pace, evaluate(joint), z, old_z, old_slope)
        project(x_set, x)
        project(y_set, y)
        residual = move_size(z, old_z, step)
    return residual
