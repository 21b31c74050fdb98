"""Perturbed gradient descent: steps along -grad f, turned so that |grad_y g|^2 falls."""

from __future__ import annotations

import numpy as np

from ..calls import call_along, call_at
from ..fields import LAST_WEIGHT, MEAN_DIRECTION, MEAN_MEASURE
from ..jit import compiled
from ..linalg import axpy, copy, dot, move_size
from ..projection import project
from ..tangent import barrier_weight, tangent

SQUARE, ROOT, OWN = 1.0, 2.0, 3.0  # the choices of rho: |grad h|^2, |grad h| sqrt(h0), a given number

# Settings
(
    STEP_X,  # gamma, of (x, y)
    RATE,  # alpha
    RATE_RULE,  # choice of rho
    FIRST_H,  # h0 = h(x0, y0); with OWN in its place rho itself
    IS_FREE,  # 1: x is
    N_SETTINGS,
) = range(6)

# Rows of scratch space
(
    FIRST_X,
    F_X,
    H_X,
    FIRST_Y,
    F_Y,
    H_Y,
    G_Y,
    OUTSIDE,  # x before its projection; at the beginning x
    ALONG,  # the part of H_X that moves x
    AHEAD,  # in x
    BEHIND,
    N_ROWS,
) = range(12)


@compiled
def perturbed_gd(
    n, f_grad_x, f_grad_y, g_grad_y, g_hessian, g_cross, x_set, settings, x, y, figures, work
):
    """Do n iterations of Algorithm 1; returns the largest entry of their mean direction.

    figures: the measure is h.
    """
    gamma, alpha, choice = settings[STEP_X], settings[RATE], settings[RATE_RULE]
    first_h, is_free = settings[FIRST_H], settings[IS_FREE] > 0.0
    n_x, n_y = len(x), len(y)
    first_x, f_x, h_x = work[FIRST_X, :n_x], work[F_X, :n_x], work[H_X, :n_x]
    first_y, f_y = work[FIRST_Y, :n_y], work[F_Y, :n_y]
    h_y, g_y = work[H_Y, :n_y], work[G_Y, :n_y]
    outside, along = work[OUTSIDE, :n_x], work[ALONG, :n_x]
    ahead, behind = work[AHEAD, :n_x], work[BEHIND, :n_x]
    rate = alpha if choice == SQUARE else -alpha * np.sqrt(first_h)
    copy(x, first_x)
    copy(y, first_y)
    figures[MEAN_MEASURE], figures[MEAN_DIRECTION] = 0.0, 0.0
    for _ in range(n):
        call_at(f_grad_x, x, y, f_x)
        call_at(f_grad_y, x, y, f_y)
        call_at(g_grad_y, x, y, g_y)
        # Remark 3.1: grad h = 2 [g_xy, g_yy] grad_y g
        call_along(g_cross, x, y, g_y, h_x)
        call_along(g_hessian, x, y, g_y, h_y)
        for i in range(n_x):
            h_x[i] *= 2.0
        for i in range(n_y):
            h_y[i] *= 2.0
        tangent(x_set, is_free, outside, h_x, along, ahead, behind)
        if choice == OWN:  # the rate that barrier_weight multiplies by |grad h|^2
            rate = alpha * first_h / max(dot(h_y, h_y) + dot(h_x, along), 1e-300)
        weight, _ = barrier_weight(f_x, f_y, h_x, h_y, along, rate)  # (8b)
        figures[MEAN_MEASURE] += dot(g_y, g_y) / n
        figures[LAST_WEIGHT] = weight
        axpy(weight, h_x, f_x)  # (8a), with the sign turned
        axpy(weight, h_y, f_y)
        figures[MEAN_DIRECTION] += (dot(f_x, f_x) + dot(f_y, f_y)) / n
        axpy(-gamma, f_x, x)
        axpy(-gamma, f_y, y)
        copy(x, outside)
        project(x_set, x)
    return max(move_size(x, first_x, n * gamma), move_size(y, first_y, n * gamma))
