"""MEHA as its paper prints it, with the proximal steps of the absolute value and of boxes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from twin_problems import Array, Twin
from twins_penalty import Path, stacked

import blomodel as bm


@dataclass
class Kinked(Twin):
    """A twin whose lower level is smooth g plus sum_i weight_i(x) |y_i|."""

    weights: Callable[[Array], Array] = lambda x: np.zeros(0)
    weights_x: Callable[[Array, Array], Array] = lambda x, y: np.zeros(x.size)  # slope of that sum in x


def meha(
    t: Kinked,
    n: int,
    alpha: Callable[[int], float],
    beta: Callable[[int], float],
    eta: Callable[[int], float],
    gamma: float,
    c: Callable[[int], float],
    theta: Array | None = None,
) -> Path:
    """Liu, Liu, Yao, Zeng and Zhang (2024), Algorithm 1: (9), then (10)-(11), then (12)-(13)."""
    x, y = t.start
    theta = y if theta is None else theta
    points = []

    def prox(x: Array, point: Array, step: float) -> Array:
        amount = step * t.weights(x)
        return t.in_y(np.sign(point) * np.maximum(np.abs(point) - amount, 0.0))

    def g_x(x: Array, y: Array) -> Array:
        return t.g_x(x, y) + t.weights_x(x, y)

    for k in range(n):
        step = eta(k)
        theta = prox(x, theta - step * (t.g_y(x, theta) + (theta - y) / gamma), step)  # (9)
        d_x = t.f_x(x, y) / c(k) + g_x(x, y) - g_x(x, theta)  # (10)
        x = t.in_x(x - alpha(k) * d_x)  # (11)
        d_y = t.f_y(x, y) / c(k) + t.g_y(x, y) - (y - theta) / gamma  # (12)
        y = prox(x, y - beta(k) * d_y, beta(k))  # (13)
        points.append((x, y))
    return stacked(points)


def smooth(twin: Twin) -> Kinked:
    """A twin without kinks."""
    none = np.zeros(twin.start[1].size)
    return Kinked(**vars(twin), weights=lambda x: none)


def lasso() -> Kinked:
    """(20): g = |y - v|^2 / 2 + sum_i x_i |y_i|, f = sum y, x in [0, 1]."""
    n = 4
    v = np.array([1.0, 0.5, -0.5, -1.0])
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = 0.5 * cp.sum_squares(y - v) + cp.sum(cp.multiply(x, cp.abs(y)))
    problem = bm.BilevelProblem(
        cp.Minimize(cp.sum(y)), [0 <= x, x <= 1], bm.Lower(cp.Minimize(g), variables=[y])
    )
    return Kinked(
        problem,
        x,
        y,
        (np.array([0.5, 0.3, 0.4, 0.6]), np.array([0.2, 0.1, -0.3, -0.05])),
        f=lambda x, y: float(y.sum()),
        f_x=lambda x, y: np.zeros(n),
        f_y=lambda x, y: np.ones(n),
        g=lambda x, y: 0.5 * (y - v) @ (y - v) + x @ np.abs(y),
        g_x=lambda x, y: np.zeros(n),
        g_y=lambda x, y: y - v,
        g_yy=lambda x, y: np.eye(n),
        g_xy=lambda x, y: np.zeros((n, n)),
        in_x=lambda x: np.clip(x, 0.0, 1.0),
        weights=lambda x: x,
        weights_x=lambda x, y: np.abs(y),
    )


def sparse_regression() -> Kinked:
    """Least squares with a fixed weight of the absolute values; x moves the right-hand side."""
    a = np.array([[1.0, 0.4, -0.3], [0.2, 0.8, 0.5], [-0.6, 0.1, 0.9], [0.3, -0.7, 0.2]])
    b = np.array([[0.5, -0.2], [0.3, 0.9], [-0.4, 0.1], [0.2, 0.6]])
    t = np.array([0.5, -0.2, 0.3])
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    g = 0.5 * cp.sum_squares(a @ y - b @ x) + 0.15 * cp.norm1(y)
    f = 0.5 * cp.sum_squares(y - t) + 0.1 * cp.sum_squares(x - 1)
    problem = bm.BilevelProblem(cp.Minimize(f), [], bm.Lower(cp.Minimize(g), variables=[y]))
    return Kinked(
        problem,
        x,
        y,
        (np.array([0.3, -0.2]), np.array([0.1, 0.05, -0.1])),
        f=lambda x, y: 0.5 * (y - t) @ (y - t) + 0.1 * (x - 1) @ (x - 1),
        f_x=lambda x, y: 0.2 * (x - 1),
        f_y=lambda x, y: y - t,
        g=lambda x, y: 0.5 * np.sum((a @ y - b @ x) ** 2) + 0.15 * np.abs(y).sum(),
        g_x=lambda x, y: -b.T @ (a @ y - b @ x),
        g_y=lambda x, y: a.T @ (a @ y - b @ x),
        g_yy=lambda x, y: a.T @ a,
        g_xy=lambda x, y: -b.T @ a,
        weights=lambda x: np.full(3, 0.15),
    )
