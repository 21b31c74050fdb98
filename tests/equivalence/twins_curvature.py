"""The printed algorithms with second derivatives: papers 001 and 002, AID, RHG, IAPTT and BDA."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from twin_problems import Array, Twin
from twins_penalty import Path, stacked


def galet(
    t: Twin,
    n: int,
    alpha: float,
    beta: float,
    rho: float,
    inner: int,
    shadow: int,
    is_shortcut: bool = False,
) -> tuple[Path, Array]:
    """Xiao, Lu and Chen, Algorithm 1; with the shortcut (15) in the place of (12b).

    Also returns the measures R_x and R_w of (8) at (x^k, y^{k+1}, w^{k+1}).
    """
    x, y = t.start
    points, measures = [], []
    for _ in range(n):
        for _ in range(inner):
            y = y - beta * t.g_y(x, y)  # (10)
        w = np.zeros_like(y)
        hessian, slope = t.g_yy(x, y), t.f_y(x, y)
        for _ in range(shadow):
            error = slope + hessian @ w
            w = w - rho * (error if is_shortcut else hessian @ error)  # (15) or (12b)
        d_x = t.f_x(x, y) + t.g_xy(x, y) @ w  # (13)
        rest = hessian @ (slope + hessian @ w)
        measures.append((d_x @ d_x, rest @ rest))  # (8)
        x = x - alpha * d_x
        points.append((x, y))
    return stacked(points), np.array(measures)


def perturbed_gd(
    t: Twin, n: int, gamma: float, alpha: float, rho: str | Callable[[Array, Array], float]
) -> tuple[Path, Array]:
    """Paper 002, Algorithm 1: (8a) with the lambda of (8b), and grad h as in Remark 3.1.

    Also returns h_k, |Delta_k|^2 and lambda_k of each step.
    """
    x, y = t.start
    first = t.g_y(x, y)
    first_h = first @ first
    points, figures = [], []
    for _ in range(n):
        g_y = t.g_y(x, y)
        h_x, h_y = 2 * t.g_xy(x, y) @ g_y, 2 * t.g_yy(x, y) @ g_y
        square = h_x @ h_x + h_y @ h_y
        if callable(rho):
            target = rho(x, y)
        else:
            target = square if rho == "square" else np.sqrt(square) * np.sqrt(first_h)
        f_x, f_y = t.f_x(x, y), t.f_y(x, y)
        weight = max(0.0, -h_x @ f_x - h_y @ f_y + alpha * target) / square  # (8b)
        d_x, d_y = -f_x - weight * h_x, -f_y - weight * h_y
        figures.append((g_y @ g_y, d_x @ d_x + d_y @ d_y, weight))
        x, y = x + gamma * d_x, y + gamma * d_y  # (8a)
        points.append((x, y))
    return stacked(points), np.array(figures)


def conjugate_gradients(matrix: Array, right: Array, v: Array, steps: int) -> Array:
    """So many steps of the textbook's method from v."""
    r = right - matrix @ v
    p = r
    for _ in range(steps):
        image = matrix @ p
        length = (r @ r) / (p @ image)
        v = v + length * p
        following = r - length * image
        p = following + (following @ following) / (r @ r) * p
        r = following
    return v


def aid_cg(t: Twin, n: int, alpha: float, beta: float, inner: int, steps: int) -> Path:
    """Ji, Yang and Liang (2021), Algorithm 1 (AID-BiO): y and v go on from their last values."""
    x, y = t.start
    v = np.zeros_like(y)
    points = []
    for _ in range(n):
        for _ in range(inner):
            y = y - beta * t.g_y(x, y)
        v = conjugate_gradients(t.g_yy(x, y), t.f_y(x, y), v, steps)
        x = t.in_x(x - alpha * (t.f_x(x, y) - t.g_xy(x, y) @ v))
        points.append((x, y))
    return stacked(points)


def aid_neumann(t: Twin, n: int, alpha: float, beta: float, inner: int, eta: float, terms: int) -> Path:
    """Ghadimi and Wang (2018): v = eta sum over q < Q of (I - eta g_yy)^q f_y."""
    x, y = t.start
    points = []
    for _ in range(n):
        for _ in range(inner):
            y = y - beta * t.g_y(x, y)
        term = eta * t.f_y(x, y)
        v = term
        for _ in range(terms - 1):
            term = term - eta * t.g_yy(x, y) @ term
            v = v + term
        x = t.in_x(x - alpha * (t.f_x(x, y) - t.g_xy(x, y) @ v))
        points.append((x, y))
    return stacked(points)


def backwards(t: Twin, x: Array, path: list[Array], beta: float, last: int) -> tuple[Array, Array]:
    """Slopes of f(x, y_last) in x and in y_0, through y_{k+1} = y_k - beta g_y(x, y_k)."""
    slope, adjoint = t.f_x(x, path[last]), t.f_y(x, path[last])
    for k in reversed(range(last)):
        slope = slope - beta * t.g_xy(x, path[k]) @ adjoint
        adjoint = adjoint - beta * t.g_yy(x, path[k]) @ adjoint
    return slope, adjoint


def gradient_path(t: Twin, x: Array, y: Array, beta: float, inner: int) -> list[Array]:
    """The first point and those after each gradient step on g(x, .)."""
    path = [y]
    for _ in range(inner):
        path.append(path[-1] - beta * t.g_y(x, path[-1]))
    return path


def rhg(t: Twin, n: int, alpha: float, beta: float, inner: int, restart: bool) -> Path:
    """Franceschi et al. (2017), Algorithm 1 (Reverse-HG): inner steps from y_0, or from the last y."""
    x, first = t.start
    y = first
    points = []
    for _ in range(n):
        path = gradient_path(t, x, first if restart else y, beta, inner)
        y = path[-1]
        x = t.in_x(x - alpha * backwards(t, x, path, beta, inner)[0])
        points.append((x, y))
    return stacked(points)


def iaptt(t: Twin, n: int, alpha: float, alpha_z: float, beta: float, inner: int) -> Path:
    """Liu, Liu, Zeng and Zhang (2021), IAPTT-GM: a start z is learned, the worst point counts."""
    x, z = t.start
    points = []
    for _ in range(n):
        path = gradient_path(t, x, z, beta, inner)
        worst = 1 + int(np.argmax([t.f(x, y) for y in path[1:]]))
        d_x, d_z = backwards(t, x, path, beta, worst)
        x, z = t.in_x(x - alpha * d_x), z - alpha_z * d_z
        points.append((x, path[-1]))
    return stacked(points)


def bda(t: Twin, n: int, alpha: float, s_u: float, s_l: float, share: float, inner: int) -> Path:
    """Liu, Mu, Yuan, Zeng and Zhang (2020): inner steps along a mixture of both levels' slopes."""
    x, first = t.start
    points = []
    for _ in range(n):
        path = [first]
        for k in range(inner):
            a = share / (k + 1)
            y = path[-1]
            path.append(y - a * s_u * t.f_y(x, y) - (1 - a) * s_l * t.g_y(x, y))
        slope, adjoint = t.f_x(x, path[-1]), t.f_y(x, path[-1])
        for k in reversed(range(inner)):
            a, y = share / (k + 1), path[k]
            mixed_xy = a * s_u * t.f_xy(x, y) + (1 - a) * s_l * t.g_xy(x, y)
            mixed_yy = a * s_u * t.f_yy(x, y) + (1 - a) * s_l * t.g_yy(x, y)
            slope, adjoint = slope - mixed_xy @ adjoint, adjoint - mixed_yy @ adjoint
        x = t.in_x(x - alpha * slope)
        points.append((x, path[-1]))
    return stacked(points)
