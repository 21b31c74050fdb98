"""What all kinds of followers share: folds of the data, an evaluation of phi, and the mean over folds.

A follower is the model fitted to the training part of one fold for given weights of its penalty; the
upper level pays the mean loss on the parts left out. Weights are positive and meant by their logarithms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Part:
    """Features and targets of some samples; targets are a column for each output of the model."""

    X: np.ndarray
    Y: np.ndarray


@dataclass(frozen=True)
class Evaluation:
    """phi at x, the logarithms of the weights: validation loss, its slope, the followers' answers."""

    x: np.ndarray
    value: float
    gradient: np.ndarray
    answers: tuple[Any, ...]

    @property
    def y(self) -> np.ndarray:
        """All answers in one vector."""
        return np.concatenate([np.ravel(answer) for answer in self.answers])

    @property
    def is_finite(self) -> bool:
        """Whether the loss is a number."""
        return bool(np.isfinite(self.value) and np.isfinite(self.gradient).all())


class Follower(ABC):
    """One model on one fold, solved exactly for any weights, beginning at the answer before."""

    @abstractmethod
    def answer(self, weights: np.ndarray) -> Any:
        """The fitted model."""

    @abstractmethod
    def loss(self, answer: Any, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss on the part left out, and its slope in the logarithms of the weights."""

    @abstractmethod
    def coefficients(self, answer: Any) -> tuple[np.ndarray, np.ndarray]:
        """Slopes, a column for each output, and intercepts."""


class Followers:
    """All folds together: phi and its gradient, each fold counting the same.

    Parameters
    ----------
    followers : sequence of Follower
    groups : int array
        For each weight that the followers see, the number of the weight that the upper level decides.
    """

    followers: tuple[Follower, ...]
    n_weights: int

    def __init__(self, followers: Sequence[Follower], groups: np.ndarray) -> None:
        self.followers = tuple(followers)
        self.groups = groups
        self.n_weights = int(groups.max()) + 1
        self.seen: list[Evaluation] = []

    def __call__(self, x: np.ndarray) -> Evaluation:
        """Evaluate phi."""
        weights = np.exp(x)[self.groups]
        answers = tuple(follower.answer(weights) for follower in self.followers)
        losses = [f.loss(answer, weights) for f, answer in zip(self.followers, answers, strict=True)]
        slope = np.mean([gradient for _, gradient in losses], axis=0)
        found = Evaluation(
            x=np.array(x, float),
            value=float(np.mean([value for value, _ in losses])),
            gradient=np.bincount(self.groups, slope, self.n_weights),
            answers=answers,
        )
        self.seen.append(found)
        return found

    @property
    def best(self) -> Evaluation:
        """The evaluation with the least loss so far."""
        return min(self.seen, key=lambda evaluation: evaluation.value)


def split(X: np.ndarray, Y: np.ndarray, folds: Iterable[Any]) -> list[tuple[Part, Part]]:
    """Training part and part left out of each fold."""
    return [(Part(X[train], Y[train]), Part(X[test], Y[test])) for train, test in folds]


def centred(train: Part, test: Part, fit_intercept: bool) -> tuple[Part, Part, np.ndarray, np.ndarray]:
    """Both parts less the means of the training part, which is what an intercept amounts to."""
    x_mean, y_mean = train.X.mean(axis=0), train.Y.mean(axis=0)
    if not fit_intercept:
        x_mean, y_mean = np.zeros_like(x_mean), np.zeros_like(y_mean)
    shifted = [Part(part.X - x_mean, part.Y - y_mean) for part in (train, test)]
    return shifted[0], shifted[1], x_mean, y_mean
