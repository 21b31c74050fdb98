"""Problems of the paper on global optimality: hyper-cleaning and representation learning."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from blomodel.atoms import sigmoid
from blomodel.problem import BilevelProblem, Lower

Samples = tuple[np.ndarray, np.ndarray]  # features and labels, a sample in each row
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # training, then validation data


def example_1() -> BilevelProblem:
    """Example 1: PL at both levels, yet u -> f(u, v(u)) is not; the penalty objective is."""
    u, v = cp.Variable(name="u"), cp.Variable(name="v")
    lower = Lower(cp.Minimize(0.5 * (u - v) ** 2), variables=[v])
    return BilevelProblem(cp.Minimize(0.5 * (u - 2 * cp.nlp.sin(v)) ** 2), [], lower)


def softmax_losses(
    features: Any, labels: np.ndarray, weights: cp.Expression, n_classes: int
) -> cp.Expression:
    """Cross entropies of a linear classifier, one for each sample."""
    scores = features @ weights
    return cp.log_sum_exp(scores, axis=1) - cp.sum(
        cp.multiply(np.eye(n_classes)[labels], scores), axis=1
    )


def softmax_cleaning(
    train: Samples, validation: Samples, n_classes: int = 10, ridge: float = 1e-3
) -> tuple[BilevelProblem, cp.Variable, cp.Variable]:
    """Sigmoid weights of the training samples above, the classifier fitted to them below.

    ``train`` and ``validation`` are pairs of features and labels. Returns problem, x, weights.
    """
    x = cp.Variable(len(train[1]), name="x")
    weights = cp.Variable((train[0].shape[1], n_classes), name="weights")
    fit = cp.sum(cp.multiply(sigmoid(x), softmax_losses(*train, weights, n_classes)))
    lower = cp.Minimize(fit / len(train[1]) + ridge / 2 * cp.sum_squares(weights))
    upper = cp.Minimize(cp.sum(softmax_losses(*validation, weights, n_classes)) / len(validation[1]))
    return BilevelProblem(upper, [], Lower(lower, variables=[weights])), x, weights


def network_cleaning(
    train: Samples, validation: Samples, n_hidden: int, n_classes: int = 10
) -> tuple[BilevelProblem, cp.Variable, cp.Variable, cp.Variable]:
    """The same with a network below: one hidden layer (tanh), no ridge, so that g is not convex.

    Returns problem, x, and the coefficients of both layers; the features hold a column of ones.
    """
    x = cp.Variable(len(train[1]), name="x")
    first = cp.Variable((train[0].shape[1], n_hidden), name="first")
    second = cp.Variable((n_hidden + 1, n_classes), name="second")

    def losses(features: np.ndarray, labels: np.ndarray) -> cp.Expression:
        hidden = cp.hstack([cp.nlp.tanh(features @ first), np.ones((len(labels), 1))])
        return softmax_losses(hidden, labels, second, n_classes)

    lower = cp.Minimize(cp.sum(cp.multiply(sigmoid(x), losses(*train))) / len(train[1]))
    upper = cp.Minimize(cp.sum(losses(*validation)) / len(validation[1]))
    problem = BilevelProblem(upper, [], Lower(lower, variables=[first, second]))
    return problem, x, first, second


def corrupted(
    labels: np.ndarray, share: float, random: np.random.Generator, n_classes: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """Labels of which a share is replaced by another class; also tells which."""
    is_wrong = np.zeros(len(labels), bool)
    is_wrong[random.permutation(len(labels))[: round(share * len(labels))]] = True
    shifted = (labels + random.integers(1, n_classes, len(labels))) % n_classes
    return np.where(is_wrong, shifted, labels), is_wrong


def representation_learning(
    random: np.random.Generator,
    n_train: int = 30,
    n_validation: int = 20,
    m: int = 40,
    n: int = 10,
    h: int = 300,
    spread: float = 0.01,
) -> tuple[BilevelProblem, cp.Variable, cp.Variable, Arrays]:
    """H.1: the first layer above, the second below; both fit linear networks with squared errors.

    The second number of N(5, 0.01) is read as a standard deviation: the errors then end near the 1e-5
    of the paper. The paper's formula for the validation labels holds the training features, whose number
    of rows does not fit; the validation features must be meant. Returns problem, W1, W2, data.
    """
    train = random.normal(5, spread, (n_train, m))
    validation = random.normal(-3, spread, (n_validation, m))
    first, second = random.normal(0, 0.01, (m, h)), random.normal(2, 0.01, (h, n))
    own = random.normal(second, 0.001)
    b = random.normal(train @ first @ second, 0.01)
    d = random.normal(validation @ first @ own, 0.01)
    W1, W2 = cp.Variable((m, h), name="W1"), cp.Variable((h, n), name="W2")
    lower = Lower(cp.Minimize(0.5 * cp.sum_squares(b - train @ W1 @ W2)), variables=[W2])
    upper = cp.Minimize(0.5 * cp.sum_squares(d - validation @ W1 @ W2))
    return BilevelProblem(upper, [], lower), W1, W2, (train, b, validation, d)


def linear_cleaning(
    random: np.random.Generator,
    n_train: int = 100,
    n_validation: int = 10,
    m: int = 200,
    n: int = 10,
    bound: float = 3.0,
    orthogonal: bool = False,
) -> tuple[BilevelProblem, cp.Variable, cp.Variable, Arrays, np.ndarray]:
    """H.2: hyper-cleaning of a linear regression, a fifth of the training labels polluted.

    ``orthogonal`` makes all samples orthogonal to each other, as Theorem 3 supposes. Returns problem, u,
    W, data, polluted.
    """
    train = random.normal(5, 0.01, (n_train, m))
    validation = random.normal(-3, 0.01, (n_validation, m))
    if orthogonal:
        rows = np.linalg.qr(random.standard_normal((m, n_train + n_validation)))[0].T
        train, validation = np.split(2 * rows, [n_train])
    truth = random.normal(1, 0.01, (m, n))
    polluted = random.random(n_train) < 0.2
    b = random.normal(train @ truth, 0.01) + polluted[:, None] * random.normal(10, 10, (n_train, n))
    d = random.normal(validation @ truth, 0.001)
    u, W = cp.Variable(n_train, name="u"), cp.Variable((m, n), name="W")
    errors = cp.sum(cp.square(b - train @ W), axis=1)
    lower = Lower(cp.Minimize(0.5 * cp.sum(cp.multiply(sigmoid(u), errors))), variables=[W])
    upper = cp.Minimize(0.5 * cp.sum_squares(d - validation @ W))
    problem = BilevelProblem(upper, [u >= -bound, u <= bound], lower)
    return problem, u, W, (train, b, validation, d), polluted
