"""Lasso and elastic net as followers: |y - X w|^2 / (2 n) + sum of a_j |w_j| + b_j w_j^2 / 2.

They are solved exactly by a search over signs: on the features that are used, with their signs known,
the coefficients solve a linear system. (Lee, Battle, Raina and Ng, 2007, call it feature-sign search.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blomodel.sklearn.followers import Follower, Part, centred

SLACK = 1e-9  # relative; how far the slope of an unused feature may exceed its weight
LIFT = 1e-12  # relative; keeps systems of dependent features solvable


class SparseFollower(Follower):
    """One fold; weights are those of the absolute values, then those of the squares, if any."""

    test: Part
    x_mean: np.ndarray
    y_mean: np.ndarray
    gram: np.ndarray
    products: np.ndarray
    n_features: Any
    lift: Any
    last: np.ndarray

    def __init__(self, train: Part, test: Part, fit_intercept: bool, has_squares: bool) -> None:
        own, self.test, self.x_mean, self.y_mean = centred(train, test, fit_intercept)
        count = len(own.X)
        self.gram = own.X.T @ own.X / count
        self.products = (own.X.T @ own.Y)[:, 0] / count
        self.n_features = own.X.shape[1]
        self.has_squares = has_squares
        self.lift = LIFT * max(np.trace(self.gram) / self.n_features, np.finfo(float).tiny)
        self.last = np.zeros(self.n_features)

    def _parts(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the absolute values and of the squares, one for each feature."""
        n = self.n_features
        return weights[:n], weights[n:] if self.has_squares else np.zeros(n)

    def answer(self, weights: np.ndarray) -> np.ndarray:
        """The coefficients, from those before."""
        linear, square = self._parts(weights)
        w = self.last.copy()
        tolerance = SLACK * (np.abs(self.products).max(initial=0.0) + np.finfo(float).tiny)
        for _ in range(50 + 20 * self.n_features):
            w = self._settle(w, linear, square)
            excess = np.abs(self.gram @ w + square * w - self.products) - linear
            excess[w != 0] = -np.inf
            entering = int(np.argmax(excess))
            if excess[entering] <= tolerance:
                break
            w = self._enter(w, entering, linear, square)
        self.last = w
        return w

    def _enter(self, w: np.ndarray, j: int, linear: np.ndarray, square: np.ndarray) -> np.ndarray:
        """A step of one coefficient off zero, to its own minimum."""
        slope = self.gram[j] @ w - self.products[j]
        w = w.copy()
        curvature = self.gram[j, j] + square[j] + self.lift
        w[j] = -np.sign(slope) * (abs(slope) - linear[j]) / curvature
        return w

    def _settle(self, w: np.ndarray, linear: np.ndarray, square: np.ndarray) -> np.ndarray:
        """Minimise over the used features with their signs; those that would change sign are dropped."""
        while True:
            used = np.flatnonzero(w)
            if not used.size:
                return w
            signs = np.sign(w[used])
            goal = np.linalg.solve(
                self._matrix(used, square), self.products[used] - linear[used] * signs
            )
            crossing = np.sign(goal) != signs
            if not crossing.any():
                w = np.zeros_like(w)
                w[used] = goal
                return w
            # As far as the first coefficient reaches zero; up to there the signs hold and g falls.
            now = w[used]
            steps = now[crossing] / (now[crossing] - goal[crossing])
            moved = now + steps.min() * (goal - now)
            moved[np.flatnonzero(crossing)[np.argmin(steps)]] = 0.0
            w = np.zeros_like(w)
            w[used] = moved

    def _matrix(self, used: np.ndarray, square: np.ndarray) -> np.ndarray:
        return self.gram[np.ix_(used, used)] + np.diag(square[used] + self.lift)

    def loss(self, answer: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and slope; signs of used features stay as they are."""
        misses = self.test.X @ answer - self.test.Y[:, 0]
        value, slope = float(np.mean(misses**2)), 2 / misses.size * (self.test.X.T @ misses)
        linear, square = self._parts(weights)
        gradient = np.zeros(len(weights))
        used = np.flatnonzero(answer)
        if used.size:
            adjoint = np.linalg.solve(self._matrix(used, square), slope[used])
            gradient[used] = -adjoint * np.sign(answer[used]) * linear[used]
            if self.has_squares:
                gradient[self.n_features + used] = -adjoint * answer[used] * square[used]
        return value, gradient

    def coefficients(self, answer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slopes and intercept."""
        return answer[:, None], self.y_mean - self.x_mean @ answer
