"""The compiled loop of a method from outside the library."""

from blomodel.kernels.jit import compiled
from blomodel.kernels.linalg import copy
from blomodel.kernels.moves import descend, distance

STEP_X, STEP_Y, N_SETTINGS = range(3)
OLD_X, OLD_Y, N_ROWS = range(3)


@compiled
def taking_turns(n, to_x, to_y, x_set, y_set, penalty, settings, x, y, amounts, work):
    """Do n rounds: a step in y along g_y, then one in x along f_x; returns the last move."""
    old_x, old_y = work[OLD_X, : len(x)], work[OLD_Y, : len(y)]
    residual = 0.0
    for k in range(n):
        if k == n - 1:
            copy(x, old_x)
            copy(y, old_y)
        descend(to_y, settings[STEP_Y], penalty, amounts, y_set, 1, 0.0, old_y)
        descend(to_x, settings[STEP_X], penalty, amounts, x_set, 1, 0.0, old_x)
        if k == n - 1:
            residual = max(distance(x, old_x), distance(y, old_y))
    return residual
