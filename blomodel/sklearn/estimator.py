"""A linear model whose penalty weights are chosen by a bilevel problem, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import check_cv
from sklearn.utils import ClassifierTags, RegressorTags, Tags, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from blomodel.sklearn.followers import Evaluation, Followers, Part, split
from blomodel.sklearn.kinds import KINDS, Kind
from blomodel.sklearn.searching import descend, search_many, search_one
from blomodel.solvers.threads import one_blas_thread

if TYPE_CHECKING:
    from blomodel.certification.certificate import Certificate
    from blomodel.problem import BilevelProblem


def _is(wanted: Callable[[Kind], bool]) -> Callable[[Any], bool]:
    """A test for methods that only some kinds of models have."""
    return lambda self: self.estimator in KINDS and wanted(KINDS[self.estimator])


class BilevelCV(BaseEstimator):
    """A linear model whose penalty weights minimise the loss of cross-validation.

    It is what ``GridSearchCV`` does over a grid, as a bilevel problem: the upper level decides the
    logarithms of the weights and pays the mean loss on the parts left out; a follower for each fold fits
    its model. The followers are solved exactly, and the slope of the loss in the weights is known, so
    that many weights are no harder than one.

    Parameters
    ----------
    estimator : "ridge", "lasso", "elastic-net", "logistic" or "svm"
        The model: ``Ridge``, ``Lasso``, ``ElasticNet``, ``LogisticRegression`` and ``LinearSVC`` of
        scikit-learn, the last with squared hinges and an intercept that carries no penalty. The loss is
        the mean square for the first three, the log loss for "logistic" and the mean squared hinge for
        "svm".
    per_feature : bool
        A weight for each feature instead of one for all.
    cv : int or splitter
        As in ``GridSearchCV``.
    fit_intercept : bool
    bounds : pair of float
        Least and largest weight (of ``alpha``, of ``1 / C``).
    max_iter : int
        Steps of each descent, where there are several weights.
    tol : float
        Slope of the loss, relative to the loss, at which a descent ends.

    Attributes
    ----------
    best_params_ : dict
        In scikit-learn's words: ``alpha``, ``l1_ratio``, ``C``; arrays with ``per_feature``.
    best_loss_ : float
        Mean loss on the parts left out; ``best_score_`` is its negative.
    weights_ : array
        The weights of the penalty.
    coef_, intercept_ : arrays
        Of the model fitted to all data with these weights, in the shapes of scikit-learn.
    n_evaluations_, n_iter_ : int
        How often all folds were fitted.
    path_ : list of pairs
        Weights and loss of each evaluation, in order.
    classes_ : array
        Of classifiers only.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from blomodel.sklearn import BilevelCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BilevelCV("ridge").fit(X, y)
    >>> round(model.best_params_["alpha"], 4), round(model.best_loss_, 2)
    (0.0005, 2992.99)
    """

    weights_: np.ndarray
    best_loss_: float
    best_score_: float
    best_params_: dict[str, Any]
    path_: list[tuple[np.ndarray, float]]
    n_evaluations_: int
    n_iter_: int
    coef_: np.ndarray
    classes_: np.ndarray

    def __init__(
        self,
        estimator: str = "ridge",
        *,
        per_feature: bool = False,
        cv: Any = 5,
        fit_intercept: bool = True,
        bounds: tuple[float, float] = (1e-6, 1e6),
        max_iter: int = 100,
        tol: float = 1e-6,
    ) -> None:
        self.estimator = estimator
        self.per_feature = per_feature
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.bounds = bounds
        self.max_iter = max_iter
        self.tol = tol

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if self.estimator in KINDS and KINDS[self.estimator].is_classifier:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags

    def fit(self, X: Any, y: Any) -> BilevelCV:
        """Choose the weights, then fit the model to all data.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        """
        kind = self._kind()
        X, Y, targets = self._data(X, y, kind)
        splitter = check_cv(self.cv, targets, classifier=kind.is_classifier)
        with one_blas_thread():
            folds = split(X, Y, splitter.split(X, targets))
            make = kind.maker(Y.shape[1], self.per_feature, self.fit_intercept)
            phi = Followers(
                [make(train, test) for train, test in folds], kind.groups(X.shape[1], self.per_feature)
            )
            found = self._search(phi, kind, X, Y)
            self.weights_ = np.exp(found.x)
            everything = Part(X, Y)
            whole = make(everything, everything)
            slopes, intercepts = whole.coefficients(whole.answer(self.weights_[phi.groups]))
        self._keep(kind, phi, found, slopes, intercepts)
        return self

    def _search(self, phi: Followers, kind: Kind, X: np.ndarray, Y: np.ndarray) -> Evaluation:
        """The best weights: first those that all features share, then from there one for each."""
        low, high = np.log(self.bounds)
        shared = phi
        if self.per_feature:
            shared = Followers(phi.followers, np.zeros_like(phi.groups) + kind.group_of_part(phi.groups))
        places = kind.places(X, Y, low, high)
        if shared.n_weights == 1:
            found = search_one(shared, places[:, 0], (low, high), self.tol)
        else:
            found = search_many(shared, list(places), (low, high), self.tol, self.max_iter)
        if self.per_feature:
            count = phi.n_weights // shared.n_weights
            start = phi(np.repeat(found.x, count))
            descend(phi, start.x, (low, high), self.tol, self.max_iter)
            found = phi.best
            phi.seen[:0] = [
                Evaluation(np.repeat(e.x, count), e.value, np.repeat(e.gradient, count), e.answers)
                for e in shared.seen
            ]
        return found

    def _keep(
        self, kind: Kind, phi: Followers, found: Evaluation, slopes: np.ndarray, intercepts: np.ndarray
    ) -> None:
        """The attributes that users look at."""
        self.best_loss_ = found.value
        self.best_score_ = -found.value
        self.best_params_ = kind.params(self.weights_, self.per_feature)
        self.path_ = [(np.exp(e.x), e.value) for e in phi.seen]
        self.n_evaluations_ = self.n_iter_ = len(phi.seen)
        self._log_weights, self._answers = found.x, found.answers
        self.coef_ = slopes.T if kind.is_classifier else slopes[:, 0]
        self.intercept_: Any = intercepts if kind.is_classifier else float(intercepts[0])

    def _kind(self) -> Kind:
        if self.estimator not in KINDS:
            raise ValueError(f"estimator={self.estimator!r}: take one of {', '.join(KINDS)}.")
        low, high = self.bounds
        if not 0 < low < high < np.inf:
            raise ValueError(f"bounds={self.bounds!r} must be two positive numbers, the smaller first.")
        return KINDS[self.estimator]

    def _data(self, X: Any, y: Any, kind: Kind) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features, a column of targets for each output, and the targets as they were given."""
        if not kind.is_classifier:
            X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
            return X, y.astype(float)[:, None], y
        X, y = validate_data(self, X, y, dtype=np.float64)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError("A classifier needs at least 2 classes; the data have only one class.")
        return X, kind.targets(numbers, count), y

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)

    @available_if(_is(lambda kind: kind.is_classifier))
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the samples: of the second class where there are two, else of each class."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @available_if(_is(lambda kind: kind.has_probabilities))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes."""
        scores = self._scores(X)
        if scores.shape[1] > 1:
            return np.asarray(softmax(scores, axis=1))
        return np.column_stack([expit(-scores), expit(scores)])

    def predict(self, X: Any) -> np.ndarray:
        """Targets, or classes, of the samples."""
        scores = self._scores(X)
        if not self._kind().is_classifier:
            return scores
        chosen = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def score(self, X: Any, y: Any) -> float:
        """Accuracy of classifiers, coefficient of determination of regressions."""
        measure = accuracy_score if self._kind().is_classifier else r2_score
        return float(measure(y, self.predict(X)))

    def to_problem(self, X: Any, y: Any) -> BilevelProblem:
        """The bilevel problem in cvxpy: the logarithms of the weights above, a follower for each fold.

        ``fit`` solves this problem with followers of its own kind, which is much faster.
        """
        from blomodel.sklearn.statement import state

        kind = self._kind()
        X, Y, targets = self._data(X, y, kind)
        splitter = check_cv(self.cv, targets, classifier=kind.is_classifier)
        folds = split(X, Y, splitter.split(X, targets))
        low, high = np.log(self.bounds)
        groups = kind.groups(X.shape[1], self.per_feature)
        return state(self.estimator, folds, groups, self.fit_intercept, (low, high))

    def certify(self, X: Any, y: Any, *, tolerance: float = 1e-6) -> Certificate:
        """Check the weights that ``fit`` chose, and the followers' answers, against the stated problem.

        Parameters
        ----------
        X, y : arrays
            The data that the model was fitted to.
        tolerance : float
            As in ``bm.certify``.
        """
        from blomodel.certification.certifying import certify
        from blomodel.sklearn.statement import answer_values

        check_is_fitted(self)
        problem = self.to_problem(X, y)
        values = answer_values(self.estimator, problem, self._answers, self.fit_intercept)
        return certify(problem, self._log_weights, values, tolerance=tolerance)
