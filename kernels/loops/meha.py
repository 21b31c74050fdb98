"""MEHA: single-loop steps on the Moreau-envelope penalty, with prox for the nonsmooth part."""

from __future__ import annotations

from ..jit import compiled
from ..linalg import copy
from ..moves import descend, distance, evaluate, needs_evaluation, set_weight


@compiled
def meha(n, to_theta, to_x, to_y, weights, x_set, y_set, penalty, settings, x, y, amounts, state, work):
    """Do n iterations of Algorithm 1; returns c_k times the last step in (x, y), a stationarity measure.

    to_theta, to_x, to_y: the slopes of (9), (10) and (12) with the weights 1/c_k and 1/gamma, on one
    workspace, of which x and y are parts. weights: those of the nonsmooth part at x, which are found
    in amounts.
    settings: alpha, beta, eta, gamma, c, p. state: iterations done. work: 1 row for x, 1 row for y.
    """
    alpha, beta, eta, gamma = settings[0], settings[1], settings[2], settings[3]
    c, p = settings[4], settings[5]
    old_x, old_y = work[0, : len(x)], work[1, : len(y)]
    no_amounts = work[0, :0]
    has_prox = len(amounts) > 0
    set_weight(to_x, 1, 1.0 / gamma)
    if has_prox:
        evaluate(weights)
    has_formula = has_prox and needs_evaluation(weights)
    c_k, residual = c, 0.0
    for k in range(n):
        c_k = c * (state[0] + 1.0) ** p if p != 0.0 else c
        state[0] += 1.0
        set_weight(to_x, 0, 1.0 / c_k)
        is_last = k == n - 1
        # (9): theta = Prox_(eta g)(theta - eta (f_y(x, theta) + (theta - y) / gamma))
        descend(to_theta, eta, penalty, amounts, y_set, 1, 0.0, old_y)
        if is_last:
            copy(x, old_x)
            copy(y, old_y)
        # (10), (11): x = Proj_X(x - alpha d_x)
        descend(to_x, alpha, penalty, no_amounts, x_set, 1, 0.0, old_x)
        # (12), (13): y = Prox_(beta g)(y - beta d_y), with the new x
        if has_formula:
            evaluate(weights)
        descend(to_y, beta, penalty, amounts, y_set, 1, 0.0, old_y)
        if is_last:
            residual = c_k * max(distance(x, old_x) / alpha, distance(y, old_y) / beta)
    return residual
