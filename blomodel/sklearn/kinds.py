"""The models that BilevelCV knows: their followers, weights, and words for them in scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from blomodel.sklearn.classifiers import LogisticFollower, SoftmaxFollower, SquaredHingeFollower
from blomodel.sklearn.followers import Follower, Part
from blomodel.sklearn.lasso import SparseFollower
from blomodel.sklearn.ridge import FeatureRidge, SharedRidge

Maker = Callable[[Part, Part], Follower]
SHARES = (0.05, 0.3, 0.6, 0.9)  # of the absolute values in an elastic net, in the scan
SPARSE_SPAN = 1e-5  # of the weight above which all coefficients are zero: the least one that is scanned


@dataclass(frozen=True)
class Kind:
    """One model.

    Attributes
    ----------
    name : str
    is_classifier, has_probabilities : bool
    n_parts : int
        Penalties with a weight of their own: two in an elastic net.
    n_places : int
        Evaluations of the scan, fewer where one takes long.
    """

    name: str
    is_classifier: bool = False
    has_probabilities: bool = False
    n_parts: int = 1
    n_places: int = 30

    def maker(self, n_outputs: int, per_feature: bool, fit_intercept: bool) -> Maker:
        """What makes a follower of a training part and a part left out."""
        if self.name == "ridge":
            return partial(FeatureRidge if per_feature else SharedRidge, fit_intercept=fit_intercept)
        if not self.is_classifier:
            has_squares = self.n_parts == 2
            return partial(SparseFollower, fit_intercept=fit_intercept, has_squares=has_squares)
        if self.name == "svm":
            return partial(SquaredHingeFollower, fit_intercept=fit_intercept)
        cls = LogisticFollower if n_outputs == 1 else SoftmaxFollower
        return partial(cls, fit_intercept=fit_intercept)

    def groups(self, n_features: int, per_feature: bool) -> np.ndarray:
        """For each weight of a follower, the number of the weight that the upper level decides."""
        if per_feature:
            return np.arange(self.n_parts * n_features)
        if self.name == "ridge":
            return np.zeros(1, int)  # one number is enough for its closed form
        return np.repeat(np.arange(self.n_parts), n_features)

    def group_of_part(self, groups: np.ndarray) -> np.ndarray:
        """The same as ``groups`` where all features share their weight."""
        return np.repeat(np.arange(self.n_parts), len(groups) // self.n_parts)

    def targets(self, numbers: np.ndarray, n_classes: int) -> np.ndarray:
        """Columns of targets of the numbers of the classes."""
        if n_classes == 2:
            return np.where(numbers == 1, 1.0, -1.0)[:, None]
        ones = np.eye(n_classes)[numbers]
        return ones if self.name == "logistic" else 2 * ones - 1

    def places(self, X: np.ndarray, Y: np.ndarray, low: float, high: float) -> np.ndarray:
        """Logarithms of weights to scan, a choice in each row, large weights first."""
        if self.name in ("ridge", "logistic", "svm"):
            return np.linspace(high, low, self.n_places)[:, None]
        # Above this weight of the absolute values all coefficients are zero.
        products = np.abs((X - X.mean(axis=0)).T @ (Y - Y.mean(axis=0)))
        top = np.log(max(float(products.max(initial=0.0)) / len(X), np.finfo(float).tiny))
        if self.n_parts == 1:
            first, last = min(top, high), max(top + np.log(SPARSE_SPAN), low)
            if first <= last:  # the bounds leave out all weights that matter
                return np.linspace(high, low, self.n_places)[:, None]
            return np.linspace(first, last, self.n_places)[:, None]
        alphas = np.linspace(top, top + np.log(SPARSE_SPAN), self.n_places // len(SHARES))
        grid = [(a + np.log(share), a + np.log1p(-share)) for share in SHARES for a in alphas]
        return np.clip(grid, low, high)

    def params(self, weights: np.ndarray, per_feature: bool) -> dict[str, Any]:
        """The weights in the words of scikit-learn's estimator."""
        if self.is_classifier:
            return {"C": 1 / weights if per_feature else float(1 / weights[0])}
        if self.n_parts == 1:
            return {"alpha": weights if per_feature else float(weights[0])}
        linear, square = np.split(weights, 2)
        alpha, ratio = linear + square, linear / (linear + square)
        if per_feature:
            return {"alpha": alpha, "l1_ratio": ratio}
        return {"alpha": float(alpha[0]), "l1_ratio": float(ratio[0])}


KINDS = {
    kind.name: kind
    for kind in (
        Kind("ridge", n_places=60),
        Kind("lasso", n_places=30),
        Kind("elastic-net", n_parts=2, n_places=32),
        Kind("logistic", is_classifier=True, has_probabilities=True, n_places=14),
        Kind("svm", is_classifier=True, n_places=14),
    )
}
