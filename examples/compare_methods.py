"""
All methods on one problem
==========================

The library holds the methods of many papers under their own names: penalties, implicit gradients,
unrolled steps, Moreau envelopes, optimality conditions, branch and bound, plain search.
``bm.compare`` runs them from the same start and puts every answer through the same certificate.
Here is a problem that all of them accept, with a solution that two lines of linear algebra give.
Run it with ``python examples/compare_methods.py``.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

parser = argparse.ArgumentParser(description="All methods on one problem.")
parser.add_argument("--save", type=Path, default=Path("compare_methods.png"), metavar="FILE")
parser.add_argument("--time-limit", type=float, default=1.0, help="seconds for each method")
options, _ = parser.parse_known_args()  # a notebook hands over arguments of its own

# %%
# The problem
# -----------
# The lower level is a convex quadratic in five unknowns, pushed by two upper unknowns; the upper
# level wants the answer near a target and pays for the push:
#
# .. math:: \min_{x, y} \; \tfrac12 \|y - t\|^2 + \tfrac1{10} \|x\|^2 \quad\text{where}\quad
#           y = \operatorname{argmin}_y \; \tfrac12 y^\top Q y - (C x)^\top y.
#
# No constraints below, a strongly convex lower objective, everything smooth: the assumptions of
# nearly every method hold.
rng = np.random.default_rng(1)
root = rng.standard_normal((5, 5))
Q = root @ root.T / 5 + np.eye(5)
C = rng.standard_normal((5, 2))
t = rng.standard_normal(5)

x = cp.Variable(2, name="x", value=np.zeros(2))
y = cp.Variable(5, name="y", value=np.zeros(5))
lower = bm.Lower(cp.Minimize(cp.quad_form(y, Q) / 2 - (C @ x) @ y), variables=[y])
upper = cp.Minimize(cp.sum_squares(y - t) / 2 + cp.sum_squares(x) / 10)
problem = bm.BilevelProblem(upper, [-3 <= x, x <= 3], lower)

# %%
# The solution by linear algebra
# ------------------------------
# The lower level answers :math:`y = Q^{-1} C x = J x`. What is left is a least-squares problem in
# ``x``.
J = np.linalg.solve(Q, C)
exact_x = np.linalg.solve(J.T @ J + np.eye(2) / 5, J.T @ t)
exact_value = float(np.sum((J @ exact_x - t) ** 2) / 2 + np.sum(exact_x**2) / 10)
print(f"by linear algebra: x = {exact_x.round(6)}, value {exact_value:.8f}")

# %%
# All methods
# -----------
# The values of the variables are the start of every method, and no method is tuned. Each may take
# a second; one that is stopped by the limit keeps its best point. PBGD-Free warns that its
# condition does not hold here; ``pbgd_free.py`` tells why.
with warnings.catch_warnings(record=True) as raised:
    warnings.simplefilter("always")
    comparison = bm.compare(problem, time_limit=options.time_limit)
print(comparison)
for message in dict.fromkeys(str(warning.message) for warning in raised):
    print(f"warning: {message}")

# %%
# How to read the table
# ---------------------
# * *status* is what the certificate proves about the answer, by means of its own. Only ``optimal``
#   speaks of all points.
# * *lower gap* is how much the lower level could still gain. It is zero for all, because each
#   method leaves its last ``x`` together with the lower level's own answer to it.
# * *stationarity* is how fast the upper objective could still fall. It separates those that have
#   arrived from those that are on the way.
# * *time* is that of the method itself. It is a tiny problem: these times say little about large
#   ones.
#
# The picture
# -----------
# All curves at once would hide one another, so here is one method of each family.
families = ("auto", "alt-pbgd", "blocc", "meha", "implicit-cg", "unrolled", "kkt-mip", "random-search")
chosen = bm.Comparison(tuple(comparison[name] for name in families), comparison.sign)
figure, panels = plt.subplots(2, 1, figsize=(9.5, 7), sharex=True, layout="constrained")
chosen.plot(ax=panels)
figure.savefig(options.save, dpi=150)
print(f"picture saved to {options.save}")

# %%
# Is it right?
# ------------
# Every answer is a bilevel point, none is better than the exact optimum, those that claim local
# optimality are near the exact solution, and the one method whose assumption fails is far from it
# and claims nothing.
assert {row.method for row in comparison.rows} == {method.name for method in bm.methods()}
for row in comparison.rows:
    if row.method == "kkt" and row.error:
        continue  # needs IPOPT or UNO, which not everybody has installed
    is_stopped = row.solution is not None and row.solution.stopped_by == "time limit"
    if is_stopped and not row.certificate.accepted:
        continue  # a slow machine: nothing was found in time
    assert row.certificate is not None and row.certificate.accepted, f"{row.method}: {row.error}"
    assert row.value >= exact_value - 1e-6, f"{row.method} found something too good: {row.value}"
    if row.certificate.claim in ("optimal", "locally_optimal"):
        assert np.allclose(row.values[x], exact_x, atol=1e-3), f"{row.method}: x = {row.values[x]}"
for name in ("auto", "kkt-mip"):
    assert comparison[name].certificate.claim == "optimal"
    assert abs(comparison[name].value - exact_value) < 1e-7
assert comparison["pbgd-free"].certificate.claim == "feasible"
assert comparison["pbgd-free"].value > exact_value + 1
assert any("not flat" in str(warning.message) for warning in raised)
arrived = [row for row in comparison.rows if row.solution and abs(row.value - exact_value) < 1e-5]
print(
    f"checked: {len(arrived)} of {len(comparison.rows)} methods reach {exact_value:.6f} to five digits"
)
