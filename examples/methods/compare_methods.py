r"""
Eight methods on one problem
============================

The methods of eight papers from the same start, each answer through the same certificate.

The lower level is a convex quadratic, pushed by two upper unknowns; the upper level wants the
answer near a target and pays for the push:

.. math:: \min_{-3 \le x \le 3} \; \tfrac12 \|y - t\|^2 + \tfrac1{10} \|x\|^2 \quad\text{where}\quad
          y = \operatorname{argmin}_y \; \tfrac12 y^\top Q y - (C x)^\top y.

No constraints below, strongly convex, smooth: the assumptions of nearly every method hold.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

rng = np.random.default_rng(1)
root, C, t = rng.standard_normal((5, 5)), rng.standard_normal((5, 2)), rng.standard_normal(5)
Q = root @ root.T / 5 + np.eye(5)

x = cp.Variable(2, name="x", value=np.zeros(2))
y = cp.Variable(5, name="y", value=np.zeros(5))
lower = bm.Lower(cp.Minimize(cp.quad_form(y, Q) / 2 - (C @ x) @ y), variables=[y])
upper = cp.Minimize(cp.sum_squares(y - t) / 2 + cp.sum_squares(x) / 10)
problem = bm.BilevelProblem(upper, [-3 <= x, x <= 3], lower)

methods = ["auto", "alt-pbgd", "blocc", "meha", "implicit-cg", "unrolled", "kkt-mip", "random-search"]
comparison = bm.compare(problem, methods, time_limit=1.0)
print(comparison)

# %%
# How to read the table
# ---------------------
# * *status* is what the certificate proves about the answer, by means of its own. Only ``optimal``
#   speaks of all points.
# * *lower gap* is how much the lower level could still gain.
# * *stationarity* is how fast the upper objective could still fall. It separates those that have arrived
#   from those that are on the way.
#
# ``bm.compare(problem)`` without a list runs all methods; ``blomodel methods`` lists them.
#
# The picture
# -----------
# The distance from the best value against time. It is a tiny problem: these times say little about large
# ones.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
comparison.plot(ax=axes)
axes.set_title("Distance from the optimum", loc="left")
axes.set(xlabel="seconds", ylabel="")
plt.show()

# %%
# Is it right?
# ------------
# The lower level answers :math:`y = Q^{-1} C x = J x`. What is left is least squares in :math:`x`,
# two lines of linear algebra.
J = np.linalg.solve(Q, C)
exact_x = np.linalg.solve(J.T @ J + np.eye(2) / 5, J.T @ t)
exact = float(np.sum((J @ exact_x - t) ** 2) / 2 + np.sum(exact_x**2) / 10)
for row in comparison.rows:
    assert row.certificate is not None and row.value >= exact - 1e-6, f"{row.method}: {row.error}"
    if row.certificate.claim in ("optimal", "locally_optimal"):
        assert np.allclose(row.values[x], exact_x, atol=1e-3), row.method
assert comparison["auto"].certificate.claim == "optimal"
print(f"checked: no method is better than {exact:.6f}, and those that claim it are there")
