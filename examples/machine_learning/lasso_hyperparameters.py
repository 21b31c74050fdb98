r"""
A weight for each group of a lasso
==================================

One penalty weight for all features is a habit; a weight for each group is a bilevel problem.

A group lasso switches groups of features off. Eighteen features in six groups, of which two matter; the
upper level picks a weight for each group and looks at validation data, the lower level fits:

.. math:: \min_{0 \le x \le 50} \; \tfrac12 \|X' y - t'\|^2 \quad\text{where}\quad
          y = \operatorname{argmin}_y \; \tfrac12 \|X y - t\|^2 + \sum_{g=1}^6 x_g \|y_g\|_2.

The norms have kinks, and so has the lower level. The problem is (21) of Liu, Liu, Yao, Zeng and Zhang,
"Moreau Envelope for Nonconvex Bi-Level Optimization" (2024), at a smaller size; ``python -m
examples.reproduce meha-6`` runs the paper's.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

rng = np.random.default_rng(3)
truth = np.repeat([1.0, 0, 0, 1.0, 0, 0], 3)
X = rng.standard_normal((60, 18))
t = X @ truth + 1.2 * rng.standard_normal(60)
train, validation, test = slice(0, 20), slice(20, 40), slice(40, 60)

x, y = cp.Variable(6, name="x"), cp.Variable(18, name="y")
lengths = [cp.norm(y[3 * g : 3 * g + 3], 2) for g in range(6)]
penalty = sum(x[g] * lengths[g] for g in range(6))
fit = bm.Lower(cp.Minimize(cp.sum_squares(X[train] @ y - t[train]) / 2 + penalty), variables=[y])
error = cp.sum_squares(X[validation] @ y - t[validation]) / 2
problem = bm.BilevelProblem(cp.Minimize(error), [0 <= x, x <= 50], fit)
problem.solve("reduced-penalty")
print(problem.status, "weights", x.value.round(2), "validation error", round(problem.value, 4))

# %%
# ``reduced-penalty`` is a descent on the penalty problem. Without a method, ``solve()`` ends at the same
# value here, but spends ten times the time on looking for a better one.
#
# One weight for all
# ------------------
# The habit is the same problem with all weights equal: ``value_at`` says what each costs.
common = np.linspace(0, 20, 41)
shared = [problem.value_at(np.full(6, weight)) for weight in common]
best = float(common[np.argmin(shared)])
print(f"one weight for all: {best:g}, validation error {min(shared):.4f}")

habit = problem.answer(np.full(6, best)).y
for name, coefficients in (("one weight", habit), ("six weights", y.value)):
    print(f"{name}: error on new data {np.sum((X[test] @ coefficients - t[test]) ** 2) / 2:.2f}")

# %%
# The picture
# -----------
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
axes.bar(np.arange(18), truth, color="#DDDDDD", label="truth")
axes.plot(habit, "s", color="#D55E00", label="one weight")
axes.plot(y.value, "o", color="#0072B2", label="six weights")
axes.set(title="Coefficients, in groups of three", xlabel="feature")
axes.legend(frameon=False)
plt.show()

# %%
# Is it right?
# ------------
# cvxpy alone fits the group lasso at the weights found and gets the same coefficients; and no
# common weight is better.
again = cp.Variable(18)
sizes = cp.norm(cp.reshape(again, (3, 6), order="F"), 2, axis=0)
alone = cp.Problem(cp.Minimize(cp.sum_squares(X[train] @ again - t[train]) / 2 + sizes @ x.value))
alone.solve(solver=cp.CLARABEL)
assert problem.certificate.accepted and problem.value <= min(shared) + 1e-9
assert np.allclose(again.value, y.value, atol=1e-3), "cvxpy fits something else"
print("checked: cvxpy fits the same coefficients, and no common weight is better")
