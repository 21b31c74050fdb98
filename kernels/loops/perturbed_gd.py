"""Perturbed gradient descent: steps along -grad f, turned so that |grad_y g|^2 falls."""

from __future__ import annotations

import numpy as np

from ..calls import call_along, call_at
from ..jit import compiled
from ..linalg import axpy, copy, dot, move_size
from ..projection import project
from ..tangent import barrier_weight, tangent

SQUARE, ROOT = 1.0, 2.0  # the two choices of rho


@compiled
def perturbed_gd(
    n, f_grad_x, f_grad_y, g_grad_y, g_hessian, g_cross, x_set, settings, x, y, figures, work
):
    """Do n iterations of Algorithm 1; returns the largest entry of their mean direction.

    settings: gamma, alpha, choice of rho (1: |grad h|^2, 2: |grad h| sqrt(h0)), h0 = h(x0, y0),
    whether x is free.
    figures: mean over the n iterations of h and of |Delta|^2, the last lambda.
    work: rows first x, grad_x f, grad_x h; then first y, grad_y f, grad_y h, grad_y g; then where x
    was before its projection, the part of grad_x h that moves x, and two more for x.
    """
    gamma, alpha, choice, first_h = settings[0], settings[1], settings[2], settings[3]
    n_x, n_y = len(x), len(y)
    first_x, f_x, h_x = work[0, :n_x], work[1, :n_x], work[2, :n_x]
    first_y, f_y, h_y, g_y = work[3, :n_y], work[4, :n_y], work[5, :n_y], work[6, :n_y]
    outside, along, ahead, behind = work[7, :n_x], work[8, :n_x], work[9, :n_x], work[10, :n_x]
    is_free = settings[4] > 0.0
    rate = alpha if choice == SQUARE else -alpha * np.sqrt(first_h)
    copy(x, outside)
    copy(x, first_x)
    copy(y, first_y)
    figures[0], figures[1] = 0.0, 0.0
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
        weight, _ = barrier_weight(f_x, f_y, h_x, h_y, along, rate)  # (8b)
        figures[0] += dot(g_y, g_y) / n
        figures[2] = weight
        axpy(weight, h_x, f_x)  # (8a), with the sign turned
        axpy(weight, h_y, f_y)
        figures[1] += (dot(f_x, f_x) + dot(f_y, f_y)) / n
        axpy(-gamma, f_x, x)
        axpy(-gamma, f_y, y)
        copy(x, outside)
        project(x_set, x)
    return max(move_size(x, first_x, n * gamma), move_size(y, first_y, n * gamma))
