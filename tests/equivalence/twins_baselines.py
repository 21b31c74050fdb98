"""BAMM, BRC, ALRIGHT, IGJO and VF-iDCA in NumPy, as their papers print them."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq


def bamm(t, n, alpha, beta, eta, mu, p=0.0, tau=0.0):
    """All three directions at the same point."""
    x, y = t.start
    v, path = np.zeros(y.size), []
    for k in range(n):
        share, fall = mu * (k + 1.0) ** -p, (k + 1.0) ** (-tau / 2)
        d_y = share * t.f_y(x, y) + (1 - share) * t.g_y(x, y)
        hessian = share * t.f_yy(x, y) + (1 - share) * t.g_yy(x, y)
        cross = share * t.f_xy(x, y) + (1 - share) * t.g_xy(x, y)
        d_v = t.f_y(x, y) - hessian @ v
        d_x = t.f_x(x, y) - cross @ v
        x, y, v = (
            t.in_x(x - alpha * fall**3 * d_x),
            y - beta * fall * d_y,
            v + eta * fall * d_v,
        )
        path.append((x, y))
    return tuple(map(np.array, zip(*path, strict=True)))


def brc(t, n, alpha, beta, inner, floor=0.0):
    """Gradient steps in y, then x with outer products for Hessians."""
    x, y = t.start
    path = []
    for _ in range(n):
        for _ in range(inner):
            y = t.in_y(y - beta * t.g_y(x, y))
        g_y, f_y = t.g_y(x, y), t.f_y(x, y)
        # The pseudo-inverse of g_y g_y', times f_y, is g_y <g_y, f_y> / |g_y|^4.
        multiplier = g_y * (g_y @ f_y) / (g_y @ g_y * (g_y @ g_y + floor))
        slope = t.f_x(x, y) - np.outer(t.g_x(x, y), g_y) @ multiplier
        x = t.in_x(x - alpha * slope)
        path.append((x, y))
    return tuple(map(np.array, zip(*path, strict=True)))


def alright(t, n, step, power, probability, seed=0):
    """A coin for each iteration."""
    (x, y), random, path = t.start, np.random.default_rng(seed), []
    for k in range(n):
        length = step * (k + 1.0) ** -power
        pair = (t.f_x, t.f_y) if random.random() < probability else (t.g_x, t.g_y)
        x, y = (
            t.in_x(x - length * pair[0](x, y)),
            t.in_y(y - length * pair[1](x, y)),
        )
        path.append((x, y))
    return tuple(map(np.array, zip(*path, strict=True)))


def igjo_lasso(target, wish, x, n, step, shrinkage, decrease):
    """Weights x of |y_i| in g = |y - target|^2 / 2 + x'|y|; f = |y - wish|^2 / 2: y by shrinking."""

    def answer(x):
        return np.sign(target) * np.maximum(np.abs(target) - x, 0)

    def f(x):
        return 0.5 * np.sum((answer(x) - wish) ** 2)

    path = []
    for _ in range(n):
        y = answer(x)
        slope = np.where(y != 0, -np.sign(y) * (y - wish), 0.0)  # dy_i / dx_i = -sign(y_i)
        while True:
            trial = np.maximum(x - step * slope, 0)
            if f(trial) <= f(x) - decrease * np.sum((trial - x) ** 2) / step:
                break
            step *= shrinkage
        x = trial
        path.append(x)
        step /= shrinkage
    return np.array(path)


def vf_idca(f, g, value, z, n, weight, growth, rho, patience=1.0):
    """Rows (x, weight) of VF-iDCA for quadratics f and g in z = (x, y), one variable each.

    A quadratic is (matrix, vector, constant); ``value`` gives v(x) and its slope. The convex program of
    an iteration has the maximum of 0 and a quadratic; its multiplier is in [0, weight], and for a given
    one it is a linear system, so that it is solved to rounding.
    """
    path = []
    for _ in range(n):
        path.append((z[0], weight))
        v, slope = value(z[0])

        def excess(z, at=z[0], v=v, slope=slope):
            return 0.5 * z @ g[0] @ z + g[1] @ z + g[2] - v - slope * (z[0] - at)

        def answer(share, z=z, slope=slope):
            matrix = f[0] + rho * np.eye(2) + share * g[0]
            return np.linalg.solve(matrix, rho * z - f[1] - share * (g[1] - np.array([slope, 0.0])))

        if excess(answer(0.0)) <= 0:
            ahead = answer(0.0)
        elif excess(answer(weight)) >= 0:
            ahead = answer(weight)
        else:
            ahead = answer(brentq(lambda s: excess(answer(s)), 0.0, weight, xtol=1e-15, rtol=1e-15))  # noqa: B023
        moved = np.linalg.norm(ahead - z) / np.sqrt(1 + ahead @ ahead)
        if moved * max(weight, 1 / max(excess(ahead), 1e-300)) <= patience:
            weight += growth
        z = ahead
    return np.array(path)
