"""The printed algorithms on penalties, as plain as they can be written: papers 000 and 004, and F2SA."""

from __future__ import annotations

import numpy as np
from twin_problems import Array, Twin

Path = tuple[Array, Array]


def stacked(points: list[tuple[Array, Array]]) -> Path:
    """The x of all iterations, and the y."""
    return np.array([x for x, _ in points]), np.array([y for _, y in points])


def pbgd_jacobi(t: Twin, n: int, alpha: float, beta: float, gamma: float, inner: int) -> Path:
    """Xiao and Chen, Algorithm 1: (7a) from w^{k,0} = 0, then (7b) and (7c) at once."""
    u, v = t.start
    points = []
    for _ in range(n):
        w = np.zeros_like(v)
        for _ in range(inner):
            w = w - beta * t.g_y(u, w)  # (7a)
        d_u = t.f_x(u, v) + gamma * (t.g_x(u, v) - t.g_x(u, w))
        d_v = t.f_y(u, v) + gamma * t.g_y(u, v)
        u, v = u - alpha * d_u, v - alpha * d_v  # (7b), (7c)
        points.append((u, v))
    return stacked(points)


def pbgd_gauss_seidel(
    t: Twin, n: int, alpha: float, beta: float, beta_v: float, gamma: float, inner: int
) -> Path:
    """Xiao and Chen, Algorithm 2: (7a) from 0, (7d) from v^{k,0} = v^0, then (7e)."""
    u, first = t.start
    points = []
    for _ in range(n):
        w, v = np.zeros_like(first), first
        for _ in range(inner):
            w = w - beta * t.g_y(u, w)  # (7a)
            v = v - beta_v * (t.f_y(u, v) + gamma * t.g_y(u, v))  # (7d)
        u = u - alpha * (t.f_x(u, v) + gamma * (t.g_x(u, v) - t.g_x(u, w)))  # (7e)
        points.append((u, v))
    return stacked(points)


def jnt_pbgd(t: Twin, n: int, eta: float, step: float, gamma: float, inner: int) -> Path:
    """Jiang et al. (2025), Algorithm 1: (18) by gradient steps from the last y_g, then (19)."""
    x, y = t.start
    y_g = y
    points = []
    for _ in range(n):
        for _ in range(inner):
            y_g = t.in_y(y_g - step * t.g_y(x, y_g))  # (18)
        d_x = t.f_x(x, y) + gamma * (t.g_x(x, y) - t.g_x(x, y_g))
        d_y = t.f_y(x, y) + gamma * t.g_y(x, y)
        x, y = t.in_x(x - eta * d_x), t.in_y(y - eta * d_y)  # (19)
        points.append((x, y))
    return stacked(points)


def alt_pbgd(
    t: Twin,
    n: int,
    eta: float,
    step: float,
    gamma: float,
    inner: int,
) -> Path:
    """Jiang et al. (2025), Algorithm 2: (18) and (20) from their last ends, then (21).

    One inner step is the single-loop version of Theorem 3, ten are the F2SA of that paper.
    """
    x, y_g = t.start
    y = y_g
    points = []
    for _ in range(n):
        for _ in range(inner):
            y_g = t.in_y(y_g - step * t.g_y(x, y_g))  # (18)
            y = t.in_y(y - step * (t.f_y(x, y) / gamma + t.g_y(x, y)))  # (20)
        slope = t.f_x(x, y) + gamma * (t.g_x(x, y) - t.g_x(x, y_g))  # (21)
        x = t.in_x(x - eta * slope)
        points.append((x, y))
    return stacked(points)


def f2sa(t: Twin, n: int, gamma: float, weight: float, inner: int) -> Path:
    """Kwon, Kwon, Wright and Nowak (2023), Algorithm 1 without noise.

    z and y by their own steps gamma and alpha_k = gamma / (2 lambda_k), x by alpha_k (xi = 1), with
    lambda_k = lambda_0 (k + 1)^(1/3).
    """
    x, y = t.start
    z = y
    points = []
    for k in range(n):
        multiplier = weight * (k + 1) ** (1 / 3)
        alpha = gamma / (2 * multiplier)
        for _ in range(inner):
            z = z - gamma * t.g_y(x, z)
            y = y - alpha * (t.f_y(x, y) + multiplier * t.g_y(x, y))
        x = x - alpha * (t.f_x(x, y) + multiplier * (t.g_x(x, y) - t.g_x(x, z)))
        points.append((x, y))
    return stacked(points)


def pbgd_free(
    t: Twin, n: int, eta: float, step: float, gamma: float, inner: int, sees_old: bool = False
) -> Path:
    """Jiang et al. (2025), Algorithm 3, with inner steps on (20) or with one (the single-loop version).

    Line 4 of its box prints grad_x f(x_t, y_t); the proof of Theorem 2 has y_{t+1}.
    """
    x, y = t.start
    points = []
    for _ in range(n):
        old = y
        for _ in range(inner):
            y = t.in_y(y - step * (t.f_y(x, y) / gamma + t.g_y(x, y)))  # line 3
        x = t.in_x(x - eta * t.f_x(x, old if sees_old else y))  # line 4
        points.append((x, y))
    return stacked(points)


def bome(t: Twin, n: int, xi: float, step: float, inner: int, eta: float) -> Path:
    """Liu, Ye, Wright, Stone and Liu (2022), Algorithm 1: T steps from y, then the barrier's lambda."""
    x, y = t.start
    points = []
    for _ in range(n):
        end = y
        for _ in range(inner):
            end = end - step * t.g_y(x, end)
        q_x, q_y = t.g_x(x, y) - t.g_x(x, end), t.g_y(x, y)
        f_x, f_y = t.f_x(x, y), t.f_y(x, y)
        square = q_x @ q_x + q_y @ q_y
        weight = max(0.0, (eta * square - f_x @ q_x - f_y @ q_y) / square)
        x, y = x - xi * (f_x + weight * q_x), y - xi * (f_y + weight * q_y)
        points.append((x, y))
    return stacked(points)
