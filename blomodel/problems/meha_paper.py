"""Problems of the MEHA paper, numbered as there."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from blomodel.problem import BilevelProblem, Lower

Samples = tuple[np.ndarray, np.ndarray]  # features and labels, a sample in each row


def strongly_convex(n: int, matrix: np.ndarray | None = None) -> BilevelProblem:
    """(77): x = y = e/2 for A = I."""
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    matrix = np.eye(n) if matrix is None else matrix
    lower = Lower(cp.Minimize(0.5 * cp.quad_form(y, matrix) - x @ y), variables=[y])
    upper = 0.5 * cp.sum_squares(x - 1) + 0.5 * cp.quad_form(y, matrix)
    return BilevelProblem(cp.Minimize(upper), [], lower)


def merely_convex(n: int) -> BilevelProblem:
    """(18): x = y_1 = y_2 = e."""
    x, first, second = cp.Variable(n, name="x"), cp.Variable(n), cp.Variable(n)
    g = 0.5 * cp.sum_squares(first) - x @ first + 0 * cp.sum(second)
    lower = Lower(cp.Minimize(g), variables=[first, second])
    upper = 0.5 * cp.sum_squares(x - second) + 0.5 * cp.sum_squares(first - 1)
    return BilevelProblem(cp.Minimize(upper), [], lower)


def nonconvex(n: int) -> BilevelProblem:
    """(19) with a = 2, c = 2."""
    x, y = cp.Variable(name="x"), cp.Variable(n, name="y")
    lower = Lower(cp.Minimize(cp.sum(cp.nlp.sin(x + y - 2))), variables=[y])
    return BilevelProblem(cp.Minimize(cp.square(x - 2) + cp.sum_squares(y - 4)), [], lower)


def lasso(n: int) -> BilevelProblem:
    """(20): y = 0 in the first half with x >= 1/n, y = -1/n in the second with x = 0."""
    v = np.repeat([1.0, -1.0], n // 2) / n
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = 0.5 * cp.sum_squares(y - v) + cp.sum(cp.multiply(x, cp.abs(y)))
    lower = Lower(cp.Minimize(g), variables=[y])
    return BilevelProblem(cp.Minimize(cp.sum(y)), [0 <= x, x <= 1], lower)


def group_lasso(
    random: np.random.Generator,
    m: int,
    n_groups: int,
    n_samples: int = 100,
    n_ones: int = 50,
    is_shared: bool = False,
) -> tuple[BilevelProblem, cp.Variable, cp.Variable, tuple[Samples, Samples, Samples]]:
    """One weight for each group of features above, the group lasso below; data as in A.11.

    Three stretches of the true coefficients begin with ones, ``n_ones`` of them in all; the noise gives
    a ratio of signal to noise of 2. ``is_shared``: one weight for all groups. The bound on the weights
    only gives searches a box. Returns problem, x, y, data (training, validation, test).
    """
    truth = np.zeros((3, m // 3))
    for k, part in enumerate(truth):
        part[: (n_ones + 2 - k) // 3] = 1.0
    features = random.standard_normal((3 * n_samples, m))
    signal = features @ truth.ravel()
    noise = random.standard_normal(3 * n_samples)
    labels = signal + noise * np.linalg.norm(signal) / np.linalg.norm(noise) / 2
    (a, b), (c, d), test = zip(np.split(features, 3), np.split(labels, 3), strict=True)
    x, y = cp.Variable(1 if is_shared else n_groups, name="x"), cp.Variable(m, name="y")
    size = m // n_groups
    groups = sum(
        x[0 if is_shared else i] * cp.norm(y[i * size : (i + 1) * size], 2) for i in range(n_groups)
    )
    lower = Lower(cp.Minimize(0.5 * cp.sum_squares(b - a @ y) + groups), variables=[y])
    upper = cp.Minimize(0.5 * cp.sum_squares(d - c @ y))
    return BilevelProblem(upper, [x >= 0, x <= 200], lower), x, y, ((a, b), (c, d), test)
