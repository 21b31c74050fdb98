"""
Ridge, lasso, SVM, logistic: no grid
====================================

Four linear models tuned by BilevelCV, each beside GridSearchCV with thirty points.

``blomodel.sklearn.BilevelCV`` states the cross-validation of a linear model as a bilevel problem
and solves it: the upper level decides the weight of the penalty, a follower for each fold fits. It
is an estimator of scikit-learn (``fit``, ``predict``, ``best_params_``), so it takes the place of
``GridSearchCV``.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from blomodel.sklearn import BilevelCV

patients, tumours = load_diabetes(return_X_y=True), load_breast_cancer(return_X_y=True)
data = {"ridge": patients, "lasso": patients, "logistic": tumours, "svm": tumours}
data = {name: (StandardScaler().fit_transform(X[:, :10]), y) for name, (X, y) in data.items()}

found = {name: BilevelCV(name, cv=5).fit(*data[name]) for name in data}
for name, model in found.items():
    (key, weight), *_ = model.best_params_.items()
    print(f"{name:9s} {key} = {weight:.5f}, loss {model.best_loss_:.6f}")


# %%
# Beside a grid of thirty points
# ------------------------------
# scikit-learn's own models on the same folds, with the same losses.
def squared_hinge(model: LinearSVC, X: np.ndarray, y: np.ndarray) -> float:
    """What LinearSVC minimises, on other data."""
    margins = (2 * y - 1) * model.decision_function(X)
    return -np.mean(np.maximum(0, 1 - margins) ** 2)


weights = np.logspace(-2, 3, 30)
grids = {
    "ridge": (Ridge(), {"alpha": weights}, "neg_mean_squared_error"),
    "lasso": (Lasso(), {"alpha": weights}, "neg_mean_squared_error"),
    "logistic": (LogisticRegression(solver="newton-cholesky"), {"C": 1 / weights}, "neg_log_loss"),
    "svm": (LinearSVC(dual=False, intercept_scaling=100), {"C": 1 / weights}, squared_hinge),
}
searches = {
    name: GridSearchCV(model, grid, scoring=score, cv=5).fit(*data[name])
    for name, (model, grid, score) in grids.items()
}
for name, search in searches.items():
    (key, weight), *_ = search.best_params_.items()
    print(f"{name:9s} {key} = {weight:.5f}, loss {-search.best_score_:.6f}")

# %%
# The picture
# -----------
# The lasso: the grid's losses, and what BilevelCV tried.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
axes.semilogx(
    weights, -searches["lasso"].cv_results_["mean_test_score"], "o-", color="#999999", label="grid"
)
tried = np.array([(float(np.ravel(weight)[0]), loss) for weight, loss in found["lasso"].path_])
axes.plot(*tried.T, "^", color="#0072B2", markersize=8, label="BilevelCV")
axes.plot(
    found["lasso"].best_params_["alpha"], found["lasso"].best_loss_, "*", color="#D55E00", markersize=16
)
axes.set(title="Lasso: loss of cross-validation", xlabel="weight", ylim=(2950, 4200), xlim=(5e-3, 50))
axes.legend(frameon=False)
axes.grid(alpha=0.3)
plt.show()

# %%
# A weight for each feature
# -------------------------
# Here a grid has no use: it would need :math:`30^{10}` points.
own = BilevelCV("ridge", per_feature=True).fit(*data["ridge"])
print(f"one weight {found['ridge'].best_loss_:.2f}, ten weights {own.best_loss_:.2f}")

# %%
# Is it right?
# ------------
# No point of a grid is better, and the model of scikit-learn with the weight found has the coefficients
# that BilevelCV fitted.
for name, search in searches.items():
    assert found[name].best_loss_ <= -search.best_score_ * (1 + 1e-4), name
plain = Lasso(**found["lasso"].best_params_, tol=1e-8).fit(*data["lasso"])
assert np.allclose(plain.coef_, found["lasso"].coef_, atol=1e-3)
assert own.best_loss_ < found["ridge"].best_loss_
print("checked: no grid is better, and scikit-learn's Lasso fits the same coefficients")
