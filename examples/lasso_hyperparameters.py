"""
The weights of a lasso
======================

A lasso needs a weight for its penalty, and one weight for all features is only a habit. With a weight
for each feature, or for each group of features, there are too many for a grid; but the choice is a
bilevel problem: the upper level picks the weights and looks at validation data, the lower level fits.
The penalty has kinks, so the lower level is not smooth. Both problems are from Liu, Liu, Yao, Zeng and
Zhang, "Moreau Envelope for Nonconvex Bi-Level Optimization: A Single-loop and Hessian-free Solution
Strategy" (MEHA). Run it with ``python examples/lasso_hyperparameters.py``; the paper's sizes are run
by ``python -m examples.reproduce meha-3`` and ``meha-6``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

parser = argparse.ArgumentParser(description="The weights of a lasso and of a group lasso.")
parser.add_argument("--save", type=Path, default=Path("lasso_hyperparameters.png"), metavar="FILE")
options, _ = parser.parse_known_args()  # a notebook hands over arguments of its own

# %%
# One weight for each feature
# ---------------------------
# Problem (20) of the paper is small enough for a pencil:
#
# .. math:: \min_{0 \le x \le 1,\; y} \; \sum_i y_i \quad\text{where}\quad
#           y = \operatorname{argmin}_y \; \tfrac12 \|y - v\|^2 + \sum_i x_i |y_i|,
#
# with :math:`v_i = 1/n` in the first half and :math:`-1/n` in the second. The lower level moves each
# :math:`v_i` towards 0 by :math:`x_i`, and not past it. So the first half should have
# :math:`x_i \ge 1/n`, which makes :math:`y_i = 0`, and the second half :math:`x_i = 0`: the best value
# is :math:`-1/2`.
n = 100
v = np.repeat([1.0, -1.0], n // 2) / n
x = cp.Variable(n, name="x")
y = cp.Variable(n, name="y")
shrink = bm.Lower(
    cp.Minimize(cp.sum_squares(y - v) / 2 + cp.sum(cp.multiply(x, cp.abs(y)))), variables=[y]
)
toy = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [0 <= x, x <= 1], shrink)

# %%
# MEHA replaces the lower level by its Moreau envelope and takes proximal steps, which know the kink
# exactly. The library finds the prox in the model as it is written and chooses the steps.
toy.solve("meha")
toy_value, toy_x, toy_y = toy.value, x.value.copy(), y.value.copy()
print(f"(20), n = {n}: value {toy_value:.9f} in {toy.solution.iterations} steps, status {toy.status}")

# %%
# ``solve()`` without a method finds the same: it follows the reduced penalty here, and for the norms of
# groups below it takes the steps of MEHA itself.
x.value = y.value = None
auto_value = toy.solve()
print(f"auto: value {auto_value:.9f}, status {toy.status}")

# %%
# A random search over the same weights, with 2000 draws, does not get far: it would have to be right in
# 100 places at once. (``None`` forgets the answer, where the search would begin otherwise.)
x.value = y.value = None
toy.solve("random-search")
print(f"random search: value {toy.value:.4f} after {toy.solution.iterations} draws")
random_value = toy.value

# %%
# One weight for each group
# -------------------------
# Now with data. 60 features in 12 groups of five; only three groups matter, and their coefficients are
# all 1. There are 40 samples to train with, fewer than features, and 40 to validate; the noise has half
# the size of the signal.
rng = np.random.default_rng(0)
n_groups, size, n_samples = 12, 5, 40
truth = np.zeros((n_groups, size))
truth[[0, 4, 8]] = 1.0
features = rng.standard_normal((3 * n_samples, n_groups * size))
signal = features @ truth.ravel()
noise = rng.standard_normal(3 * n_samples)
labels = signal + noise * np.linalg.norm(signal) / np.linalg.norm(noise) / 2
train, validation, test = zip(np.split(features, 3), np.split(labels, 3), strict=True)


def half_squares(data: tuple[np.ndarray, np.ndarray], y: cp.Variable) -> cp.Expression:
    """Half the sum of squared errors."""
    return cp.sum_squares(data[1] - data[0] @ y) / 2


def group_lasso(n_weights: int) -> tuple[bm.BilevelProblem, cp.Variable, cp.Variable]:
    """Problem (21) with a weight for each group, or with one for all."""
    x, y = cp.Variable(n_weights, name="x"), cp.Variable(n_groups * size, name="y")
    groups = [y[i * size : (i + 1) * size] for i in range(n_groups)]
    penalty = sum(x[i % n_weights] * cp.norm(group, 2) for i, group in enumerate(groups))
    fit = bm.Lower(cp.Minimize(half_squares(train, y) + penalty), variables=[y])
    return bm.BilevelProblem(cp.Minimize(half_squares(validation, y)), [0 <= x, x <= 200], fit), x, y


# %%
# First the habit: one weight, on a grid of 20 points.
shared, _, shared_y = group_lasso(1)
shared.solve("grid-search", n_points=20, refinements=0)
shared_test = half_squares(test, shared_y).value
print(f"one weight: validation error {shared.value:.1f}, test error {shared_test:.1f}")

# %%
# Then all twelve. The upper level changes slowly with a weight, so MEHA is told to take long steps in
# ``x``; those in ``y`` follow from the curvature ``L`` of the training loss.
problem, x, y = group_lasso(n_groups)
x.value, y.value = np.full(n_groups, 30.0), shared_y.value
L = np.linalg.norm(train[0], 2) ** 2
steps = {"alpha": 30.0, "beta": 0.4 / L, "eta": 0.5 / L, "gamma": 1000 / L, "c": 30.0, "p": 0.2}
problem.solve("meha", max_steps=4000, **steps)
problem_test = half_squares(test, y).value
print(f"twelve weights: validation error {problem.value:.1f}, test error {problem_test:.1f}")
print(problem.certificate)
for i in range(n_groups):
    length = np.linalg.norm(y.value[i * size : (i + 1) * size])
    print(f"  group {i:2d}: weight {x.value[i]:6.2f}, length of its coefficients {length:.3f}")

# %%
# The picture
# -----------
# Left: the weights; the three groups that matter are dark. Right: the coefficients. One weight for all
# has to be small enough for the groups that matter, and so lets noise in, or shrinks what matters.
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
matters = truth[:, 0] > 0
left.bar(np.flatnonzero(matters), x.value[matters], color="#0072B2", label="groups that matter")
left.bar(np.flatnonzero(~matters), x.value[~matters], color="#E69F00", label="the others")
left.set(xlabel="group", ylabel="weight $x_i$", title="A weight for each group", ylim=(0, 38))
right.plot(truth.ravel(), "-", color="#000000", linewidth=1, drawstyle="steps-mid", label="truth")
right.plot(shared_y.value, "s", color="#D55E00", markersize=4, alpha=0.7, label="one weight")
right.plot(y.value, "o", color="#0072B2", markersize=5, label="twelve weights")
right.set(xlabel="feature", ylabel="coefficient $y$", title="What the lasso finds")
for panel in (left, right):
    panel.grid(alpha=0.3)
    panel.legend(frameon=False)
figure.savefig(options.save, dpi=150)
print(f"picture saved to {options.save}")

# %%
# Is it right?
# ------------
# The first problem has a known solution. For the second, cvxpy and a cone solver fit the lasso once more
# at the weights that were found.
assert abs(toy_value + 0.5) < 1e-6
assert np.allclose(toy_y, np.repeat([0.0, -1.0], n // 2) / n, atol=1e-8)
assert np.all(toy_x[: n // 2] >= (1 - 1e-6) / n) and np.all(toy_x[n // 2 :] <= 1e-6)
assert abs(auto_value + 0.5) < 1e-6
assert random_value > -0.1
again = cp.Variable(n_groups * size)
lengths = cp.norm(cp.reshape(again, (size, n_groups), order="F"), 2, axis=0)
fit = cp.Problem(cp.Minimize(half_squares(train, again) + lengths @ x.value))
fit.solve(solver=cp.CLARABEL)
assert np.allclose(again.value, y.value, atol=1e-3), "cvxpy fits something else"
assert problem.certificate.accepted
assert problem.value < 0.9 * shared.value and problem_test < shared_test
print("checked: the known solution of (20), and a lasso that cvxpy fits as well")
