"""GALET for hyper-cleaning in NumPy: the iterates of the library alone, for long runs on MNIST."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import expit, log_softmax

from .cleaning import Data

RIDGE = 1e-3  # of the lower level, as in softmax_cleaning
CLASSES = 10


def galet(
    train: Data,
    validation: Data,
    n_iterations: int,
    *,
    step_x: float,
    step_y: float,
    step_shadow: float,
    inner_steps: int,
    shadow_steps: int,
    restart: bool,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """x and the weights after each iteration of Algorithm 1; w begins at 0 each time, or is kept."""
    (features, labels), (seen, truth) = train, validation
    n, wanted, right = len(labels), np.eye(CLASSES)[labels], np.eye(CLASSES)[truth]
    x, y = np.zeros(n), np.zeros((features.shape[1], CLASSES))
    w = np.zeros_like(y)
    for _ in range(n_iterations):
        share = (expit(x) / n)[:, None]
        for _ in range(inner_steps):  # (10)
            errors = np.exp(log_softmax(features @ y, axis=1)) - wanted
            y = y - step_y * (features.T @ (share * errors) + RIDGE * y)
        chances = np.exp(log_softmax(features @ y, axis=1))
        slope = seen.T @ (np.exp(log_softmax(seen @ y, axis=1)) - right) / len(truth)

        def curved(
            v: np.ndarray, share: np.ndarray = share, chances: np.ndarray = chances
        ) -> np.ndarray:
            """The lower Hessian times v."""
            scores = chances * (features @ v)
            scores -= chances * scores.sum(axis=1, keepdims=True)
            return features.T @ (share * scores) + RIDGE * v

        if restart:
            w = np.zeros_like(y)
        for _ in range(shadow_steps):  # (12b)
            w = w - step_shadow * curved(slope + curved(w))
        weight = expit(x)
        x = x - step_x * weight * (1 - weight) / n * ((chances - wanted) * (features @ w)).sum(axis=1)
        yield x, y
