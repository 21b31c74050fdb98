"""The printed algorithms for lower constraints that hold x, on small quadratic programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import cvxpy as cp
import numpy as np
from twin_problems import Array, Twin
from twins_penalty import Path, stacked

import blomodel as bm


@dataclass
class Coupled(Twin):
    """Both levels quadratic; the lower rows are by_x x + by_y y + right <= 0, the coupled ones first."""

    by_x: Array = field(default_factory=lambda: np.zeros((0, 0)))
    by_y: Array = field(default_factory=lambda: np.zeros((0, 0)))
    right: Array = field(default_factory=lambda: np.zeros(0))
    n_coupled: int = 0
    x_range: tuple[float, float] = (-np.inf, np.inf)

    def rows(self, x: Array, y: Array) -> Array:
        """Values of the lower rows."""
        return self.by_x @ x + self.by_y @ y + self.right

    def lower(self, x: Array, weight: float = 0.0) -> tuple[Array, Array]:
        """Minimiser and multipliers of g + weight f over the lower rows."""
        zero = np.zeros(self.by_y.shape[1])
        slope = self.g_y(x, zero) + weight * self.f_y(x, zero)
        hessian = self.g_yy(x, zero) + weight * self.f_yy(x, zero)
        return quadratic_program(hessian, slope, self.by_y, -self.rows(x, zero))


def quadratic_program(hessian: Array, slope: Array, rows: Array, right: Array) -> tuple[Array, Array]:
    """Minimise y'Hy/2 + slope'y over rows y <= right, by trying every set of active rows."""
    n, m = hessian.shape[0], len(right)
    best = None
    for size in range(min(n, m) + 1):
        for active in map(list, combinations(range(m), size)):
            a = rows[active]
            if np.linalg.matrix_rank(a) < size:
                continue
            matrix = np.block([[hessian, a.T], [a, np.zeros((size, size))]])
            found = np.linalg.solve(matrix, np.concatenate([-slope, right[active]]))
            y, multipliers = found[:n], np.zeros(m)
            multipliers[active] = found[n:]
            wrong = max(np.max(rows @ y - right, initial=0.0), -multipliers.min(initial=0.0))
            if best is None or wrong < best[0]:
                best = wrong, y, multipliers
    assert best is not None
    assert best[0] < 1e-9
    return best[1], best[2]


def margin() -> Coupled:
    """One variable each: g = (y - 2 x)^2, y <= 1 + x / 2."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= 1 + x / 2], variables=[y])
    upper = cp.Minimize(0.5 * (x - 0.2) ** 2 + (y - 2) ** 2)
    return Coupled(
        bm.BilevelProblem(upper, [0 <= x, x <= 2], lower),
        x,
        y,
        (np.array([1.8]), np.array([1.0])),
        f=lambda x, y: float(0.5 * (x[0] - 0.2) ** 2 + (y[0] - 2) ** 2),
        f_x=lambda x, y: x - 0.2,
        f_y=lambda x, y: 2 * (y - 2),
        g=lambda x, y: float((y[0] - 2 * x[0]) ** 2),
        g_x=lambda x, y: -4 * (y - 2 * x),
        g_y=lambda x, y: 2 * (y - 2 * x),
        g_yy=lambda x, y: np.array([[2.0]]),
        g_xy=lambda x, y: np.array([[-4.0]]),
        f_yy=lambda x, y: np.array([[2.0]]),
        f_xy=lambda x, y: np.zeros((1, 1)),
        in_x=lambda x: np.clip(x, 0.0, 2.0),
        by_x=np.array([[-0.5]]),
        by_y=np.array([[1.0]]),
        right=np.array([-1.0]),
        n_coupled=1,
        x_range=(0.0, 2.0),
    )


def budget() -> Coupled:
    """Two variables each: a shared budget sum(y) <= sum(x) and a floor y >= -1."""
    a, shift = np.array([[0.8, -0.3], [0.4, 1.1]]), np.array([0.5, 0.9])
    b = np.array([0.4, -0.6])
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    rows = [cp.sum(y) <= cp.sum(x), y >= -1]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - a @ x - shift)), rows, variables=[y])
    upper = cp.Minimize(cp.sum_squares(x - b) + cp.sum_squares(y - 1))
    return Coupled(
        bm.BilevelProblem(upper, [x >= -2, x <= 2], lower),
        x,
        y,
        (np.array([1.5, 0.7]), np.array([0.3, 0.2])),
        f=lambda x, y: float((x - b) @ (x - b) + (y - 1) @ (y - 1)),
        f_x=lambda x, y: 2 * (x - b),
        f_y=lambda x, y: 2 * (y - 1),
        g=lambda x, y: float(np.sum((y - a @ x - shift) ** 2)),
        g_x=lambda x, y: -2 * a.T @ (y - a @ x - shift),
        g_y=lambda x, y: 2 * (y - a @ x - shift),
        g_yy=lambda x, y: 2 * np.eye(2),
        g_xy=lambda x, y: -2 * a.T,
        f_yy=lambda x, y: 2 * np.eye(2),
        f_xy=lambda x, y: np.zeros((2, 2)),
        in_x=lambda x: np.clip(x, -2.0, 2.0),
        in_y=lambda y: np.maximum(y, -1.0),
        by_x=np.array([[-1.0, -1.0], [0.0, 0.0], [0.0, 0.0]]),
        by_y=np.array([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]),
        right=np.array([0.0, -1.0, -1.0]),
        n_coupled=1,
        x_range=(-2.0, 2.0),
    )


def blocc(t: Coupled, n: int, eta: float, gamma: float) -> Path:
    """Jiang et al. (2025), Algorithm 4, exact inner solves; y is that of (55) at the new x."""
    x = t.start[0]
    points = []
    for _ in range(n):
        y_g, of_g = t.lower(x)  # (54)
        y, of_gamma = t.lower(x, 1 / gamma)  # (55)
        slope = t.f_x(x, y) + gamma * (
            t.g_x(x, y) - t.g_x(x, y_g) + t.by_x.T @ (of_gamma - of_g)
        )  # (56)
        x = t.in_x(x - eta * slope)
        points.append((x, t.lower(x, 1 / gamma)[0]))
    return stacked(points)


def blocc_max_min(
    t: Coupled,
    n: int,
    eta: float,
    gamma: float,
    steps: tuple[int, int],
    lengths: tuple[float, float],
    momentum: bool,
) -> Path:
    """Algorithm 4 with the BLOCC paper's max-min solver: rows with x have multipliers, Y a projection.

    ``steps`` and ``lengths``: of the multipliers, and of y for each of these. Without momentum it is the
    projected gradient descent ascent of Remark 10.
    """
    x, y = t.start
    by_x, by_y = t.by_x[: t.n_coupled], t.by_y[: t.n_coupled]

    def solve(y: Array, multipliers: Array, weight: float) -> tuple[Array, Array]:
        before = multipliers
        for k in range(1, steps[0] + 1):
            share = (k - 1) / (k + 2) if momentum else 0.0
            ahead = np.maximum(multipliers + share * (multipliers - before), 0.0)
            for _ in range(steps[1]):
                y = t.in_y(y - lengths[1] * (weight * t.f_y(x, y) + t.g_y(x, y) + by_y.T @ ahead))
            before = multipliers
            multipliers = np.maximum(ahead + lengths[0] * t.rows(x, y)[: t.n_coupled], 0.0)
        return y, multipliers

    y_g = y
    of_g = of_gamma = np.zeros(t.n_coupled)
    points = []
    for _ in range(n):
        y_g, of_g = solve(y_g, of_g, 0.0)  # (54)
        y, of_gamma = solve(y, of_gamma, 1 / gamma)  # (55)
        slope = t.f_x(x, y) + gamma * (t.g_x(x, y) - t.g_x(x, y_g) + by_x.T @ (of_gamma - of_g))  # (56)
        x = t.in_x(x - eta * slope)
        points.append((x, y))
    return stacked(points)


def pbgd_free(t: Coupled, n: int, eta: float, gamma: float) -> Path:
    """Jiang et al. (2025), Theorem 5: Algorithm 3 with y over Y(x); y is the one at the new x."""
    x = t.start[0]
    points = []
    for _ in range(n):
        y, _ = t.lower(x, 1 / gamma)
        x = t.in_x(x - eta * t.f_x(x, y))
        points.append((x, t.lower(x, 1 / gamma)[0]))
    return stacked(points)


def lv_hba(t: Coupled, n: int, alpha: float, beta: float, eta: float, g1: float, g2: float, c: float,
           p: float, r: float = 1e4) -> Path:  # fmt: skip
    """Yao, Yu, Zeng and Zhang (2024), Algorithm 1, from the lower answer and its multipliers."""
    x = t.start[0]
    y, multipliers = t.lower(x)
    theta, z = y, multipliers
    n_x = x.size
    low, high = t.x_range
    sides = np.vstack([np.eye(n_x), -np.eye(n_x)])
    all_rows = np.block([[t.by_x, t.by_y], [sides, np.zeros((2 * n_x, y.size))]])
    all_right = np.concatenate([-t.right, np.full(n_x, high), np.full(n_x, -low)])
    points = []
    for k in range(n):
        weight = c * (k + 1) ** p
        d_theta = t.g_y(x, theta) + t.by_y.T @ multipliers + (theta - y) / g1
        d_lambda = -t.rows(x, theta) + (multipliers - z) / g2
        theta, multipliers = theta - eta * d_theta, np.clip(multipliers - eta * d_lambda, 0.0, r)
        d_x = t.f_x(x, y) / weight + t.g_x(x, y) - t.g_x(x, theta) - t.by_x.T @ multipliers
        d_y = t.f_y(x, y) / weight + t.g_y(x, y) - (y - theta) / g1
        d_z = -(multipliers - z) / g2
        wish = np.concatenate([x - alpha * d_x, y - alpha * d_y])
        z = np.clip(z - beta * d_z, 0.0, r)
        point, _ = quadratic_program(np.eye(wish.size), -wish, all_rows, all_right)
        x, y = point[:n_x], point[n_x:]
        points.append((x, y))
    return stacked(points)


def bic_gaffa(t: Coupled, n: int, alpha: float, beta: float, eta: float, g1: float, g2: float, c: float,
              p: float, r: float = 1e4) -> Path:  # fmt: skip
    """Yao, Yin, Zeng and Zhang (2025), Algorithm 1, from the lower answer and its multipliers."""
    x = t.start[0]
    y, z = t.lower(x)
    theta = y
    points = []
    for k in range(n):
        weight = c * (k + 1) ** p
        theta = theta - eta * (t.g_y(x, theta) + t.by_y.T @ z + (theta - y) / g1)
        multipliers = np.maximum(z + g2 * t.rows(x, y), 0.0)
        d_x = t.f_x(x, y) / weight + t.g_x(x, y) - t.g_x(x, theta) + t.by_x.T @ (multipliers - z)
        d_y = t.f_y(x, y) / weight + t.g_y(x, y) + t.by_y.T @ multipliers - (y - theta) / g1
        d_z = (multipliers - z) / g2 - t.rows(x, theta)
        x, y, z = t.in_x(x - alpha * d_x), y - alpha * d_y, np.clip(z - beta * d_z, 0.0, r)
        points.append((x, y))
    return stacked(points)


def gam(t: Coupled, n: int, step: float) -> Path:
    """Xu and Zhu (2023): projected steps along the gradient of f(x, y(x)) through the active rows."""
    x = t.start[0]
    points = []
    for _ in range(n):
        y, multipliers = t.lower(x)
        active = multipliers > 1e-9
        a_x, a_y = t.by_x[active], t.by_y[active]
        size = int(active.sum())
        matrix = np.block([[t.g_yy(x, y), a_y.T], [a_y, np.zeros((size, size))]])
        adjoint = np.linalg.solve(matrix, np.concatenate([t.f_y(x, y), np.zeros(size)]))
        u, v = adjoint[: y.size], adjoint[y.size :]
        x = t.in_x(x - step * (t.f_x(x, y) - t.g_xy(x, y) @ u - a_x.T @ v))
        points.append((x, t.lower(x)[0]))
    return stacked(points)
