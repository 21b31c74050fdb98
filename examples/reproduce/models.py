"""The papers' experiments as plain cvxpy models, with the data that the papers describe.

Tests and benchmarks load this file too.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np

import blomodel as bm

# Data hyper-cleaning with a softmax-linear model: one weight for each training sample


def softmax_losses(features, labels, weights, n_classes):
    """Cross entropies of a linear classifier, one for each sample."""
    scores = features @ weights
    return cp.log_sum_exp(scores, axis=1) - cp.sum(
        cp.multiply(np.eye(n_classes)[labels], scores), axis=1
    )


def softmax_cleaning(train, validation, n_classes=10, ridge=1e-3):
    """Sigmoid weights of the training samples above, the classifier fitted to them below.

    ``train`` and ``validation`` are pairs of features and labels. Returns problem, x, weights.
    """
    x = cp.Variable(len(train[1]), name="x")
    weights = cp.Variable((train[0].shape[1], n_classes), name="weights")
    fit = cp.sum(cp.multiply(bm.sigmoid(x), softmax_losses(*train, weights, n_classes)))
    lower = cp.Minimize(fit / len(train[1]) + ridge / 2 * cp.sum_squares(weights))
    upper = cp.Minimize(cp.sum(softmax_losses(*validation, weights, n_classes)) / len(validation[1]))
    return bm.BilevelProblem(upper, [], bm.Lower(lower, variables=[weights])), x, weights


def network_cleaning(train, validation, n_hidden, n_classes=10):
    """The same with a network below: one hidden layer (tanh), no ridge, so that g is not convex.

    Returns problem, x, and the coefficients of both layers; the features hold a column of ones.
    """
    x = cp.Variable(len(train[1]), name="x")
    first = cp.Variable((train[0].shape[1], n_hidden), name="first")
    second = cp.Variable((n_hidden + 1, n_classes), name="second")

    def losses(features, labels):
        hidden = cp.hstack([cp.nlp.tanh(features @ first), np.ones((len(labels), 1))])
        return softmax_losses(hidden, labels, second, n_classes)

    lower = cp.Minimize(cp.sum(cp.multiply(bm.sigmoid(x), losses(*train))) / len(train[1]))
    upper = cp.Minimize(cp.sum(losses(*validation)) / len(validation[1]))
    problem = bm.BilevelProblem(upper, [], bm.Lower(lower, variables=[first, second]))
    return problem, x, first, second


def corrupted(labels, share, random, n_classes=10):
    """Labels of which a share is replaced by another class; also tells which."""
    is_wrong = np.zeros(len(labels), bool)
    is_wrong[random.permutation(len(labels))[: round(share * len(labels))]] = True
    shifted = (labels + random.integers(1, n_classes, len(labels))) % n_classes
    return np.where(is_wrong, shifted, labels), is_wrong


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


def representation_learning(random, n_train=30, n_validation=20, m=40, n=10, h=300, spread=0.01):
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
    lower = bm.Lower(cp.Minimize(0.5 * cp.sum_squares(b - train @ W1 @ W2)), variables=[W2])
    upper = cp.Minimize(0.5 * cp.sum_squares(d - validation @ W1 @ W2))
    return bm.BilevelProblem(upper, [], lower), W1, W2, (train, b, validation, d)


def linear_cleaning(random, n_train=100, n_validation=10, m=200, n=10, bound=3.0, orthogonal=False):
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
    lower = bm.Lower(cp.Minimize(0.5 * cp.sum(cp.multiply(bm.sigmoid(u), errors))), variables=[W])
    upper = cp.Minimize(0.5 * cp.sum_squares(d - validation @ W))
    problem = bm.BilevelProblem(upper, [u >= -bound, u <= bound], lower)
    return problem, u, W, (train, b, validation, d), polluted


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
    inner = {"inner_step_size": 0.5 / _square(train @ W1), "inner_steps": 5}
    return {"step_size": 0.5 / max(in_first, in_second), **inner}


def cleaning_steps(data, gamma):
    """One step for each block, again half of what the curvature allows."""
    train, _, validation, _ = data
    penalised = _square(validation) + gamma * _square(train)
    steps = {"inner_step_size": 0.5 / _square(train), "second_step_size": 0.5 / penalised}
    return {"order": "gauss-seidel", "inner_steps": 1, "step_size": 1.0, **steps}


def _square(matrix):
    return np.linalg.norm(matrix, 2) ** 2


def last_iterate(problem, start, **settings):
    """Where pbgd itself ends; ``start`` has a value for each variable, upper ones first."""
    for variable, value in zip(problem.variables, start, strict=True):
        variable.value = np.reshape(value, variable.shape, order="F")
    problem.solve("pbgd", **{"stop_at": 0.0, **settings})
    return [problem.solution.iterate[variable.name()] for variable in problem.variables]


# Problems of the MEHA paper


def strongly_convex(n, matrix=None):
    """(77): x = y = e/2 for A = I."""
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    matrix = np.eye(n) if matrix is None else matrix
    lower = bm.Lower(cp.Minimize(0.5 * cp.quad_form(y, matrix) - x @ y), variables=[y])
    upper = 0.5 * cp.sum_squares(x - 1) + 0.5 * cp.quad_form(y, matrix)
    return bm.BilevelProblem(cp.Minimize(upper), [], lower)


def merely_convex(n):
    """(18): x = y_1 = y_2 = e."""
    x, first, second = cp.Variable(n, name="x"), cp.Variable(n), cp.Variable(n)
    g = 0.5 * cp.sum_squares(first) - x @ first + 0 * cp.sum(second)
    lower = bm.Lower(cp.Minimize(g), variables=[first, second])
    upper = 0.5 * cp.sum_squares(x - second) + 0.5 * cp.sum_squares(first - 1)
    return bm.BilevelProblem(cp.Minimize(upper), [], lower)


def nonconvex(n):
    """(19) with a = 2, c = 2."""
    x, y = cp.Variable(name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum(cp.nlp.sin(x + y - 2))), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.square(x - 2) + cp.sum_squares(y - 4)), [], lower)


def lasso(n):
    """(20): y = 0 in the first half with x >= 1/n, y = -1/n in the second with x = 0."""
    v = np.repeat([1.0, -1.0], n // 2) / n
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = 0.5 * cp.sum_squares(y - v) + cp.sum(cp.multiply(x, cp.abs(y)))
    lower = bm.Lower(cp.Minimize(g), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum(y)), [0 <= x, x <= 1], lower)


def group_lasso(random, m, n_groups, n_samples=100, n_ones=50, is_shared=False):
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
    lower = bm.Lower(cp.Minimize(0.5 * cp.sum_squares(b - a @ y) + groups), variables=[y])
    upper = cp.Minimize(0.5 * cp.sum_squares(d - c @ y))
    return bm.BilevelProblem(upper, [x >= 0, x <= 200], lower), x, y, ((a, b), (c, d), test)


def meha_settings(data, max_steps):
    """Steps for the group lasso from the curvature L of the training loss.

    The steps of A.11 belong to another scale of the data: 0.05 in y is far above 1 / L here.
    """
    curvature = np.linalg.norm(data[0][0], 2) ** 2
    return {
        "c": 30.0, "p": 0.2, "gamma": 1000 / curvature, "alpha": 30.0, "beta": 0.4 / curvature,
        "eta": 0.5 / curvature, "max_steps": max_steps,
    }  # fmt: skip


def loss(data, y):
    """Half the sum of squared errors."""
    return 0.5 * float(np.sum((data[1] - data[0] @ y) ** 2))
