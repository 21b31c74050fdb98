"""ALT-PBGD: both lower problems by proximal gradient steps, then one projected step in x."""

from __future__ import annotations

from ..fields import INNER_STEPS, INNER_TOLERANCE, MORE_SETTINGS, PENALTY, STEP_X, STEP_Y
from ..jit import compiled
from ..linalg import advance, move_size
from ..moves import descend, evaluate, set_weight
from ..projection import project

# Settings behind those of all loops with a penalty weight; STEP_Y is that of y_g
(
    STEP_Y_PENALISED,  # of y_gamma
    N_SETTINGS,
) = range(MORE_SETTINGS, MORE_SETTINGS + 2)

# Rows of scratch space
(
    OLD_X,  # x and its slope before the step
    OLD_SLOPE,
    BEFORE,  # in y: where an inner step began
    N_ROWS,
) = range(4)


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
    """
    eta, step_y, gamma = settings[STEP_X], settings[STEP_Y], settings[PENALTY]
    step_y_gamma = settings[STEP_Y_PENALISED]
    inner, tolerance = int(settings[INNER_STEPS]), settings[INNER_TOLERANCE]
    n_x = len(x)
    old_x, old_slope, before = work[OLD_X, :n_x], work[OLD_SLOPE, :n_x], work[BEFORE, :n_y]
    no_amounts = old_x[:0]
    # The three slopes share one workspace, and with it their weights: set once, they count for all.
    set_weight(upper, 0, 1.0 / gamma)
    set_weight(upper, 1, gamma)
    residual = 0.0
    for k in range(n):
        if len(amounts) > 0:
            evaluate(weights)
        # (18): y_g minimises g
        descend(lower, step_y, penalty, amounts, y_set, inner, tolerance, before)
        # (20): y_gamma minimises f / gamma + g
        descend(penalised, step_y_gamma, penalty, amounts, y_set, inner, tolerance, before)
        # (21): x = Proj_X(x - eta slope)
        # with slope = f_x(x, y_gamma) + gamma (g_x(x, y_gamma) - g_x(x, y_g))
        if eta > 0.0 and k < n - 1:
            descend(upper, eta, penalty, no_amounts, x_set, 1, 0.0, before)
        else:
            step = advance(eta, pace, evaluate(upper), x, old_x, old_slope)
            project(x_set, x)
            residual = move_size(x, old_x, step)
    return residual
