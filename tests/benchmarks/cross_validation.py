"""BilevelCV beside GridSearchCV with thirty points: loss and processor seconds on one thread.

``OMP_NUM_THREADS=1 python tests/benchmarks/cross_validation.py [DATA ...]`` prints the table of the
page on cross-validation.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import LinearSVC

from blomodel.sklearn import BilevelCV

WEIGHTS = np.logspace(-4, 1, 30)
Data = tuple[np.ndarray, np.ndarray]


def data(name: str) -> Data:
    """Features and targets, standardised (digits: divided by 16)."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16, y
    X, y = (load_breast_cancer if name == "breast cancer" else load_diabetes)(return_X_y=True)
    if name.endswith("degree 2"):
        X = PolynomialFeatures(2, include_bias=False).fit_transform(X)
    return StandardScaler().fit_transform(X), y


def squared_hinge(y: np.ndarray, decision: np.ndarray) -> float:
    """The loss of BilevelCV("svm") for two classes."""
    return float(np.mean(np.maximum(0, 1 - np.where(y == 1, 1, -1) * decision) ** 2))


def grid(kind: str, name: str) -> GridSearchCV:
    """The search over thirty points with the same loss and folds."""
    square, strengths = "neg_mean_squared_error", np.logspace(-4, 4, 30)
    if kind == "ridge":
        return GridSearchCV(Ridge(), {"alpha": np.logspace(-3, 4, 30)}, scoring=square, cv=5)
    if kind == "lasso":
        return GridSearchCV(Lasso(), {"alpha": np.logspace(-4, 1.5, 30)}, scoring=square, cv=5)
    if kind == "elastic-net":
        both = {"alpha": np.logspace(-3, 1.5, 6), "l1_ratio": [0.1, 0.3, 0.5, 0.7, 0.9]}
        return GridSearchCV(ElasticNet(), both, scoring=square, cv=5)
    if kind == "logistic":
        converged = {"solver": "newton-cg", "tol": 1e-8} if name == "digits" else {"tol": 1e-8}
        model = LogisticRegression(max_iter=10_000, **converged)
        return GridSearchCV(model, {"C": strengths}, scoring="neg_log_loss", cv=5)
    scorer = make_scorer(squared_hinge, greater_is_better=False, response_method="decision_function")
    model = LinearSVC(intercept_scaling=100, max_iter=100_000)
    return GridSearchCV(model, {"C": strengths}, scoring=scorer, cv=5)


CASES = {
    "diabetes": ("ridge", "lasso", "elastic-net"),
    "diabetes, degree 2": ("ridge", "lasso", "elastic-net"),
    "breast cancer": ("logistic", "svm"),
    "digits": ("logistic",),
}


def seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    """What the work returns, and the processor time that it takes."""
    began = time.process_time()
    done = work()
    return done, time.process_time() - began


def rows(names: list[str]) -> Iterator[tuple[str, str, float, float, float, float]]:
    """Data, model, both losses, both times."""
    for name in names:
        X, y = data(name)
        for kind in CASES[name]:
            search, plain = seconds(lambda kind=kind, name=name: grid(kind, name).fit(X, y))  # noqa: B023
            model, own = seconds(lambda kind=kind: BilevelCV(kind).fit(X, y))  # noqa: B023
            yield name, kind, -search.best_score_, model.best_loss_, plain, own


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, kind, loss, own_loss, plain, own in rows(sys.argv[1:] or list(CASES)):
        verdict = "ok" if own_loss <= loss * (1 + 1e-6) and own <= 3 * plain else "MISSED"
        print(
            f"| {name} | {kind} | {loss:.6g} | {own_loss:.6g} | {plain:.2f} | {own:.2f} | {verdict}",
            flush=True,
        )
