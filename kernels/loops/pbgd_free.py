"""PBGD-Free: ALT-PBGD without the value function's part of the slope."""

from __future__ import annotations

import numpy as np

from ..calls import call_at
from ..jit import compiled
from ..linalg import advance, move_size
from ..moves import descend_with_prox, evaluate, set_point, set_weight
from ..projection import project


@compiled
def pbgd_free(n, penalised, upper, weights, x_set, y_set, penalty, settings, x, y, amounts, pace, work):
    """Do n iterations of Algorithm 3; returns the largest entry of the last projected slope in x.

    penalised: g_y + w f_y at the points x, y. upper: f_x at the points x, y. settings: step in x
    (0: adaptive), step in y, gamma, inner steps (1 is the fully single-loop version), inner tolerance,
    whether the step in x uses the y of before the inner steps. work: 2 rows for x, 2 rows for y.
    """
    eta, step_y, gamma = settings[0], settings[1], settings[2]
    inner, tolerance, is_single = int(settings[3]), settings[4], settings[5] > 0.0
    n_x, n_y = len(x), len(y)
    old_x, old_slope, before, old_y = work[0, :n_x], work[1, :n_x], work[2, :n_y], work[3, :n_y]
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
        set_point(upper, 2, old_y if is_single else y)
        step = advance(eta, pace, evaluate(upper), x, old_x, old_slope)
        project(x_set, x)
        residual = move_size(x, old_x, step)
    return residual
