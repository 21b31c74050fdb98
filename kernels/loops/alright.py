"""ALRIGHT: steps of (x, y) on f or on g, by the throw of a coin."""

from __future__ import annotations

from ..calls import call_at
from ..jit import compiled
from ..linalg import axpy, copy, move_size
from ..projection import project

# Settings
(
    STEP_X,  # of x and y together
    STEP_POWER,  # steps fall with (t + 1)^-power
    N_SETTINGS,
) = range(3)

# State
(
    COUNT,  # iterations done
    N_STATE,
) = range(2)

# Rows of scratch space
(
    SLOPE,  # in x
    SLOPE_Y,
    FIRST_X,
    FIRST_Y,
    N_ROWS,
) = range(5)


@compiled
def alright(n, f_grad_x, f_grad_y, g_grad_x, g_grad_y, x_set, y_set, settings, x, y, coins, state, work):
    """Do n iterations; returns the size of their mean step over its length.

    coins: one number of 0 or 1 for each iteration, 1 for a step on f.
    """
    n_x, n_y = len(x), len(y)
    slope, slope_y = work[SLOPE, :n_x], work[SLOPE_Y, :n_y]
    first_x, first_y = work[FIRST_X, :n_x], work[FIRST_Y, :n_y]
    copy(x, first_x)
    copy(y, first_y)
    total = 0.0
    for k in range(n):
        step = settings[STEP_X] * (state[COUNT] + 1.0) ** -settings[STEP_POWER]
        if coins[k] > 0.0:
            call_at(f_grad_x, x, y, slope)
            call_at(f_grad_y, x, y, slope_y)
        else:
            call_at(g_grad_x, x, y, slope)
            call_at(g_grad_y, x, y, slope_y)
        axpy(-step, slope, x)
        axpy(-step, slope_y, y)
        project(x_set, x)
        project(y_set, y)
        total += step
        state[COUNT] += 1.0
    return max(move_size(x, first_x, total), move_size(y, first_y, total))
