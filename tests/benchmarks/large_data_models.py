"""Four models with large data, each with iterations of f2sa written by hand in NumPy, SciPy or Numba."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numba
import numpy as np
import scipy.sparse as sp

import blomodel as bm

GAMMA, STEP_X, STEP_Y = 10.0, 1e-3, 1e-2  # of the iterations that are compared


@dataclass
class Instance:
    """A problem, the numbers in its data, n iterations by hand and their products alone, time limit."""

    problem: bm.BilevelProblem
    nonzeros: int
    by_hand: Callable[[int], None]
    products: Callable[[int], None] | None = None
    limit: float = 10.0


@numba.njit(error_model="numpy")
def _free_by_hand(count, c, x, y, z):
    n = len(c)
    for _ in range(count):
        pull = 0.0
        for i in range(n):
            z[i] -= STEP_Y * 2 * (z[i] - c[i] * x)
            y[i] -= STEP_Y * (2 * (y[i] - c[i] * x) + 2 * (y[i] - 0.5) / n / GAMMA)
            pull += 2 * c[i] * (z[i] - y[i])
        x = min(max(x - STEP_X * (2 * (x - 1) + GAMMA * pull), -2.0), 2.0)
    return x


def free_lower(n: int) -> Instance:
    """Free lower variables: min (x - 1)^2 + |y - 1/2|^2 / n, where y minimises |y - c x|^2."""
    x, y, c = cp.Variable(), cp.Variable(n), np.linspace(-1, 1, n)
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - c * x)), [], variables=[y])
    upper = cp.Minimize((x - 1) ** 2 + cp.sum_squares(y - 0.5) / n)
    problem = bm.BilevelProblem(upper, [x >= -2, x <= 2], lower)
    zeros = np.zeros(n), np.zeros(n)
    return Instance(problem, n, lambda count: _free_by_hand(count, c, 0.0, *zeros))


def cleaning(n: int, features: int = 784, classes: int = 10) -> Instance:
    """Hyper-cleaning: a weight for each training row, 30 % of which have a random label."""
    random = np.random.default_rng(0)
    mixing = random.standard_normal((features, classes))

    def draw(rows: int) -> tuple[np.ndarray, np.ndarray]:
        data = random.random((rows, features)) - 0.5
        noise = random.gumbel(size=(rows, classes))
        return data, np.argmax(data @ mixing + noise, axis=1)

    (A, labels), (V, wanted) = draw(n), draw(max(n // 12, 10))
    is_wrong = random.random(n) < 0.3
    labels[is_wrong] = random.integers(0, classes, int(is_wrong.sum()))
    T, S, m = np.eye(classes)[labels], np.eye(classes)[wanted], len(V)
    x, Y = cp.Variable(n, name="x"), cp.Variable((features, classes), name="Y")

    def losses(data: np.ndarray, targets: np.ndarray) -> cp.Expression:
        scores = data @ Y
        return cp.log_sum_exp(scores, axis=1) - cp.sum(cp.multiply(targets, scores), axis=1)

    g = cp.sum(cp.multiply(x, losses(A, T))) / n + 1e-3 * cp.sum_squares(Y)
    f = cp.sum(losses(V, S)) / m
    lower = bm.Lower(cp.Minimize(g), [], variables=[Y])
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 1], lower)

    def soft(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        top = scores.max(axis=1)
        powers = np.exp(scores - top[:, None])
        total = powers.sum(axis=1)
        return powers / total[:, None], np.log(total) + top

    def by_hand(count: int) -> None:
        weights = np.full(n, 0.5)
        y, z = np.zeros((features, classes)), np.zeros((features, classes))
        at_y, at_z = A @ y, A @ z
        for _ in range(count):
            z -= STEP_Y * (A.T @ (weights[:, None] * (soft(at_z)[0] - T)) / n + 2e-3 * z)
            in_f = V.T @ (soft(V @ y)[0] - S) / m
            y -= STEP_Y * (A.T @ (weights[:, None] * (soft(at_y)[0] - T)) / n + 2e-3 * y + in_f / GAMMA)
            at_y, at_z = A @ y, A @ z
            loss_y = soft(at_y)[1] - (T * at_y).sum(axis=1)
            loss_z = soft(at_z)[1] - (T * at_z).sum(axis=1)
            weights = np.clip(weights - STEP_X * GAMMA * (loss_y - loss_z) / n, 0, 1)

    return Instance(problem, A.size + V.size, by_hand, limit=60.0)


def lasso(n: int, rows: int | None = None, each: int = 100) -> Instance:
    """Lasso with sparse features, whose penalty weight is chosen by validation."""
    random = np.random.default_rng(0)
    rows = n // 10 if rows is None else rows
    shape = {"density": each / n, "format": "csr", "rng": random, "data_sampler": random.standard_normal}
    A, V = sp.random_array((rows, n), **shape), sp.random_array((rows // 2, n), **shape)
    true = np.where(random.random(n) < 0.01, 3 * random.standard_normal(n), 0.0)
    b = A @ true + 0.1 * random.standard_normal(rows)
    c = V @ true + 0.1 * random.standard_normal(rows // 2)
    x, y = cp.Variable(name="x"), cp.Variable(n, name="y")
    g = cp.sum_squares(A @ y - b) / (2 * rows) + x * cp.norm1(y)
    f = cp.sum_squares(V @ y - c) / rows
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= 1e-3, x <= 1], lower)
    At, Vt = sp.csr_array(A.T), sp.csr_array(V.T)

    def by_hand(count: int) -> None:
        weight, y, z = 0.5, np.zeros(n), np.zeros(n)
        for _ in range(count):
            z -= STEP_Y * (At @ (A @ z - b)) / rows
            z = np.sign(z) * np.maximum(np.abs(z) - STEP_Y * weight, 0)
            y -= STEP_Y * (At @ (A @ y - b) / rows + 2 * (Vt @ (V @ y - c)) / rows / GAMMA)
            y = np.sign(y) * np.maximum(np.abs(y) - STEP_Y * weight, 0)
            slope = GAMMA * (np.abs(y).sum() - np.abs(z).sum())
            weight = float(np.clip(weight - STEP_X * slope, 1e-3, 1))

    def products(count: int) -> None:
        weights, of_rows, of_others = np.zeros(n), np.zeros(rows), np.zeros(rows // 2)
        for _ in range(count):
            for _ in range(2):
                A @ weights, At @ of_rows
            V @ weights, Vt @ of_others

    return Instance(problem, A.nnz + V.nnz, by_hand, products, limit=30.0)


def logistic(n: int, features: int = 20) -> Instance:
    """Logistic regression, whose ridge is chosen by validation."""
    random = np.random.default_rng(0)
    true = random.standard_normal(features)

    def draw(rows: int) -> np.ndarray:
        data = random.standard_normal((rows, features))
        signs = np.where(random.random(rows) < 1 / (1 + np.exp(-data @ true)), 1.0, -1.0)
        return data * signs[:, None]

    A, V = draw(n), draw(n // 5)
    m = len(V)
    x, y = cp.Variable(name="x"), cp.Variable(features, name="y")
    g = cp.sum(cp.logistic(-(A @ y))) / n + cp.exp(x) * cp.sum_squares(y)
    f = cp.sum(cp.logistic(-(V @ y))) / m
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= -10, x <= 2], lower)

    def tail(t: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(t))

    def by_hand(count: int) -> None:
        weight, y, z = -4.0, np.zeros(features), np.zeros(features)
        for _ in range(count):
            z -= STEP_Y * (-(A.T @ tail(A @ z)) / n + 2 * np.exp(weight) * z)
            in_f = -(V.T @ tail(V @ y)) / m
            y -= STEP_Y * (-(A.T @ tail(A @ y)) / n + 2 * np.exp(weight) * y + in_f / GAMMA)
            slope = GAMMA * np.exp(weight) * (y @ y - z @ z)
            weight = float(np.clip(weight - STEP_X * slope, -10, 2))

    def products(count: int) -> None:
        y, of_rows, of_others = np.zeros(features), np.zeros(n), np.zeros(m)
        for _ in range(count):
            for _ in range(2):
                A @ y, A.T @ of_rows
            V @ y, V.T @ of_others

    return Instance(problem, A.size + V.size, by_hand, products, limit=30.0)


MODELS: dict[str, tuple[Callable[[int], Instance], int]] = {
    "free lower variables": (free_lower, 20_000),
    "hyper-cleaning, 784 features": (cleaning, 60_000),
    "lasso, sparse features": (lasso, 100_000),
    "logistic regression, rows": (logistic, 500_000),
}
