"""ALT-PBGD: both lower problems by gradient steps, then one projected step in x."""

from __future__ import annotations

import numpy as np

from ..calls import call_at
from ..jit import compiled
from ..projection import project


@compiled
def alt_pbgd(n, f_grad_x, f_grad_y, g_grad_x, g_grad_y, x_set, y_set, settings, x, y_g, y_gamma, work):
    """Do n iterations of Algorithm 2; returns the size of the last projected gradient step in x.

    settings: step in x, step in y, gamma, inner iterations. work: 2 rows in x, 2 rows in y.
    """
    eta, step_y, gamma, inner = settings[0], settings[1], settings[2], int(settings[3])
    n_x, n_y = len(x), len(y_g)
    slope, other = work[0, :n_x], work[1, :n_x]
    first, second = work[2, :n_y], work[3, :n_y]
    residual = np.inf
    for _ in range(n):
        for _ in range(inner):  # (18): y_g minimises g
            call_at(g_grad_y, x, y_g, first)
            for i in range(n_y):
                y_g[i] -= step_y * first[i]
            project(y_set, y_g)
        for _ in range(inner):  # (20): y_gamma minimises f / gamma + g
            call_at(g_grad_y, x, y_gamma, first)
            call_at(f_grad_y, x, y_gamma, second)
            for i in range(n_y):
                y_gamma[i] -= step_y * (first[i] + second[i] / gamma)
            project(y_set, y_gamma)
        call_at(f_grad_x, x, y_gamma, slope)  # (21)
        call_at(g_grad_x, x, y_gamma, other)
        for i in range(n_x):
            slope[i] += gamma * other[i]
        call_at(g_grad_x, x, y_g, other)
        residual = 0.0
        for i in range(n_x):
            slope[i] -= gamma * other[i]
            other[i] = x[i]
            x[i] -= eta * slope[i]
        project(x_set, x)
        for i in range(n_x):
            residual = max(residual, abs(x[i] - other[i]) / eta)
    return residual
