"""MEHA and ALT-PBGD written by hand in Numba for single problems: what the compiled loops are held to.

The problems are (77), (19) and (20) of the MEHA paper. Every loop knows its problem's derivatives; steps
and weights are inverted once, and each update is one pass over the entries.
"""

import numba
import numpy as np


def by_hand(function):
    """The flags of the library's own kernels."""
    return numba.njit(error_model="numpy", fastmath=False)(function)


@by_hand
def meha_strongly_convex(n, x, y, theta, alpha, beta, eta, gamma, c, p, done):
    """(77) with A = I, z_0 = e."""
    pull = 1 / gamma
    for k in range(n):
        w = 1 / (c * (done + k + 1.0) ** p)
        for i in range(len(y)):
            theta[i] -= eta * (theta[i] - x[i] + pull * (theta[i] - y[i]))
        for i in range(len(x)):
            x[i] -= alpha * (w * (x[i] - 1.0) - y[i] + theta[i])
        for i in range(len(y)):
            y[i] -= beta * (w * y[i] + y[i] - x[i] - pull * (y[i] - theta[i]))


@by_hand
def meha_nonconvex(n, x, y, theta, alpha, beta, eta, gamma, c, p, done):
    """(19) with a = 2, c = 2."""
    pull = 1 / gamma
    for k in range(n):
        w = 1 / (c * (done + k + 1.0) ** p)
        for i in range(len(y)):
            theta[i] -= eta * (np.cos(x[0] + theta[i] - 2.0) + pull * (theta[i] - y[i]))
        slope = 2 * w * (x[0] - 2.0)
        for i in range(len(y)):
            slope += np.cos(x[0] + y[i] - 2.0) - np.cos(x[0] + theta[i] - 2.0)
        x[0] -= alpha * slope
        for i in range(len(y)):
            slope = 2 * w * (y[i] - 4.0) + np.cos(x[0] + y[i] - 2.0) - pull * (y[i] - theta[i])
            y[i] -= beta * slope


@by_hand
def shrink(value, amount):
    """The prox of amount * |.|."""
    return np.sign(value) * max(abs(value) - amount, 0.0)


@by_hand
def meha_lasso(n, x, y, theta, v, alpha, beta, eta, gamma, c, p, done):
    """(20), 0 <= x <= 1."""
    pull = 1 / gamma
    for k in range(n):
        w = 1 / (c * (done + k + 1.0) ** p)
        for i in range(len(y)):
            slope = theta[i] - v[i] + pull * (theta[i] - y[i])
            theta[i] = shrink(theta[i] - eta * slope, eta * x[i])
        for i in range(len(x)):
            x[i] = min(max(x[i] - alpha * (abs(y[i]) - abs(theta[i])), 0.0), 1.0)
        for i in range(len(y)):
            slope = w + y[i] - v[i] - pull * (y[i] - theta[i])
            y[i] = shrink(y[i] - beta * slope, beta * x[i])


@by_hand
def alt_pbgd_strongly_convex(n, x, y_g, y_gamma, eta, step, gamma, inner):
    """(77) with A = I, z_0 = e."""
    w = 1 / gamma
    for _ in range(n):
        for _ in range(inner):
            for i in range(len(y_g)):
                y_g[i] -= step * (y_g[i] - x[i])
        for _ in range(inner):
            for i in range(len(y_g)):
                y_gamma[i] -= step * (y_gamma[i] - x[i] + w * y_gamma[i])
        for i in range(len(x)):
            x[i] -= eta * (x[i] - 1.0 + gamma * (y_g[i] - y_gamma[i]))


@by_hand
def alt_pbgd_nonconvex(n, x, y_g, y_gamma, eta, step, gamma, inner):
    """(19) with a = 2, c = 2."""
    w = 1 / gamma
    for _ in range(n):
        for _ in range(inner):
            for i in range(len(y_g)):
                y_g[i] -= step * np.cos(x[0] + y_g[i] - 2.0)
        for _ in range(inner):
            for i in range(len(y_g)):
                y_gamma[i] -= step * (np.cos(x[0] + y_gamma[i] - 2.0) + 2 * w * (y_gamma[i] - 4.0))
        slope = 2 * (x[0] - 2.0)
        for i in range(len(y_g)):
            slope += gamma * (np.cos(x[0] + y_gamma[i] - 2.0) - np.cos(x[0] + y_g[i] - 2.0))
        x[0] -= eta * slope


@by_hand
def alt_pbgd_lasso(n, x, y_g, y_gamma, v, eta, step, gamma, inner):
    """(20), 0 <= x <= 1."""
    w = 1 / gamma
    for _ in range(n):
        for _ in range(inner):
            for i in range(len(y_g)):
                y_g[i] = shrink(y_g[i] - step * (y_g[i] - v[i]), step * x[i])
        for _ in range(inner):
            for i in range(len(y_g)):
                y_gamma[i] = shrink(y_gamma[i] - step * (y_gamma[i] - v[i] + w), step * x[i])
        for i in range(len(x)):
            x[i] -= eta * gamma * (abs(y_gamma[i]) - abs(y_g[i]))
            x[i] = min(max(x[i], 0.0), 1.0)
