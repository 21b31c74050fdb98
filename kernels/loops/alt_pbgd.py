"""ALT-PBGD: both lower problems by proximal gradient steps, then one projected step in x."""

from __future__ import annotations

from ..jit import compiled
from ..linalg import advance, move_size
from ..moves import descend_in_place, evaluate, move, set_weight
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
    y_g,
    y_gamma,
    amounts,
    pace,
    work,
):
    """Do n iterations of Algorithm 2; returns the largest entry of the last projected slope in x.

    lower, penalised, upper: the slopes of (18), (20) and (21) with the weights 1/gamma and gamma, on one
    workspace, of which x, y_g and y_gamma are parts. weights: those of the nonsmooth part at
    x, which are found in amounts.
    settings: step in x (0: adaptive), step in y, gamma, inner steps, inner tolerance.
    work: 2 rows for x, 1 row for y.
    """
    eta, step_y, gamma = settings[0], settings[1], settings[2]
    inner, tolerance = int(settings[3]), settings[4]
    n_x, n_y = len(x), len(y_g)
    old_x, old_slope, before = work[0, :n_x], work[1, :n_x], work[2, :n_y]
    set_weight(upper, 0, 1.0 / gamma)
    set_weight(upper, 1, gamma)
    residual = 0.0
    for k in range(n):
        if len(amounts) > 0:
            evaluate(weights)
        # (18): y_g minimises g
        descend_in_place(lower, y_g, step_y, penalty, amounts, y_set, inner, tolerance, before)
        # (20): y_gamma minimises f / gamma + g
        descend_in_place(
            penalised, y_gamma, step_y, penalty, amounts, y_set, inner, tolerance, before
        )
        # (21): slope = f_x(x, y_gamma) + gamma (g_x(x, y_gamma) - g_x(x, y_g))
        slope = evaluate(upper)
        # x = Proj_X(x - eta slope)
        if eta > 0.0 and k < n - 1:
            move(x, eta, slope)
            project(x_set, x)
        else:
            step = advance(eta, pace, slope, x, old_x, old_slope)
            project(x_set, x)
            residual = move_size(x, old_x, step)
    return residual
