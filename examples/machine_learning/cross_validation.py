r"""
Cross-validation as a bilevel problem
=====================================

The weight of a ridge regression by five-fold cross-validation, beside GridSearchCV.

Cross-validation leaves out a part of the data, fits a model to the rest, and looks at the error on
the part left out. To find the weight with the least error is a bilevel problem with a follower for
each fold:

.. math:: \min_a \; \frac15 \sum_{k=1}^5 \frac{1}{n_k} \|X_k w_k - t_k\|^2 \quad\text{where}\quad
          w_k = \operatorname{argmin}_w \; \|X_{-k} w - t_{-k}\|^2 + e^a \|w\|^2.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold

import blomodel as bm

X, t = load_diabetes(return_X_y=True, scaled=True)
X, t = 20 * X[:100], (t[:100] - t[:100].mean()) / t[:100].std()

a = cp.Variable(name="a")  # the logarithm of the weight
folds, loss = [], 0
for k, (fit, left_out) in enumerate(KFold(5).split(X)):
    w = cp.Variable(10, name=f"w{k}")
    error = cp.sum_squares(X[fit] @ w - t[fit]) + cp.exp(a) * cp.sum_squares(w)
    folds.append(bm.Lower(cp.Minimize(error), variables=[w], name=f"fold {k}"))
    loss += cp.sum_squares(X[left_out] @ w - t[left_out]) / len(left_out) / 5
problem = bm.BilevelProblem(cp.Minimize(loss), [-3 <= a, a <= 8], folds)
problem.solve()
print(f"{problem.status}: weight {np.exp(float(a.value)):.4f}, loss {problem.value:.6f}")

# %%
# The usual way
# -------------
# ``GridSearchCV`` tries a list of weights. It is another program with the same folds, so it is a
# check as well: no weight of the list is better.
grid = np.exp(np.linspace(-3, 8, 30))
search = GridSearchCV(
    Ridge(fit_intercept=False), {"alpha": grid}, scoring="neg_mean_squared_error", cv=KFold(5)
)
search.fit(X, t)
print(f"grid: weight {search.best_params_['alpha']:.4f}, loss {-search.best_score_:.6f}")

# %%
# The picture
# -----------
# The loss for every weight, and the points of the grid.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
problem.plot(ax=axes, gammas=[], points=101)
axes.plot(np.log(grid), -search.cv_results_["mean_test_score"], "o", color="#0072B2", label="grid")
axes.set_title("Loss of cross-validation", loc="left")
axes.set(xlabel="logarithm of the weight", ylabel="")
axes.legend(frameon=False)
plt.show()

# %%
# Why not just the grid?
# ----------------------
# For one weight a grid is fine. For ten weights, one for each feature, a grid of 30 points each
# would have :math:`30^{10}` points; the bilevel problem only gets a longer ``a``. The next example
# does that without stating the model.
assert problem.certificate.accepted and problem.status in ("optimal", "locally_optimal")
assert problem.value <= -search.best_score_ + 1e-9
assert abs(np.log(search.best_params_["alpha"]) - float(a.value)) < 11 / 29
at_grid = problem.value_at(np.log(grid))
assert np.allclose(at_grid, -search.cv_results_["mean_test_score"], rtol=1e-5)
print("checked: the same loss as scikit-learn at all 30 weights, and none of them is better")
