"""Models of every kind that are solved while Ctrl-C is pressed: small, and long enough to be hit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np

import blomodel as bm

Case = tuple[Callable[[], bm.BilevelProblem], dict[str, Any]]


def quadratic_tree(n: int = 14) -> bm.BilevelProblem:
    """The tree over KKT pieces."""
    random = np.random.default_rng(1)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    A, B, c = random.normal(size=(n, n)), random.normal(size=(n, n)), random.normal(size=n)
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - A @ x / n)), [B @ y <= 1 + x], variables=[y])
    f = cp.sum_squares(x - c) + cp.sum_squares(y - 1)
    return bm.BilevelProblem(cp.Minimize(f), [x >= -2, x <= 2], lower)


def linear_tree(n: int = 10) -> bm.BilevelProblem:
    """A linear program below another one."""
    random = np.random.default_rng(2)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    A, B = random.uniform(0, 1, (n, n)), random.uniform(0, 1, (n, n))
    rows = [A @ x + B @ y <= n / 2, y >= 0, y <= 2]
    lower = bm.Lower(cp.Minimize(-random.uniform(0.5, 1, n) @ y), rows, variables=[y])
    f = random.normal(size=n) @ x + random.uniform(0, 1, n) @ y
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 1], lower)


def regression(n: int = 30) -> bm.BilevelProblem:
    """Smooth below, for the first-order methods."""
    random = np.random.default_rng(3)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    A = random.normal(size=(2 * n, n)) / np.sqrt(n)
    below = cp.sum_squares(A @ y - random.normal(size=2 * n)) + cp.sum_squares(y - x)
    f = cp.sum_squares(y - random.normal(size=n)) + 0.1 * cp.sum_squares(x)
    return bm.BilevelProblem(
        cp.Minimize(f), [x >= -3, x <= 3], bm.Lower(cp.Minimize(below), [], variables=[y])
    )


def rows_below(n: int = 8) -> bm.BilevelProblem:
    """Lower constraints that hold x, for the methods with multipliers."""
    random = np.random.default_rng(4)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - random.normal(size=n))), [y <= 1 + x], variables=[y])
    f = cp.sum_squares(x - random.normal(size=n)) + cp.sum_squares(y + 1)
    return bm.BilevelProblem(cp.Minimize(f), [x >= -2, x <= 2], lower)


def sine() -> bm.BilevelProblem:
    """A lower level that is not convex."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    g = cp.nlp.sin(3 * y) + cp.sum_squares(y - x)
    lower = bm.Lower(cp.Minimize(g), [y >= -2, y <= 2], variables=[y])
    f = cp.sum_squares(x - 0.3) + cp.sum_squares(y - 1)
    return bm.BilevelProblem(cp.Minimize(f), [x >= -1, x <= 1], lower)


def followers(count: int = 4) -> bm.BilevelProblem:
    """Several followers of one leader."""
    x = cp.Variable(2, name="x")
    lowers, f = [], cp.sum_squares(x - 1)
    for k in range(count):
        y = cp.Variable(2, name=f"y{k}")
        rows = [y >= 0, cp.sum(y) <= 1 + x[0]]
        lowers.append(bm.Lower(cp.Minimize(cp.sum_squares(y - k * x) + y[0]), rows, variables=[y]))
        f = f + cp.sum_squares(y - 0.2 * k)
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 2], lowers)


def independent(count: int = 4) -> bm.BilevelProblem:
    """A problem that falls apart."""
    x, y = cp.Variable(count, name="x"), cp.Variable(count, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y <= 1 - x, y >= -1], variables=[y])
    target = np.linspace(0.5, 2, count)
    f = cp.sum_squares(x - target) + cp.sum_squares(y - 1)
    return bm.BilevelProblem(cp.Minimize(f), [x >= -2, x <= 2], lower)


def cone() -> bm.BilevelProblem:
    """A second-order cone below."""
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    ball = cp.norm(y) <= 1 + cp.sum(x)
    lower = bm.Lower(cp.Minimize(y @ np.array([1.0, -2.0, 0.5])), [ball], variables=[y])
    f = cp.sum_squares(x - 0.5) + cp.sum_squares(y)
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 1], lower)


def exponential() -> bm.BilevelProblem:
    """Exponentials and logarithms below."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    g = cp.sum(cp.exp(y)) - (1 + x) * cp.sum(y) + cp.sum(cp.logistic(y))
    lower = bm.Lower(cp.Minimize(g), [y >= -2, y <= 2], variables=[y])
    f = cp.square(x - 1) + cp.sum_squares(y - 0.5) + cp.nlp.sin(4 * x)
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 3], lower)


def kinks() -> bm.BilevelProblem:
    """Absolute values at both levels."""
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    lower = bm.Lower(cp.Minimize(cp.norm1(y - x) + cp.sum_squares(y)), [y <= 1], variables=[y])
    f = cp.norm1(y - 0.7) + cp.sum_squares(x - np.array([1.0, -1.0, 0.3]))
    return bm.BilevelProblem(cp.Minimize(f), [x >= -2, x <= 2], lower)


def integers() -> bm.BilevelProblem:
    """Whole numbers above."""
    x, y = cp.Variable(4, integer=True, name="x"), cp.Variable(4, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x / 2)), [cp.sum(y) <= 3, y >= 0], variables=[y])
    f = cp.sum_squares(x - np.array([1.2, 2.7, 0.4, 3.3])) + 2 * cp.sum_squares(y - 1)
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 4], lower)


def prices() -> bm.BilevelProblem:
    """The upper level uses a multiplier of the lower one."""
    x, y = cp.Variable(name="x"), cp.Variable(3, name="y")
    demand = cp.sum(y) == x
    cost = cp.sum_squares(y) + y @ np.array([1.0, 2.0, 3.0])
    lower = bm.Lower(cp.Minimize(cost), [demand, y >= 0, y <= 2], variables=[y])
    return bm.BilevelProblem(
        cp.Minimize(cp.square(lower.multiplier(demand) + 4) - 0.5 * x), [x >= 0, x <= 5], lower
    )


CASES: dict[str, Case] = {
    "quadratic tree": (quadratic_tree, {}),
    "kkt-mip": (quadratic_tree, {"method": "kkt-mip"}),
    "linear tree": (linear_tree, {}),
    "meha": (regression, {"method": "meha"}),
    "alt-pbgd": (regression, {"method": "alt-pbgd"}),
    "unrolled": (regression, {"method": "unrolled"}),
    "implicit-cg": (regression, {"method": "implicit-cg"}),
    "lv-hba": (rows_below, {"method": "lv-hba", "max_steps": 20_000}),
    "blocc": (rows_below, {"method": "blocc"}),
    "gam": (rows_below, {"method": "gam"}),
    "nonconvex": (sine, {}),
    "global": (sine, {"method": "global"}),
    "value-cuts": (sine, {"method": "value-cuts"}),
    "followers": (followers, {}),
    "independent": (independent, {}),
    "cone": (cone, {}),
    "exponential": (exponential, {}),
    "kinks": (kinks, {}),
    "integers": (integers, {}),
    "prices": (prices, {}),
}
