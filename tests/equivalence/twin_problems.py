"""Small problems stated twice: for the library, and in NumPy with derivatives written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

import blomodel as bm

Array = np.ndarray


def free(z: Array) -> Array:
    """The projection onto the whole space."""
    return z


@dataclass
class Twin:
    """One problem in both forms, with its start and its projections."""

    problem: bm.BilevelProblem
    x: cp.Variable
    y: cp.Variable
    start: tuple[Array, Array]
    f: Callable[[Array, Array], float]
    f_x: Callable[[Array, Array], Array]
    f_y: Callable[[Array, Array], Array]
    g: Callable[[Array, Array], float]
    g_x: Callable[[Array, Array], Array]
    g_y: Callable[[Array, Array], Array]
    g_yy: Callable[[Array, Array], Array]
    g_xy: Callable[[Array, Array], Array]  # derivative of g_x in y: as many rows as x has entries
    f_yy: Callable[[Array, Array], Array] | None = None
    f_xy: Callable[[Array, Array], Array] | None = None
    in_x: Callable[[Array], Array] = free  # projections
    in_y: Callable[[Array], Array] = free

    def iterates(self, method: str, n: int = 50, **settings: object) -> tuple[Array, Array]:
        """The library's x and y after each of n iterations."""
        self.x.value, self.y.value = (
            np.reshape(s, v.shape) for s, v in zip(self.start, (self.x, self.y), strict=True)
        )
        self.problem.solve(
            method=method,
            max_iterations=n,
            history_every=1,
            tolerance=1e-15,
            **settings,
        )
        solution = self.problem.solution
        x, y = solution.history["x"], solution.history["y"]
        missing = n - len(x)
        if missing and solution.history["residual"][-1] == 0.0:  # a corner of both sets: it stays there
            x, y = (np.concatenate([path, np.repeat(path[-1:], missing, axis=0)]) for path in (x, y))
        assert len(x) == n, solution.notes
        for end, name in ((x, "x"), (y, "y")):
            np.testing.assert_array_equal(np.ravel(solution.iterate[name]), end[-1])
        return x, y


def quadratic(radius: float | None = None) -> Twin:
    """Both levels quadratic; with a radius x and y live in boxes whose sides are met."""
    n_x, n_y = 3, 4
    random = np.random.default_rng(5)
    q, _ = np.linalg.qr(random.standard_normal((n_y, n_y)))
    a = q @ np.diag(np.geomspace(0.5, 2.0, n_y)) @ q.T
    a = (a + a.T) / 2
    b, c = random.standard_normal((n_y, n_x)), 0.1 * random.standard_normal((n_x, n_y))
    t, s = random.standard_normal(n_y), random.standard_normal(n_y)
    x, y = cp.Variable(n_x, name="x"), cp.Variable(n_y, name="y")
    f = 0.5 * cp.sum_squares(y - t) + 0.25 * cp.sum_squares(x) + x @ (c @ y)
    g = 0.5 * cp.quad_form(y, a, assume_PSD=True) - y @ (b @ x + s)
    box = [] if radius is None else [y >= -radius, y <= radius]
    upper = [] if radius is None else [x >= -radius, x <= radius]
    lower = bm.Lower(cp.Minimize(g), box, variables=[y])
    cut = free if radius is None else lambda z: np.clip(z, -radius, radius)
    return Twin(
        bm.BilevelProblem(cp.Minimize(f), upper, lower),
        x,
        y,
        (cut(np.array([0.5, -1.0, 0.8])), cut(np.array([1.0, 0.2, -0.7, 0.4]))),
        f=lambda x, y: 0.5 * (y - t) @ (y - t) + 0.25 * x @ x + x @ c @ y,
        f_x=lambda x, y: 0.5 * x + c @ y,
        f_y=lambda x, y: y - t + c.T @ x,
        g=lambda x, y: 0.5 * y @ a @ y - y @ (b @ x + s),
        g_x=lambda x, y: -b.T @ y,
        g_y=lambda x, y: a @ y - b @ x - s,
        g_yy=lambda x, y: a,
        g_xy=lambda x, y: -b.T,
        f_yy=lambda x, y: np.eye(n_y),
        f_xy=lambda x, y: c,
        in_x=cut,
        in_y=cut,
    )


def logistic(radius: float | None = None) -> Twin:
    """A lower level whose Hessian changes with y."""
    n_x, n_y = 2, 3
    b = np.array([[1.0, 0.3], [-0.5, 0.8], [0.2, -0.9]])
    t = np.array([0.4, -0.3, 0.6])
    x, y = cp.Variable(n_x, name="x"), cp.Variable(n_y, name="y")
    f = 0.5 * cp.sum_squares(y - t) + 0.3 * cp.sum_squares(x - 1) + 0.2 * x[0] * y[1]
    g = cp.sum(cp.logistic(y)) + 0.5 * cp.sum_squares(y) - y @ (b @ x)
    box = [] if radius is None else [y >= -radius, y <= radius]
    upper = [] if radius is None else [x >= -radius, x <= radius]
    lower = bm.Lower(cp.Minimize(g), box, variables=[y])
    cut = free if radius is None else lambda z: np.clip(z, -radius, radius)
    mixed = np.zeros((n_x, n_y))
    mixed[0, 1] = 0.2

    def sigma(y: Array) -> Array:
        return 1 / (1 + np.exp(-y))

    return Twin(
        bm.BilevelProblem(cp.Minimize(f), upper, lower),
        x,
        y,
        (cut(np.array([0.3, -0.4])), cut(np.array([0.5, 0.1, -0.2]))),
        f=lambda x, y: 0.5 * (y - t) @ (y - t) + 0.3 * (x - 1) @ (x - 1) + 0.2 * x[0] * y[1],
        f_x=lambda x, y: 0.6 * (x - 1) + mixed @ y,
        f_y=lambda x, y: y - t + mixed.T @ x,
        g=lambda x, y: np.log1p(np.exp(y)).sum() + 0.5 * y @ y - y @ b @ x,
        g_x=lambda x, y: -b.T @ y,
        g_y=lambda x, y: sigma(y) + y - b @ x,
        g_yy=lambda x, y: np.diag(sigma(y) * (1 - sigma(y)) + 1),
        g_xy=lambda x, y: -b.T,
        f_yy=lambda x, y: np.eye(n_y),
        f_xy=lambda x, y: mixed,
        in_x=cut,
        in_y=cut,
    )


def steep() -> Twin:
    """Objectives of the size of millions and millionths, for which the library fits units of its own."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    a, b = np.array([3e6, 5e6]), np.array([2e-6, 4e-6])
    f = 0.5 * cp.sum(cp.multiply(a, (x - 1) ** 2)) + 1e6 * cp.sum_squares(y + 1)
    lower = bm.Lower(cp.Minimize(0.5 * cp.sum(cp.multiply(b, (y - x) ** 2))), variables=[y])
    return Twin(
        bm.BilevelProblem(cp.Minimize(f), [], lower),
        x,
        y,
        (np.array([0.3, -0.4]), np.array([0.5, 0.1])),
        f=lambda x, y: 0.5 * a @ (x - 1) ** 2 + 1e6 * (y + 1) @ (y + 1),
        f_x=lambda x, y: a * (x - 1),
        f_y=lambda x, y: 2e6 * (y + 1),
        g=lambda x, y: 0.5 * b @ (y - x) ** 2,
        g_x=lambda x, y: b * (x - y),
        g_y=lambda x, y: b * (y - x),
        g_yy=lambda x, y: np.diag(b),
        g_xy=lambda x, y: -np.diag(b),
    )


def sine() -> Twin:
    """Example 1 of the paper on global optimality: f = (u - 2 sin v)^2 / 2, g = (u - v)^2 / 2."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(0.5 * cp.square(x - y)), variables=[y])
    upper = cp.Minimize(0.5 * cp.square(x - 2 * cp.nlp.sin(y)))
    return Twin(
        bm.BilevelProblem(upper, [], lower),
        x,
        y,
        (np.array([1.2]), np.array([0.4])),
        f=lambda x, y: 0.5 * (x[0] - 2 * np.sin(y[0])) ** 2,
        f_x=lambda x, y: x - 2 * np.sin(y),
        f_y=lambda x, y: -2 * np.cos(y) * (x - 2 * np.sin(y)),
        g=lambda x, y: 0.5 * (x[0] - y[0]) ** 2,
        g_x=lambda x, y: x - y,
        g_y=lambda x, y: y - x,
        g_yy=lambda x, y: np.eye(1),
        g_xy=lambda x, y: -np.eye(1),
    )


def curve() -> Twin:
    """Example 1 of the GALET paper: the lower minimisers form a curve."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    rest = y[0] - cp.nlp.sin(y[1])
    lower = bm.Lower(cp.Minimize(0.5 * (x + rest) ** 2), [], variables=[y])

    def r(x: Array, y: Array) -> float:
        return float(x[0] + y[0] - np.sin(y[1]))

    def d(y: Array) -> Array:
        return np.array([1.0, -np.cos(y[1])])

    return Twin(
        bm.BilevelProblem(cp.Minimize(x**2 + rest), [], lower),
        x,
        y,
        (np.array([1.0]), np.array([0.3, 0.7])),
        f=lambda x, y: x[0] ** 2 + y[0] - np.sin(y[1]),
        f_x=lambda x, y: 2 * x,
        f_y=lambda x, y: d(y),
        g=lambda x, y: 0.5 * r(x, y) ** 2,
        g_x=lambda x, y: np.array([r(x, y)]),
        g_y=lambda x, y: r(x, y) * d(y),
        g_yy=lambda x, y: np.outer(d(y), d(y)) + np.diag([0.0, r(x, y) * np.sin(y[1])]),
        g_xy=lambda x, y: d(y)[None, :],
    )


def same(found: tuple[Array, Array], wanted: tuple[Array, Array], tolerance: float = 1e-12) -> None:
    """Equal entry by entry in every iteration, relative to 1 + the size of the largest entry."""
    for name, ours, theirs in zip("xy", found, wanted, strict=True):
        scale = 1 + np.abs(theirs).max()
        assert np.isfinite(theirs).all()
        assert np.abs(theirs[-1] - theirs[0]).max() > 1e-6, (
            f"{name} does not move: this compares nothing"
        )
        assert np.abs(ours - theirs).max() <= tolerance * scale, name
