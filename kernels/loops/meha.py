"""MEHA: single-loop steps on the Moreau-envelope penalty, with prox for the nonsmooth part."""

from __future__ import annotations

from ..jit import compiled
from ..linalg import copy
from ..moves import descend, distance, evaluate, needs_evaluation, set_weight

# Settings
(
    STEP_X,
    STEP_Y,
    STEP_THETA,
    PROXIMAL,  # gamma
    PENALTY,  # c
    PENALTY_POWER,  # p
    N_SETTINGS,
) = range(7)

# State
(
    DONE,  # iterations so far
    N_STATE,
) = range(2)

# Rows of scratch space
(
    OLD_X,
    OLD_Y,
    N_ROWS,
) = range(3)


@compiled
def meha(n, to_theta, to_x, to_y, weights, x_set, y_set, penalty, settings, x, y, amounts, state, work):
    """Do n iterations of Algorithm 1; returns c_k times the last step in (x, y), a stationarity measure.

    to_theta, to_x, to_y: the slopes of (9), (10) and (12) with the weights 1/c_k and 1/gamma, on one
    workspace, of which x and y are parts. weights: those of the nonsmooth part at x, which are found
    in amounts.
    """
    alpha, beta, eta = settings[STEP_X], settings[STEP_Y], settings[STEP_THETA]
    gamma, c, p = settings[PROXIMAL], settings[PENALTY], settings[PENALTY_POWER]
    old_x, old_y = work[OLD_X, : len(x)], work[OLD_Y, : len(y)]
    no_amounts = old_x[:0]
    has_prox = len(amounts) > 0
    # The slopes share one workspace, and with it their weights: what is set for to_x, here and below,
    # counts for to_theta and to_y as well.
    set_weight(to_x, 1, 1.0 / gamma)
    if has_prox:
        evaluate(weights)
    has_formula = has_prox and needs_evaluation(weights)
    c_k, residual = c, 0.0
    for k in range(n):
        c_k = c * (state[DONE] + 1.0) ** p if p != 0.0 else c
        state[DONE] += 1.0
        set_weight(to_x, 0, 1.0 / c_k)
        is_last = k == n - 1
        # (9): theta = Prox_(eta h)(theta - eta (g_y(x, theta) + (theta - y) / gamma)), where h is the
        # nonsmooth part of the lower objective and g the smooth one
        descend(to_theta, eta, penalty, amounts, y_set, 1, 0.0, old_y)
        if is_last:
            copy(x, old_x)
            copy(y, old_y)
        # (10), (11): x = Proj_X(x - alpha d_x)
        descend(to_x, alpha, penalty, no_amounts, x_set, 1, 0.0, old_x)
        # (12), (13): y = Prox_(beta h)(y - beta d_y), with the new x
        if has_formula:
            evaluate(weights)
        descend(to_y, beta, penalty, amounts, y_set, 1, 0.0, old_y)
        if is_last:
            residual = c_k * max(distance(x, old_x) / alpha, distance(y, old_y) / beta)
    return residual
