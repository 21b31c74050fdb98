"""BilevelCV: scikit-learn's own checks, its grid search, its models, and the library's certificate."""

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris  # noqa: E402
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge  # noqa: E402
from sklearn.metrics import log_loss  # noqa: E402
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import PolynomialFeatures, StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

from blomodel.sklearn import BilevelCV  # noqa: E402
from tests.support.slow_cases import first_few  # noqa: E402

SQUARE = "neg_mean_squared_error"
KINDS = ("ridge", "lasso", "elastic-net", "logistic", "svm")


def diabetes(degree=1):
    X, y = load_diabetes(return_X_y=True)
    X = PolynomialFeatures(degree, include_bias=False).fit_transform(X)
    return StandardScaler().fit_transform(X), y


def small(kind, n=40, p=4, seed=0):
    """Random data for any kind of model."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, p))
    y = X @ np.linspace(2, 0, p) + random.standard_normal(n)
    return X, (y > 0).astype(int) if kind in ("logistic", "svm") else y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind", [*KINDS[:1], *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS[1:])]
)
def test_the_checks_of_scikit_learn(kind):
    check_estimator(BilevelCV(kind), on_skip=None)


@pytest.mark.parametrize("degree", first_few([1, 2], 1))
@pytest.mark.parametrize(
    ("kind", "model", "grid"),
    [
        ("ridge", Ridge(), {"alpha": np.logspace(-4, 4, 30)}),
        ("lasso", Lasso(max_iter=10000), {"alpha": np.logspace(-1, 1, 30)}),
        (
            "elastic-net",
            ElasticNet(),
            {"alpha": np.logspace(-1, 1, 6), "l1_ratio": [0.1, 0.3, 0.5, 0.7, 0.9]},
        ),
    ],
)
def test_no_grid_of_thirty_is_better(kind, model, grid, degree):
    X, y = diabetes(degree)
    search = GridSearchCV(model, grid, scoring=SQUARE, cv=5).fit(X, y)
    assert BilevelCV(kind).fit(X, y).best_loss_ <= -search.best_score_ * (1 + 1e-9)


def test_no_grid_of_thirty_is_better_for_two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    grid = {"C": np.logspace(-3, 3, 30)}
    search = GridSearchCV(LogisticRegression(max_iter=1000), grid, scoring="neg_log_loss", cv=5).fit(
        X, y
    )
    model = BilevelCV("logistic").fit(X, y)
    assert model.best_loss_ <= -search.best_score_ * (1 + 1e-6)
    assert model.score(X, y) > 0.97


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("ridge", lambda params: Ridge(**params)),
        ("lasso", lambda params: Lasso(**params, tol=1e-10, max_iter=10**6)),
        ("elastic-net", lambda params: ElasticNet(**params, tol=1e-10, max_iter=10**6)),
    ],
)
def test_loss_and_coefficients_are_those_of_scikit_learn(kind, make):
    X, y = diabetes()
    model = BilevelCV(kind, cv=4).fit(X, y)
    theirs = make(model.best_params_)
    assert model.best_loss_ == pytest.approx(-cross_val_score(theirs, X, y, scoring=SQUARE, cv=4).mean())
    theirs.fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-5)
    assert model.score(X, y) == pytest.approx(theirs.score(X, y))


def test_several_classes_are_those_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    model = BilevelCV("logistic").fit(X, y)
    theirs = LogisticRegression(**model.best_params_, tol=1e-8, max_iter=10000)
    losses = -cross_val_score(theirs, X, y, scoring="neg_log_loss", cv=5)
    assert model.best_loss_ == pytest.approx(losses.mean(), rel=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), theirs.fit(X, y).predict_proba(X), atol=1e-4)
    assert log_loss(y, model.predict_proba(X)) < losses.mean()


@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_slope_of_the_loss_by_differences(kind, per_feature):
    from blomodel.sklearn.followers import Followers, split
    from blomodel.sklearn.kinds import KINDS as known

    X, y = small(kind)
    Y = known[kind].targets(y, 2) if known[kind].is_classifier else y[:, None]
    make = known[kind].maker(1, per_feature, True)
    folds = split(X, Y, KFold(3).split(X))
    phi = Followers([make(*fold) for fold in folds], known[kind].groups(4, per_feature))
    x = np.random.default_rng(1).uniform(-3.0, -2.0, phi.n_weights)
    found = phi(x)
    for i, unit in enumerate(1e-5 * np.eye(x.size)):
        slope = (phi(x + unit).value - phi(x - unit).value) / 2e-5
        assert found.gradient[i] == pytest.approx(slope, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_their_own_are_no_worse(kind):
    X, y = small(kind)
    shared, own = (BilevelCV(kind, per_feature=each, cv=3).fit(X, y) for each in (False, True))
    assert own.best_loss_ <= shared.best_loss_ * (1 + 1e-9)
    assert own.weights_.size == 4 * shared.weights_.size
    assert own.best_loss_ == min(loss for _, loss in own.path_)


@pytest.mark.parametrize("kind", ["ridge", "lasso", "logistic"])
def test_the_library_certifies_weights_and_followers(kind):
    X, y = small(kind)
    model = BilevelCV(kind, cv=3).fit(X, y)
    certificate = model.certify(X, y)
    assert certificate.accepted, certificate
    assert certificate.objective == pytest.approx(model.best_loss_, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["elastic-net", "svm"])
def test_the_library_certifies_the_other_kinds(kind):
    test_the_library_certifies_weights_and_followers(kind)


def test_solve_finds_nothing_better():
    X, y = small("ridge")
    model = BilevelCV("ridge", cv=3).fit(X, y)
    assert model.to_problem(X, y).solve() == pytest.approx(model.best_loss_, rel=1e-6)


def test_labels_of_any_kind_and_a_pipeline():
    X, y = small("svm")
    names = np.array(["no", "yes"])[y]
    model = make_pipeline(StandardScaler(), BilevelCV("svm", cv=3)).fit(X, names)
    assert set(model.predict(X)) == {"no", "yes"}
    assert model.score(X, names) > 0.8
    assert not hasattr(model[-1], "predict_proba")


def test_what_cannot_be_fitted_is_said():
    X, y = small("ridge")
    with pytest.raises(ValueError, match="ridge, lasso, elastic-net, logistic, svm"):
        BilevelCV("tree").fit(X, y)
    with pytest.raises(ValueError, match="two positive numbers"):
        BilevelCV(bounds=(1.0, 0.0)).fit(X, y)
    with pytest.raises(ValueError, match="one class"):
        BilevelCV("logistic").fit(X, np.zeros(len(X), int))
