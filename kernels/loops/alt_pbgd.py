"""ALT-PBGD: both lower problems by proximal gradient steps, then one projected step in x."""

from __future__ import annotations

from ..jit import compiled
from ..linalg import advance, move_size
from ..moves import descend, evaluate, set_weight
from ..projection import project


@compiled
def alt_pbgd(
    n,
    lower,
    penalised,
    upper,
    weights,
    x_set,
    y_set,
    penalty,
    settings,
    x,
    n_y,
    amounts,
    pace,
    work,
):
    """Do n iterations of Algorithm 2; returns the largest entry of the last projected slope in x.

    lower, penalised, upper: the slopes of (18), (20) and (21) with the weights 1/gamma and gamma, on one
    workspace, of which x is a part. weights: those of the nonsmooth part at x, which are found in
    amounts.
    settings: step in x (0: adaptive), step in y, gamma, inner steps, inner tolerance.
    work: 2 rows for x, 1 row for y.
    """
    eta, step_y, gamma = settings[0], settings[1], settings[2]
    inner, tolerance = int(settings[3]), settings[4]
    n_x = len(x)
    old_x, old_slope, before = work[0, :n_x], work[1, :n_x], work[2, :n_y]
    no_amounts = work[0, :0]
    set_weight(upper, 0, 1.0 / gamma)
    set_weight(upper, 1, gamma)
    residual = 0.0
    for k in range(n):
        if len(amounts) > 0:
            evaluate(weights)
        # (18): y_g minimises g
        descend(lower, step_y, penalty, amounts, y_set, inner, tolerance, before)
        # (20): y_gamma minimises f / gamma + g
        descend(penalised, step_y, penalty, amounts, y_set, inner, tolerance, before)
        # (21): x = Proj_X(x - eta slope)
        # with slope = f_x(x, y_gamma) + gamma (g_x(x, y_gamma) - g_x(x, y_g))
        if eta > 0.0 and k < n - 1:
            descend(upper, eta, penalty, no_amounts, x_set, 1, 0.0, before)
        else:
            step = advance(eta, pace, evaluate(upper), x, old_x, old_slope)
            project(x_set, x)
            residual = move_size(x, old_x, step)
    return residual
