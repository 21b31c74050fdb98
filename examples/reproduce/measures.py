"""What the papers' experiments measure, and the settings and starts that they need.

The models are in ``blomodel.problems``; tests and benchmarks load this file too.
"""

from __future__ import annotations

import numpy as np

from .paths import on_the_way


def f1_score(found, truth):
    """Harmonic mean of precision and recall."""
    return 2 * np.sum(found & truth) / (np.sum(found) + np.sum(truth))


class SoftmaxPbgd:
    """Algorithm 2 of the paper on global optimality for softmax cleaning, by hand in NumPy.

    Scores that the next iteration needs again are kept, which leaves six matrix products: two for each
    of the gradients of f, of g at y and of g at w. All matrices hold one sample in each column: BLAS is
    about twice as fast at these products, and sums over classes run along whole rows.
    """

    def __init__(self, train, validation, n_classes=10, ridge=1e-3, gamma=1.0):
        self.a, self.b = np.ascontiguousarray(train[0].T), np.eye(n_classes)[:, train[1]]
        self.c, self.d = np.ascontiguousarray(validation[0].T), np.eye(n_classes)[:, validation[1]]
        self.ridge, self.gamma = ridge, gamma
        self.x = np.zeros(len(train[1]))
        self.w = np.zeros((n_classes, len(self.a)))
        self.y = self.w.copy()
        self.w_scores = self.y_scores = self.w @ self.a

    @staticmethod
    def losses(scores, targets):
        """Cross entropies of the samples, and their slopes in the scores."""
        top = scores.max(axis=0)
        powers = np.exp(scores - top)
        total = powers.sum(axis=0)
        return top + np.log(total) - (scores * targets).sum(axis=0), powers / total - targets

    def iterate(self, step_x, step_w, step_y):
        """One iteration: w, then y, then x."""
        n, weights = len(self.x), 1 / (1 + np.exp(-self.x))
        residual = self.losses(self.w_scores, self.b)[1]
        slope = (weights * residual) @ self.a.T / n + self.ridge * self.w
        self.w = self.w - step_w * slope
        residual = self.losses(self.y_scores, self.b)[1]
        slope = (weights * residual) @ self.a.T / n + self.ridge * self.y
        outer = self.losses(self.y @ self.c, self.d)[1]
        self.y = self.y - step_y * (outer @ self.c.T / self.d.shape[1] + self.gamma * slope)
        self.w_scores, self.y_scores = self.w @ self.a, self.y @ self.a
        gap = self.losses(self.y_scores, self.b)[0] - self.losses(self.w_scores, self.b)[0]
        self.x = self.x - step_x * self.gamma * weights * (1 - weights) * gap / n


# Appendix H of the paper on global optimality


def network_errors(data, W1, W2):
    """Upper value and lower gap of a linear network; the best second layer in closed form."""
    train, b, validation, d = data
    hidden = train @ W1
    best = 0.5 * np.sum((b - hidden @ (np.linalg.pinv(hidden) @ b)) ** 2)
    return 0.5 * np.sum((d - validation @ W1 @ W2) ** 2), 0.5 * np.sum((b - hidden @ W2) ** 2) - best


def best_network(data, gamma=None):
    """The least upper value and lower gap that any network has, for the penalty gamma or exactly.

    Only the product M = W1 W2 counts, and h is at least as large as all ranks: least squares in M. The
    lower level fits its labels exactly, since there are more features than training samples.
    """
    train, b, validation, d = data
    if gamma is None:
        free = np.linalg.svd(train)[2][len(train) :].T
        M = np.linalg.pinv(train) @ b
        M = M + free @ np.linalg.lstsq(validation @ free, d - validation @ M, rcond=None)[0]
    else:
        weighted = np.sqrt(gamma) * train, np.sqrt(gamma) * b
        M = np.linalg.lstsq(np.vstack([validation, weighted[0]]), np.vstack([d, weighted[1]]))[0]
    return 0.5 * np.sum((d - validation @ M) ** 2), 0.5 * np.sum((b - train @ M) ** 2)


def cleaning_errors(data, u, W):
    """Upper value and lower gap of the weighted regression; its best W in closed form."""
    train, b, validation, d = data
    root = 1 / np.sqrt(1 + np.exp(-u))[:, None]
    best = 0.5 * np.sum((root * (b - train @ (np.linalg.pinv(root * train) @ (root * b)))) ** 2)
    return 0.5 * np.sum((d - validation @ W) ** 2), 0.5 * np.sum((root * (b - train @ W)) ** 2) - best


def network_start(random, W1, W2):
    """A first layer drawn as the true one; a second whose columns point in all directions.

    The paper does not tell its start. Columns that are nearly equal, as those of the true second layer,
    would leave all differences between the outputs to directions with hardly any curvature.
    """
    return random.normal(0, 0.01, W1.shape), random.normal(0, 1, W2.shape)


def network_steps(data, start, gamma):
    """Half of what the curvature at the start allows; the paper's grid search is not printed."""
    (train, _, validation, _), (W1, W2) = data, start
    in_first = (_square(validation) + gamma * _square(train)) * _square(W2)
    in_second = _square(validation @ W1) + gamma * _square(train @ W1)
    inner = {"step_y": 0.5 / _square(train @ W1), "inner_steps": 5}
    return {"step_x": 0.5 / max(in_first, in_second), **inner}


def cleaning_steps(data, gamma):
    """One step for each block, again half of what the curvature allows."""
    train, _, validation, _ = data
    penalised = _square(validation) + gamma * _square(train)
    steps = {"step_y": 0.5 / _square(train), "step_y_penalised": 0.5 / penalised}
    return {"order": "gauss-seidel", "inner_steps": 1, "step_x": 1.0, **steps}


def _square(matrix):
    return np.linalg.norm(matrix, 2) ** 2


def last_iterate(problem, start, **settings):
    """Where pbgd itself ends; ``start`` has a value for each variable, upper ones first."""
    for variable, value in zip(problem.variables, start, strict=True):
        variable.value = np.reshape(value, variable.shape, order="F")
    problem.solve("pbgd", **{"stop_at": 0.0, **settings})
    return [problem.solution.iterate[variable.name()] for variable in problem.variables]


def iterates_of(problem, start, counts, **settings):
    """Where pbgd stands after each number of iterations: a value for each variable, upper ones first."""
    names = [variable.name() for variable in problem.variables]
    first = dict(zip(names, start, strict=True))
    points, _ = on_the_way(problem, "pbgd", first, counts, **{"stop_at": 0.0, **settings})
    return [[point[name] for name in names] for point in points]


def meha_settings(data, max_steps):
    """Steps for the group lasso from the curvature L of the training loss.

    The steps of A.11 belong to another scale of the data: 0.05 in y is far above 1 / L here.
    """
    curvature = np.linalg.norm(data[0][0], 2) ** 2
    return {
        "penalty": 30.0, "penalty_power": 0.2, "proximal": 1000 / curvature, "step_x": 30.0,
        "step_y": 0.4 / curvature, "step_theta": 0.5 / curvature, "max_steps": max_steps,
    }  # fmt: skip


def loss(data, y):
    """Half the sum of squared errors."""
    return 0.5 * float(np.sum((data[1] - data[0] @ y) ** 2))
