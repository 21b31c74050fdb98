"""PBGD-Free: ALT-PBGD without the value function's part of the slope."""

from __future__ import annotations

import numpy as np

from ..calls import call_at
from ..fields import INNER_STEPS, INNER_TOLERANCE, MORE_SETTINGS, PENALTY, STEP_X, STEP_Y
from ..jit import compiled
from ..linalg import advance, move_size
from ..moves import descend_with_prox, evaluate, set_point, set_weight
from ..projection import project

# Settings behind those of all loops with a penalty weight; INNER_STEPS = 1: the single-loop version
(
    SEES_OLD_Y,  # 1: the step in x takes its slope at the y of before the inner steps
    N_SETTINGS,
) = range(MORE_SETTINGS, MORE_SETTINGS + 2)

# Rows of scratch space
(
    OLD_X,  # x and its slope before the step
    OLD_SLOPE,
    BEFORE,  # in y: where an inner step began
    OLD_Y,
    N_ROWS,
) = range(5)


@compiled
def pbgd_free(n, penalised, upper, weights, x_set, y_set, penalty, settings, x, y, amounts, pace, work):
    """Do n iterations of Algorithm 3; returns the largest entry of the last projected slope.

    penalised: g_y + w f_y at the points x, y. upper: f_x at the points x, y.
    """
    eta, step_y, gamma = settings[STEP_X], settings[STEP_Y], settings[PENALTY]
    inner, tolerance = int(settings[INNER_STEPS]), settings[INNER_TOLERANCE]
    sees_old_y = settings[SEES_OLD_Y] > 0.0
    n_x, n_y = len(x), len(y)
    old_x, old_slope = work[OLD_X, :n_x], work[OLD_SLOPE, :n_x]
    before, old_y = work[BEFORE, :n_y], work[OLD_Y, :n_y]
    set_weight(penalised, 0, 1.0 / gamma)
    residual = np.inf
    for _ in range(n):
        if len(amounts) > 0:
            call_at(weights, x, y, amounts)
        old_y[:] = y
        # line 3: y minimises f / gamma + g, or takes one step towards that
        descend_with_prox(penalised, x, y, step_y, penalty, amounts, y_set, inner, tolerance, before)
        # line 4: x = Proj_X(x - eta f_x(x, y))
        set_point(upper, 1, x)
        set_point(upper, 2, old_y if sees_old_y else y)
        step = advance(eta, pace, evaluate(upper), x, old_x, old_slope)
        project(x_set, x)
        residual = move_size(x, old_x, step)
        if tolerance == 0.0:  # y is followed, not found: x may rest at an edge of X while y still moves
            residual = max(residual, move_size(y, old_y, step_y))
    return residual
