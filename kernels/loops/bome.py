"""BOME: a dynamic barrier keeps the value-function gap falling along the descent on f."""

from __future__ import annotations

from ..calls import call_at
from ..fields import LAST_WEIGHT, MEAN_DIRECTION, MEAN_MEASURE, N_CURVATURE
from ..jit import compiled
from ..linalg import axpy, copy, dot, lower_curvature, move_size
from ..projection import project
from ..tangent import barrier_weight, tangent

# Settings
(
    STEP_X,  # xi, of (x, y)
    STEP_Y,  # of the inner steps; 0: automatic
    INNER_STEPS,  # T
    BARRIER,  # eta
    KEEPS_INNER,  # 1: the inner steps go on from their last end, 0: they begin at y
    IS_FREE,  # 1: x is
    N_SETTINGS,
) = range(7)

# State: curvature first
(
    DONE,  # iterations so far
    INNER_STEP,  # the last one
    N_STATE,
) = range(N_CURVATURE, N_CURVATURE + 3)

# Rows of scratch space
(
    FIRST_X,
    F_X,
    Q_X,
    OTHER_X,
    FIRST_Y,
    F_Y,
    Q_Y,
    PROBE,  # in y: vector of the power steps
    OTHER_Y,
    OUTSIDE,  # x before its projection; at the beginning x
    ALONG,  # the part of Q_X that moves x
    AHEAD,  # in x
    BEHIND,
    N_ROWS,
) = range(14)


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

    inner: the end of the inner steps. figures: the measure is |grad q|^2.
    """
    step, beta = settings[STEP_X], settings[STEP_Y]
    steps, eta = int(settings[INNER_STEPS]), settings[BARRIER]
    keeps_inner, is_free = settings[KEEPS_INNER] > 0.0, settings[IS_FREE] > 0.0
    n_x, n_y = len(x), len(y)
    first_x, f_x = work[FIRST_X, :n_x], work[F_X, :n_x]
    q_x, other_x = work[Q_X, :n_x], work[OTHER_X, :n_x]
    first_y, f_y, q_y = work[FIRST_Y, :n_y], work[F_Y, :n_y], work[Q_Y, :n_y]
    probe, other_y = work[PROBE, :n_y], work[OTHER_Y, :n_y]
    outside, along = work[OUTSIDE, :n_x], work[ALONG, :n_x]
    ahead, behind = work[AHEAD, :n_x], work[BEHIND, :n_x]
    copy(x, first_x)
    copy(y, first_y)
    figures[MEAN_MEASURE], figures[MEAN_DIRECTION] = 0.0, 0.0
    if beta > 0.0:
        state[INNER_STEP] = beta
    for _ in range(n):
        if beta == 0.0 and state[DONE] % 10.0 == 0.0:
            state[INNER_STEP] = 1 / lower_curvature(g_hessian, x, y, state, probe, other_y, 2)
        state[DONE] += 1.0
        inner_step = state[INNER_STEP]
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
        figures[MEAN_MEASURE] += square / n
        figures[LAST_WEIGHT] = weight
        axpy(weight, q_x, f_x)
        axpy(weight, q_y, f_y)
        figures[MEAN_DIRECTION] += (dot(f_x, f_x) + dot(f_y, f_y)) / n
        axpy(-step, f_x, x)
        axpy(-step, f_y, y)
        copy(x, outside)
        project(x_set, x)
        project(y_set, y)
    return max(move_size(x, first_x, n * step), move_size(y, first_y, n * step))
