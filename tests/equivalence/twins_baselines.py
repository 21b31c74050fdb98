"""BAMM, BRC, ALRIGHT, IGJO and VF-iDCA in NumPy, as their papers print them."""

from __future__ import annotations

import cvxpy as cp
import numpy as np


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


def brc(t, n, alpha, beta, inner):
    """Gradient steps in y, then x with outer products for Hessians."""
    x, y = t.start
    path = []
    for _ in range(n):
        for _ in range(inner):
            y = t.in_y(y - beta * t.g_y(x, y))
        g_y, f_y = t.g_y(x, y), t.f_y(x, y)
        hessian, cross = np.outer(g_y, g_y), np.outer(t.g_x(x, y), g_y)
        slope = t.f_x(x, y) - cross @ np.linalg.pinv(hessian, rcond=1e-12) @ f_y
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


def vf_idca_step(x, y, value, slope, weight, rho, f, g):
    """One convex program of VF-iDCA with the maximum written out; f and g take expressions."""
    u, w = cp.Variable(x.size), cp.Variable(y.size)
    linear = g(u, w) - value - slope @ (u - x)
    near = cp.sum_squares(u - x) + cp.sum_squares(w - y)
    program = cp.Problem(cp.Minimize(f(u, w) + rho / 2 * near + weight * cp.maximum(0, linear)))
    program.solve(solver=cp.CLARABEL)
    return u.value, w.value
