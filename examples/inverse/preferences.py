r"""
What does this customer like?
=============================

Inverse optimisation: from noisy choices at several prices, find the taste behind them.

A customer buys three goods. With the taste :math:`u` and the prices :math:`p_k` it solves a small convex
problem, which we know except for :math:`u`. We saw five of its choices :math:`\hat y_k`, with errors of
measurement, and look for the taste that explains them best:

.. math:: \min_u \; \sum_k \|y_k - \hat y_k\|^2
          \quad\text{where}\quad y_k = \operatorname{argmax}_{y \ge 0}
          \; \{u^\top y - \tfrac12 \|y\|^2 : p_k^\top y \le 4\}.

Each observation is a follower of its own.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import blomodel as bm

rng = np.random.default_rng(0)
truth = np.array([3.0, 2.0, 4.0])
prices = rng.uniform(0.5, 2, (5, 3))


def shop(taste: np.ndarray, price: np.ndarray) -> np.ndarray:
    """What a customer with this taste buys, by cvxpy alone."""
    y = cp.Variable(3, nonneg=True)
    cp.Problem(cp.Maximize(taste @ y - cp.sum_squares(y) / 2), [price @ y <= 4]).solve(
        solver=cp.CLARABEL
    )
    return y.value


seen = np.array([shop(truth, price) for price in prices]) + 0.05 * rng.standard_normal((5, 3))

# %%
# The model
# ---------
u = cp.Variable(3, name="u")
shoppers, error = [], 0
for k in range(5):
    y = cp.Variable(3, name=f"y{k}")
    gain = cp.Maximize(u @ y - cp.sum_squares(y) / 2)
    shoppers.append(bm.Lower(gain, [y >= 0, prices[k] @ y <= 4], variables=[y], name=f"visit {k}"))
    error += cp.sum_squares(y - seen[k])
problem = bm.BilevelProblem(cp.Minimize(error), [0 <= u, u <= 6], shoppers)
problem.solve()
print(problem.status, u.value.round(3), "true taste", truth)

# %%
# The taste is close to the true one, and explains the choices better than the true one does: some of the
# noise can be explained too. With the taste we can foresee a choice at prices that were never seen.
new = np.array([1.0, 1.0, 1.0])
print(
    "at new prices:", shop(u.value, new).round(3), "and with the true taste:", shop(truth, new).round(3)
)

# %%
# The picture
# -----------
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
bought = np.array([shop(u.value, price) for price in prices])
for good, marker in enumerate("os^"):
    axes.plot(seen[:, good], bought[:, good], marker, markersize=8, label=f"good {good}")
axes.axline((0, 0), slope=1, color="#999999")
axes.set(title="Choices, seen and explained", xlabel="seen", ylabel="explained")
axes.legend(frameon=False)
plt.show()


# %%
# Is it right?
# ------------
# SciPy's search without derivatives over :math:`u`, with the shopper solved by cvxpy each time, ends at
# the same taste. (It takes a hundred times as many solves.)
def squares(taste: np.ndarray) -> float:
    """Error of a taste."""
    return sum(
        float(np.sum((shop(taste, price) - row) ** 2)) for price, row in zip(prices, seen, strict=True)
    )


search = minimize(squares, [2.5, 2.5, 3.5], method="Nelder-Mead", options={"maxfev": 60})
assert problem.status == "optimal" and problem.value <= search.fun + 1e-6
assert abs(squares(u.value) - problem.value) < 1e-4 and problem.value < squares(truth)
assert np.allclose(u.value, truth, atol=0.2)
print(f"checked: error {problem.value:.5f}, SciPy after 60 tries {search.fun:.5f}")
