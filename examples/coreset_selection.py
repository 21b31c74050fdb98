"""
Which samples stand for all?
============================

A *coreset* is a small part of the data that teaches nearly as much as the whole. To choose one is a
bilevel problem: the upper level gives every sample a weight, the lower level fits to the weighted
samples, and the upper level compares the fit with the one it wants. The small problem here is that of
appendix C.1.2 of the paper on perturbed gradient descent by a convex QP: four points in the plane, the
lower level takes their weighted mean, the upper level wants it at a given place. Run it with
``python examples/coreset_selection.py``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

parser = argparse.ArgumentParser(description="Which samples stand for all?")
parser.add_argument("--save", type=Path, default=Path("coreset_selection.png"), metavar="FILE")
options, _ = parser.parse_known_args()  # a notebook hands over arguments of its own

# %%
# The model
# ---------
# The weights are the softmax of ``x``, so that they are positive and sum up to 1 without any
# constraint:
#
# .. math:: \min_{x, y} \; \|y - y_0\|^2 \quad\text{where}\quad
#           y = \operatorname{argmin}_y \; \|y - A \sigma(x)\|^2, \qquad
#           \sigma(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}}.
#
# The columns of ``A`` are the samples. The paper does not print its numbers; these are ours.
A = np.array([[1.0, 3.0, -2.0, 0.0], [3.0, 1.0, 0.0, -2.0]])
target = np.array([1.0, 0.5])
x = cp.Variable(4, name="x", value=np.zeros(4))
y = cp.Variable(2, name="y")
weights = cp.exp(x) / cp.sum(cp.exp(x))
mean = bm.Lower(cp.Minimize(cp.sum_squares(y - A @ weights)), variables=[y])
problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - target)), [], mean)

# %%
# The method of the paper
# -----------------------
# Each step of ``perturbed-gd`` goes along the gradient of the upper objective, bent by the least amount
# that still brings :math:`h(x, y) = \|\nabla_y g\|^2` down. A convex quadratic problem in one unknown
# gives that amount, in closed form. The paper has two rules for how fast ``h`` must fall, ``rho``.
methods = {
    "perturbed-gd, rho = square": ("perturbed-gd", {"rho": "square"}),
    "perturbed-gd, rho = root": ("perturbed-gd", {"rho": "root"}),
    "bome": ("bome", {}),
    "jnt-pbgd": ("jnt-pbgd", {}),
    "implicit-cg": ("implicit-cg", {}),
    "auto": ("auto", {}),
}
answers, histories = {}, {}
for label, (name, settings) in methods.items():
    x.value, y.value = np.zeros(4), A @ np.full(4, 0.25)
    problem.solve(name, **settings)
    answers[label] = problem.value, weights.value, y.value
    histories[label] = problem.solution.history
    print(
        f"{label:27s} value {problem.value:9.2e}, {problem.solution.iterations:6d} steps, "
        f"{problem.solution.solve_time:.2f} s, status {problem.status}, weights {weights.value.round(3)}"
    )

# %%
# Every method brings the mean to the target, and they end at different weights: four points in the
# plane can be mixed to the same mean in many ways, and the upper level does not care which.
#
# A sparse choice
# ---------------
# A coreset should be small. Weights that are variables themselves, on the simplex, can be exactly zero.
# The upper level now pays for the number of samples it uses, roughly: :math:`\sum_i \sqrt{w_i}` is
# least at a corner, so that few weights remain. Nothing else changes.
w = cp.Variable(4, name="w", value=np.full(4, 0.25))
mean = bm.Lower(cp.Minimize(cp.sum_squares(y - A @ w)), variables=[y])
few = cp.sum_squares(y - target) + 0.02 * cp.sum(cp.sqrt(w + 1e-4))
sparse = bm.BilevelProblem(cp.Minimize(few), [w >= 0, cp.sum(w) == 1], mean)
sparse.solve()
kept = np.flatnonzero(w.value > 1e-3)
distance = float(np.linalg.norm(y.value - target))
print(f"sparse: weights {w.value.round(4)}, {len(kept)} samples, {distance:.4f} from the target")

# %%
# The picture
# -----------
# Left: the samples, with circles as large as the weights that ``perturbed-gd`` gives them. Right: how
# the upper objective falls; values below 1e-16 are drawn there.
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
found = answers["perturbed-gd, rho = square"]
left.scatter(*A, s=40, color="#000000", zorder=3, label="samples")
left.scatter(*A, s=3000 * found[1], color="#56B4E9", alpha=0.6, label="their weights")
left.plot(*target, "x", color="#D55E00", markersize=12, markeredgewidth=3, label="target $y_0$")
left.plot(*found[2], "o", color="#0072B2", markersize=6, label="weighted mean $y$")
left.set(
    title="Weights that move the mean to the target", aspect="equal", xlim=(-3.2, 4.2), ylim=(-3, 4.2)
)
left.legend(frameon=False, loc="upper left", markerscale=0.6)
styles = (("#0072B2", "s"), ("#56B4E9", "o"), ("#E69F00", "x"), ("#009E73", "^"), ("#CC79A7", "v"))
for (label, history), (colour, marker) in zip(list(histories.items())[:5], styles, strict=True):
    falls = np.maximum(history["iteration"], 1), np.maximum(history["value"], 1e-16)
    right.loglog(*falls, marker + "-", color=colour, markersize=6, alpha=0.8, label=label)
right.set(xlabel="iterations", ylabel=r"$\|y - y_0\|^2$", title="Upper objective")
right.legend(frameon=False)
for panel in (left, right):
    panel.grid(alpha=0.3)
figure.savefig(options.save, dpi=150)
print(f"picture saved to {options.save}")

# %%
# Is it right?
# ------------
# The target lies inside the four points, so the best value is 0; the lower level's answer is the mean
# itself, which one product gives. For the sparse choice every pair of samples is tried by hand.
for label, (value, chosen, answer) in answers.items():
    assert value < 1e-6, f"{label}: {value}"
    assert abs(chosen.sum() - 1) < 1e-9, label
    assert np.allclose(answer, A @ chosen, atol=1e-3), label  # the gap, a square, is certified to 1e-6
grid = np.linspace(0, 1, 10_001)
pairs = []
for i in range(4):
    for j in range(i + 1, 4):
        mixed = np.zeros((4, grid.size))
        mixed[i], mixed[j] = grid, 1 - grid
        miss = np.sum((A @ mixed - target[:, None]) ** 2, axis=0)
        pairs.append((miss + 0.02 * np.sqrt(mixed + 1e-4).sum(axis=0)).min())
assert sparse.value <= min(pairs) + 1e-5, "a pair of samples is better"
assert np.allclose(y.value, A @ w.value, atol=1e-5)
print(f"checked: value 0 for every method; no pair of samples is better than {sparse.value:.5f}")
