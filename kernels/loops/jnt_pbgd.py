"""JNT-PBGD: the lower problem by gradient steps, then one projected step in (x, y) together."""

from __future__ import annotations

import numpy as np

from ..jit import compiled
from ..linalg import advance, move_size
from ..moves import descend_with_prox, evaluate, set_point, set_weight
from ..projection import project


@compiled
def jnt_pbgd(n, lower, joint, x_set, y_set, nothing, settings, z, n_x, y_g, restart, pace, work):
    """Do n iterations of Algorithm 1; returns the largest entry of the last projected joint slope.

    z holds x, then y. lower: g_y at the points x, y. joint: slopes in x and in y at the points x, y_g, y
    with the weight gamma. settings: step in (x, y) (0: adaptive), step of y_g, gamma, inner steps, inner
    tolerance, whether y_g begins anew from ``restart`` in every iteration. nothing: an empty penalty.
    work: 2 rows for z, 1 row for y.
    """
    eta, step_y, gamma = settings[0], settings[1], settings[2]
    inner, tolerance, is_restarted = int(settings[3]), settings[4], settings[5] > 0.0
    x, y = z[:n_x], z[n_x:]
    old_z, old_slope, before = work[0, : len(z)], work[1, : len(z)], work[2, : len(y_g)]
    no_amounts = work[0, :0]
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
