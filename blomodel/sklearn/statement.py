"""The problem of BilevelCV written in cvxpy: to read, to solve by any method, to certify an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from blomodel.problem import BilevelProblem, Lower
from blomodel.sklearn.followers import Part, centred


def state(
    estimator: str,
    folds: Sequence[tuple[Part, Part]],
    groups: np.ndarray,
    fit_intercept: bool,
    bounds: tuple[float, float],
) -> BilevelProblem:
    """The upper level decides the logarithms of the weights; each fold is a follower."""
    log_weights = cp.Variable(int(groups.max()) + 1, name="log_weights")
    followers, losses = [], []
    for number, (train, test) in enumerate(folds, start=1):
        lower, loss = _fold(estimator, number, train, test, cp.exp(log_weights), fit_intercept)
        followers.append(lower)
        losses.append(loss)
    rows = [log_weights >= bounds[0], log_weights <= bounds[1]]
    return BilevelProblem(cp.Minimize(sum(losses) / len(losses)), rows, followers)


def answer_values(
    estimator: str, problem: BilevelProblem, answers: Sequence[Any], fit_intercept: bool
) -> dict[cp.Variable, np.ndarray]:
    """The followers' answers as values of the problem's variables."""
    values: dict[cp.Variable, np.ndarray] = {}
    for follower, answer in zip(problem.followers, answers, strict=True):
        matrix = answer[:, None] if answer.ndim == 1 else answer
        slopes = follower.variables[0]
        has_row = estimator in ("logistic", "svm") and fit_intercept
        values[slopes] = np.reshape(matrix[:-1] if has_row else matrix, slopes.shape)
        if has_row:
            intercepts = follower.variables[1]
            values[intercepts] = np.reshape(matrix[-1], intercepts.shape)
    return values


def _fold(
    estimator: str, number: int, train: Part, test: Part, weights: cp.Expression, fit_intercept: bool
) -> tuple[Lower, cp.Expression]:
    """One follower and its loss on the part left out."""
    if estimator in ("logistic", "svm"):
        return _classifier(estimator, number, train, test, weights, fit_intercept)
    own, other, _, _ = centred(train, test, fit_intercept)
    w = cp.Variable(own.X.shape[1], name=f"w_{number}")
    misses = cp.sum_squares(own.X @ w - own.Y[:, 0])
    if estimator == "ridge":
        g = misses + _weighted(weights, cp.square(w))
    else:
        n_linear = weights.size // 2 if estimator == "elastic-net" else weights.size
        g = misses / (2 * len(own.X)) + _weighted(weights[:n_linear], cp.abs(w))
        if estimator == "elastic-net":
            g = g + _weighted(weights[n_linear:], cp.square(w)) / 2
    loss = cp.sum_squares(other.X @ w - other.Y[:, 0]) / len(other.X)
    return Lower(cp.Minimize(g), variables=[w], name=f"fold {number}"), loss


def _weighted(weights: cp.Expression, terms: cp.Expression) -> cp.Expression:
    if weights.size == 1:
        return cp.sum(weights) * cp.sum(terms)
    return cp.sum(cp.multiply(weights, terms))


def _classifier(
    estimator: str, number: int, train: Part, test: Part, weights: cp.Expression, fit_intercept: bool
) -> tuple[Lower, cp.Expression]:
    n_outputs = train.Y.shape[1]
    shape = (train.X.shape[1], n_outputs)
    W = cp.Variable(shape, name=f"W_{number}")
    b = cp.Variable((1, n_outputs), name=f"b_{number}")

    def losses(part: Part) -> cp.Expression:
        scores = part.X @ W
        if fit_intercept:
            scores = scores + np.ones((len(part.X), 1)) @ b
        if estimator == "svm":
            return cp.sum(cp.square(cp.pos(1 - cp.multiply(part.Y, scores))))
        if n_outputs == 1:
            return cp.sum(cp.logistic(-cp.multiply(part.Y, scores)))
        return cp.sum(cp.log_sum_exp(scores, axis=1)) - cp.sum(cp.multiply(part.Y, scores))

    g = losses(train) + _weighted(weights, cp.sum(cp.square(W), axis=1)) / 2
    variables = [W, b] if fit_intercept else [W]
    return Lower(cp.Minimize(g), variables=variables, name=f"fold {number}"), losses(test) / len(test.X)
