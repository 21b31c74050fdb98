"""BOME: a dynamic barrier keeps the value-function gap falling along the descent on f."""

from __future__ import annotations

from ..calls import call_at
from ..jit import compiled
from ..linalg import axpy, copy, dot, lower_curvature, move_size
from ..projection import project
from ..tangent import barrier_weight, tangent


@compiled
def bome(
    n,
    f_grad_x,
    f_grad_y,
    g_grad_x,
    g_grad_y,
    g_hessian,
    x_set,
    y_set,
    settings,
    x,
    y,
    inner,
    state,
    figures,
    work,
):
    """Do n iterations; returns the largest entry of their mean direction.

    settings: step xi, step of the inner gradient steps (0: automatic), their number T, eta,
    whether these go on from their last end, ``inner``; whether x is free.
    state: memory of the curvature (2). figures: mean of |grad q|^2, mean of |direction|^2, last lambda.
    work: rows first x, grad_x f, grad_x q, other; then first y, grad_y f, grad_y q, probe, other;
    then where x was before its projection, the part of grad_x q that moves x, and two more for x.
    """
    step, beta, steps, eta = settings[0], settings[1], int(settings[2]), settings[3]
    keeps_inner, is_free = settings[4] > 0.0, settings[5] > 0.0
    n_x, n_y = len(x), len(y)
    first_x, f_x, q_x, other_x = work[0, :n_x], work[1, :n_x], work[2, :n_x], work[3, :n_x]
    first_y, f_y, q_y = work[4, :n_y], work[5, :n_y], work[6, :n_y]
    probe, other_y = work[7, :n_y], work[8, :n_y]
    outside, along, ahead, behind = work[9, :n_x], work[10, :n_x], work[11, :n_x], work[12, :n_x]
    copy(x, outside)
    copy(x, first_x)
    copy(y, first_y)
    figures[0], figures[1] = 0.0, 0.0
    inner_step = beta
    for k in range(n):
        if beta == 0.0 and k % 10 == 0:
            inner_step = 1 / lower_curvature(g_hessian, x, y, state, probe, other_y, 2)
        # T gradient steps on g(x, .), from y unless told to go on from their last end
        if not keeps_inner:
            copy(y, inner)
        for _ in range(steps):
            call_at(g_grad_y, x, inner, other_y)
            axpy(-inner_step, other_y, inner)
            project(y_set, inner)
        # grad q = grad g(x, y) - (grad_x g(x, inner), 0), the inner point held fixed
        call_at(g_grad_x, x, y, q_x)
        call_at(g_grad_x, x, inner, other_x)
        axpy(-1.0, other_x, q_x)
        call_at(g_grad_y, x, y, q_y)
        call_at(f_grad_x, x, y, f_x)
        call_at(f_grad_y, x, y, f_y)
        tangent(x_set, is_free, outside, q_x, along, ahead, behind)
        weight, square = barrier_weight(f_x, f_y, q_x, q_y, along, eta)  # phi = eta |grad q|^2
        figures[0] += square / n
        figures[2] = weight
        axpy(weight, q_x, f_x)
        axpy(weight, q_y, f_y)
        figures[1] += (dot(f_x, f_x) + dot(f_y, f_y)) / n
        axpy(-step, f_x, x)
        axpy(-step, f_y, y)
        copy(x, outside)
        project(x_set, x)
        project(y_set, y)
    return max(move_size(x, first_x, n * step), move_size(y, first_y, n * step))
