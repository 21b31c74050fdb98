"""Logistic regression and the linear support vector machine as followers, by Newton's method.

g = sum of losses of the scores X W + b, plus weight_j / 2 times |W_j|^2. Intercepts carry no penalty.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import scipy.linalg
from scipy.special import expit, log_softmax, softmax

from blomodel.sklearn.followers import Follower, Part

ACCURACY = 1e-10  # of the gradient of g, relative to that at zero
LIFT = 1e-14  # relative to the Gram matrix; keeps rounding from making a Hessian indefinite
ENOUGH = (
    0.1  # a step that brings the slope down by this much may be followed by one with the same Hessian
)
MAX_STEPS = 200


class Classifier(Follower):
    """One fold; the unknowns are a matrix: a row for each feature, at its end one for the intercepts."""

    train: Part
    test: Part
    last: np.ndarray
    lift: float
    scale: float

    def __init__(self, train: Part, test: Part, fit_intercept: bool) -> None:
        self.fit_intercept = fit_intercept
        self.train, self.test = self._extended(train), self._extended(test)
        self.last = np.zeros((self.train.X.shape[1], train.Y.shape[1]))
        self.lift = LIFT * (float(np.max(np.sum(self.train.X**2, axis=0))) + 1e-300)
        self.scale = float(np.abs(self.train.X.T @ self._first(self.train, 0 * train.Y)).max()) + 1e-300

    def _extended(self, part: Part) -> Part:
        if not self.fit_intercept:
            return part
        return Part(np.column_stack([part.X, np.ones(len(part.X))]), part.Y)

    @abstractmethod
    def _sum(self, part: Part, scores: np.ndarray) -> float:
        """Sum of the losses."""

    @abstractmethod
    def _first(self, part: Part, scores: np.ndarray) -> np.ndarray:
        """Derivatives of the losses in the scores."""

    @abstractmethod
    def _factors(self, scores: np.ndarray, penalty: np.ndarray) -> list[tuple[np.ndarray, bool]]:
        """Factors of the Hessian of g: one for all outputs, or one for each."""

    def _penalty(self, weights: np.ndarray) -> np.ndarray:
        """Weights of all rows; that of the intercepts is zero."""
        return np.append(weights, 0.0) if self.fit_intercept else weights

    def answer(self, weights: np.ndarray) -> np.ndarray:
        """The matrix of coefficients, from the one before."""
        penalty = self._penalty(weights)[:, None]
        W, X = self.last, self.train.X
        scores = X @ W
        value = self._sum(self.train, scores) + 0.5 * float(np.sum(penalty * W**2))
        factors, before = None, np.inf
        for _ in range(MAX_STEPS):
            slope = X.T @ self._first(self.train, scores) + penalty * W
            level = np.abs(slope).max()
            if level <= ACCURACY * self.scale:
                break
            if factors is None or level > ENOUGH * before:
                factors = self._factors(scores, penalty[:, 0])
            before = level
            direction = -self._solve(factors, slope)
            along, step = X @ direction, 1.0
            fall = float(np.sum(slope * direction))
            while step > 1e-12:
                tried = W + step * direction
                new_scores = scores + step * along
                new = self._sum(self.train, new_scores) + 0.5 * float(np.sum(penalty * tried**2))
                if new <= value + 1e-4 * step * fall or abs(step * fall) <= 1e-14 * (1 + abs(value)):
                    break
                step /= 2
            else:
                break  # rounding allows no better point
            W, scores, value = tried, new_scores, new
        self.last = W
        return W

    @staticmethod
    def _solve(factors: list[tuple[np.ndarray, bool]], right: np.ndarray) -> np.ndarray:
        if len(factors) == 1:
            return scipy.linalg.cho_solve(factors[0], right.ravel()).reshape(right.shape)
        solved = [
            scipy.linalg.cho_solve(factor, column)
            for factor, column in zip(factors, right.T, strict=True)
        ]
        return np.column_stack(solved)

    def loss(self, answer: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean loss of the part left out, and its slope by one solve with the Hessian of g."""
        scores, count = self.test.X @ answer, len(self.test.X)
        slope = self.test.X.T @ self._first(self.test, scores) / count
        factors = self._factors(self.train.X @ answer, self._penalty(weights))
        adjoint = self._solve(factors, slope)
        gradient = -np.sum(adjoint * answer, axis=1)[: len(weights)] * weights
        return self._sum(self.test, scores) / count, gradient

    def coefficients(self, answer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slopes, a column for each output, and intercepts."""
        if self.fit_intercept:
            return answer[:-1], answer[-1]
        return answer, np.zeros(answer.shape[1])

    def _factor(self, hessian: np.ndarray) -> tuple[np.ndarray, bool]:
        hessian.flat[:: len(hessian) + 1] += self.lift
        factor: tuple[np.ndarray, bool] = scipy.linalg.cho_factor(hessian, overwrite_a=True)
        return factor

    def _columns(self, curvatures: np.ndarray, penalty: np.ndarray) -> list[tuple[np.ndarray, bool]]:
        """Factors for outputs that do not touch each other."""
        X = self.train.X
        return [self._factor((X * column[:, None]).T @ X + np.diag(penalty)) for column in curvatures.T]


class LogisticFollower(Classifier):
    """Two classes: labels -1 and 1, one output."""

    def _sum(self, part: Part, scores: np.ndarray) -> float:
        return float(np.sum(np.logaddexp(0.0, -part.Y * scores)))

    def _first(self, part: Part, scores: np.ndarray) -> np.ndarray:
        return -part.Y * expit(-part.Y * scores)

    def _factors(self, scores: np.ndarray, penalty: np.ndarray) -> list[tuple[np.ndarray, bool]]:
        return self._columns(expit(scores) * expit(-scores), penalty)


class SoftmaxFollower(Classifier):
    """Several classes: a column of zeros and ones for each."""

    def _sum(self, part: Part, scores: np.ndarray) -> float:
        return -float(np.sum(part.Y * log_softmax(scores, axis=1)))

    def _first(self, part: Part, scores: np.ndarray) -> np.ndarray:
        return softmax(scores, axis=1) - part.Y

    def _factors(self, scores: np.ndarray, penalty: np.ndarray) -> list[tuple[np.ndarray, bool]]:
        shares, X = softmax(scores, axis=1), self.train.X
        (n, p), k = X.shape, scores.shape[1]
        # The sum of s_i s_i' is a product of one wide matrix with itself; diagonal blocks come apart.
        wide = (X[:, :, None] * shares[:, None, :]).reshape(n, p * k)
        hessian = -(wide.T @ wide)
        blocks = hessian.reshape(p, k, p, k)
        for c in range(k):
            blocks[:, c, :, c] += (X * shares[:, [c]]).T @ X + np.diag(penalty)
        if self.fit_intercept:
            # Shifting all intercepts alike changes no loss: no slope has a part along that direction, so
            # that curvature along it changes no answer.
            blocks[-1, :, -1, :] += 1.0
        return [self._factor(hessian)]


class SquaredHingeFollower(Classifier):
    """Labels -1 and 1, a column for each class if there are more than two."""

    def _sum(self, part: Part, scores: np.ndarray) -> float:
        return float(np.sum(np.maximum(1.0 - part.Y * scores, 0.0) ** 2))

    def _first(self, part: Part, scores: np.ndarray) -> np.ndarray:
        return -2.0 * part.Y * np.maximum(1.0 - part.Y * scores, 0.0)

    def _factors(self, scores: np.ndarray, penalty: np.ndarray) -> list[tuple[np.ndarray, bool]]:
        missed = self.train.Y * scores < 1.0
        return self._columns(2.0 * missed, penalty)
