"""Ridge regression as a follower: ||Y - X W||^2 + sum of weight_j ||W_j||^2, in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from blomodel.sklearn.followers import Follower, Part, centred


class _Ridge(Follower):
    """Normal equations of one fold; the outputs are columns."""

    test: Part
    x_mean: np.ndarray
    y_mean: np.ndarray
    gram: np.ndarray
    products: np.ndarray

    def __init__(self, train: Part, test: Part, fit_intercept: bool) -> None:
        own, self.test, self.x_mean, self.y_mean = centred(train, test, fit_intercept)
        self.gram = own.X.T @ own.X
        self.products = own.X.T @ own.Y

    def coefficients(self, answer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slopes and intercepts."""
        return answer, self.y_mean - self.x_mean @ answer

    def _misses(self, answer: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean square on the part left out, and its slope in the coefficients."""
        misses = self.test.X @ answer - self.test.Y
        return float(np.mean(misses**2)), 2 / misses.size * (self.test.X.T @ misses)


class SharedRidge(_Ridge):
    """One weight for all features: the eigenvectors of the Gram matrix serve all weights."""

    vectors: np.ndarray
    values: np.ndarray
    rotated: np.ndarray

    def __init__(self, train: Part, test: Part, fit_intercept: bool) -> None:
        super().__init__(train, test, fit_intercept)
        values, self.vectors = np.linalg.eigh(self.gram)
        self.values = np.maximum(values, 0.0)[:, None]
        self.rotated = self.vectors.T @ self.products

    def answer(self, weights: np.ndarray) -> np.ndarray:
        """The coefficients."""
        return self.vectors @ (self.rotated / (self.values + weights[0]))

    def loss(self, answer: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and slope; the coefficients' derivative has the same eigenvectors."""
        value, slope = self._misses(answer)
        moved = -self.vectors @ (self.rotated / (self.values + weights[0]) ** 2)
        return value, np.array([np.sum(slope * moved) * weights[0]])


class FeatureRidge(_Ridge):
    """A weight for each feature."""

    factor: Any

    def answer(self, weights: np.ndarray) -> np.ndarray:
        """The coefficients."""
        self.factor = scipy.linalg.cho_factor(self.gram + np.diag(weights))
        return scipy.linalg.cho_solve(self.factor, self.products)

    def loss(self, answer: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and slope, by one solve with the factor that the answer left behind."""
        value, slope = self._misses(answer)
        adjoint = scipy.linalg.cho_solve(self.factor, slope)
        return value, -np.sum(adjoint * answer, axis=1) * weights
