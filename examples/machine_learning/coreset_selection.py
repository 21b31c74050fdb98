r"""
Which samples stand for all?
============================

A coreset: choose few samples so that a fit to them alone serves the whole data.

The upper level gives each of twelve samples a weight and pays for it; the lower level fits a line to the
weighted samples; the upper level looks at the fit's error on *all* samples:

.. math:: \min_{0 \le w \le 1} \; \|X c - t\|^2 + \tfrac{3}{10} \sum_i w_i \quad\text{where}\quad
          c = \operatorname{argmin}_c \; \sum_i w_i\,(x_i^\top c - t_i)^2 + \tfrac1{100} \|c\|^2.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import blomodel as bm

rng = np.random.default_rng(0)
X = np.column_stack([np.ones(12), np.linspace(-1, 1, 12)])
t = X @ [1.0, 2.0] + 0.3 * rng.standard_normal(12)

w, c = cp.Variable(12, name="w"), cp.Variable(2, name="c")
squares = cp.square(X @ c - t)
fit = bm.Lower(cp.Minimize(w @ squares + cp.sum_squares(c) / 100), variables=[c], name="the fit")
problem = bm.BilevelProblem(cp.Minimize(cp.sum(squares) + 0.3 * cp.sum(w)), [0 <= w, w <= 1], fit)
problem.solve()
kept = np.flatnonzero(w.value > 1e-4)
print(f"{problem.status}: {len(kept)} of 12 samples are kept, value {problem.value:.5f}")

# %%
# The picture
# -----------
# The price on the weights does what the penalty of a lasso does: most are exactly zero. The line through
# the few samples that are left is nearly the line through all.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
everything = np.linalg.lstsq(X, t, rcond=None)[0]
axes.plot(X[:, 1], t, "o", color="#BBBBBB", markersize=9, label="samples")
axes.plot(X[kept, 1], t[kept], "o", color="#D55E00", markersize=13, label="coreset")
axes.plot(X[:, 1], X @ c.value, color="#D55E00", linewidth=2, label="fit to the coreset")
axes.plot(X[:, 1], X @ everything, "--", color="#0072B2", linewidth=2, label="fit to all")
axes.set(title="A few samples stand for all", xlabel="$x$")
axes.legend(frameon=False)
plt.show()


# %%
# Is it right?
# ------------
# The fit has a formula, so the problem is one function of :math:`w`. SciPy minimises it from five
# starts and finds nothing better.
def upper(weights: np.ndarray) -> float:
    """The upper objective at the weighted fit."""
    fitted = np.linalg.solve(X.T * weights @ X + np.eye(2) / 100, X.T @ (weights * t))
    return float(np.sum((X @ fitted - t) ** 2) + 0.3 * weights.sum())


tries = [minimize(upper, rng.uniform(0, 0.5, 12), bounds=[(0, 1)] * 12).fun for _ in range(5)]
assert problem.certificate.accepted and abs(upper(np.clip(w.value, 0, 1)) - problem.value) < 1e-5
assert problem.value <= min(tries) + 1e-5 and len(kept) <= 4
print(f"checked: the best of five runs of SciPy ends at {min(tries):.5f}")
