"""MEHA: single-loop steps on the Moreau-envelope penalty, with prox for the nonsmooth part."""

from __future__ import annotations

from ..jit import compiled
from ..linalg import copy
from ..moves import (
    INPUTS,
    LENGTH,
    OUTPUT,
    START,
    cut_all,
    distance,
    evaluate,
    follow,
    follow_rest,
    is_plain_box,
    is_plain_l1,
    move,
    result_of,
    set_weight,
    shrink_all,
    step_in_pieces,
)
from ..projection import project
from ..prox import prox


@compiled
def meha(
    n, to_theta, to_x, to_y, weights, x_set, y_set, penalty, settings, x, y, theta, amounts, state, work
):
    """Do n iterations of Algorithm 1; returns c_k times the last step in (x, y), a stationarity measure.

    to_theta, to_x, to_y: the slopes of (9), (10) and (12) with the weights 1/c_k and 1/gamma, on one
    workspace, of which x, y and theta are parts. weights: those of the nonsmooth part at x, which
    are found in amounts.
    settings: alpha, beta, eta, gamma, c, p. state: iterations done. work: 1 row for x, 1 row for y.
    """
    alpha, beta, eta, gamma = settings[0], settings[1], settings[2], settings[3]
    c, p = settings[4], settings[5]
    old_x, old_y = work[0, : len(x)], work[1, : len(y)]
    has_prox = len(amounts) > 0
    x_is_free, y_is_free = len(x_set[0]) == 0, len(y_set[0]) == 0
    x_has_box, y_has_box = is_plain_box(x_set, len(x)), is_plain_box(y_set, len(y))
    x_bounds, y_bounds = x_set[1], y_set[1]
    has_l1 = has_prox and is_plain_l1(penalty, len(y))
    set_weight(to_x, 1, 1.0 / gamma)
    if has_prox:
        evaluate(weights)
    # Taken apart here, because taking a tuple apart costs as much as a short instruction.
    code_theta, integers_theta, w, layout_theta = to_theta
    code_x, integers_x, _, layout_x = to_x
    code_y, integers_y, _, layout_y = to_y
    slope_theta, slope_x, slope_y = result_of(to_theta), result_of(to_x), result_of(to_y)
    first_theta, last_theta = layout_theta[START], layout_theta[LENGTH]
    first_x, last_x = layout_x[START], layout_x[LENGTH]
    first_y, last_y = layout_y[START], layout_y[LENGTH]
    moves_theta, theta_at = layout_theta[len(layout_theta) - 3], layout_theta[len(layout_theta) - 2]
    moves_x, x_at = layout_x[len(layout_x) - 3], layout_x[len(layout_x) - 2]
    moves_y, y_at = layout_y[len(layout_y) - 3], layout_y[len(layout_y) - 2]
    at_theta, at_x, at_y = layout_theta[OUTPUT], layout_x[OUTPUT], layout_y[OUTPUT]
    weight = layout_x[INPUTS]  # where the first weight lies
    c_k, residual = c, 0.0
    for k in range(n):
        c_k = c * (state[0] + 1.0) ** p if p != 0.0 else c
        state[0] += 1.0
        w[weight] = 1.0 / c_k
        is_last = k == n - 1
        # (9): theta = Prox_(eta g)(theta - eta (f_y(x, theta) + (theta - y) / gamma))
        if theta_at > 0:
            step_in_pieces(
                code_theta, w, first_theta, last_theta, at_theta, moves_theta, theta_at, len(theta), eta
            )
        else:
            position = follow(code_theta, w, first_theta, last_theta)
            if position < last_theta:
                follow_rest(code_theta, integers_theta, w, position, last_theta)
            move(theta, eta, slope_theta)
        if has_l1:
            shrink_all(theta, amounts, eta)
        elif has_prox:
            prox(penalty, amounts, eta, theta)
        if y_has_box:
            cut_all(theta, y_bounds)
        elif not y_is_free:
            project(y_set, theta)
        if is_last:
            copy(x, old_x)
            copy(y, old_y)
        # (10), (11): x = Proj_X(x - alpha d_x)
        if x_at > 0:
            step_in_pieces(code_x, w, first_x, last_x, at_x, moves_x, x_at, len(x), alpha)
        else:
            position = follow(code_x, w, first_x, last_x)
            if position < last_x:
                follow_rest(code_x, integers_x, w, position, last_x)
            move(x, alpha, slope_x)
        if x_has_box:
            cut_all(x, x_bounds)
        elif not x_is_free:
            project(x_set, x)
        # (12), (13): y = Prox_(beta g)(y - beta d_y), with the new x
        if y_at > 0:
            step_in_pieces(code_y, w, first_y, last_y, at_y, moves_y, y_at, len(y), beta)
        else:
            position = follow(code_y, w, first_y, last_y)
            if position < last_y:
                follow_rest(code_y, integers_y, w, position, last_y)
            move(y, beta, slope_y)
        if has_prox:
            evaluate(weights)
        if has_l1:
            shrink_all(y, amounts, beta)
        elif has_prox:
            prox(penalty, amounts, beta, y)
        if y_has_box:
            cut_all(y, y_bounds)
        elif not y_is_free:
            project(y_set, y)
        if is_last:
            residual = c_k * max(distance(x, old_x) / alpha, distance(y, old_y) / beta)
    return residual
