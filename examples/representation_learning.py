"""
Representation learning, to the global optimum
==============================================

A linear network has two layers. The first one, the *representation*, is shared: it should suit new data
(validation). The second one is fitted to the training data for whatever representation there is. So the
first layer is decided above and the second below. The product of two unknown matrices makes both levels
nonconvex together, and yet gradient steps on the penalty reach the global optimum, at a nearly linear
rate: that is the subject of the paper on global optimality of penalty methods (PBGD), and this is the
experiment of its appendix H.1 at a smaller size. Run it with
``python examples/representation_learning.py``; the paper's size is run by
``python -m examples.reproduce pbgd-h``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

parser = argparse.ArgumentParser(description="Representation learning, to the global optimum.")
parser.add_argument("--save", type=Path, default=Path("representation_learning.png"), metavar="FILE")
options, _ = parser.parse_known_args()  # a notebook hands over arguments of its own

# %%
# The data
# --------
# Training and validation data lie in different places. The labels come from a network with the same
# first layer and slightly different second layers. The network is wide: ``h`` is larger than everything
# else.
rng = np.random.default_rng(0)
n_train, n_validation, m, n, h = 6, 4, 8, 2, 30
train = rng.normal(5, 5, (n_train, m))
validation = rng.normal(-3, 5, (n_validation, m))
first, second = rng.normal(0, 0.01, (m, h)), rng.normal(2, 0.01, (h, n))
train_labels = rng.normal(train @ first @ second, 0.01)
validation_labels = rng.normal(validation @ first @ rng.normal(second, 0.001), 0.01)

# %%
# The model
# ---------
# .. math:: \min_{W_1, W_2} \; \tfrac12 \|Y' - X' W_1 W_2\|^2 \quad\text{where}\quad
#           W_2 \in \operatorname{argmin}_{W_2} \; \tfrac12 \|Y - X W_1 W_2\|^2.
#
# There are fewer training samples than features, so many second layers fit the training data exactly;
# the upper level may have the one that it likes best.
W1 = cp.Variable((m, h), name="W1")
W2 = cp.Variable((h, n), name="W2")
lower = bm.Lower(cp.Minimize(cp.sum_squares(train_labels - train @ W1 @ W2) / 2), variables=[W2])
upper = cp.Minimize(cp.sum_squares(validation_labels - validation @ W1 @ W2) / 2)
problem = bm.BilevelProblem(upper, [], lower)

# %%
# The optimum by linear algebra
# -----------------------------
# Only the product :math:`M = W_1 W_2` counts, and as ``h`` is large every matrix is such a product. What
# is left is least squares: among all ``M`` that fit the training data exactly, the one with the least
# validation error. The penalty problem, in which the training error only has the weight ``gamma``, is
# least squares too.
free = np.linalg.svd(train)[2][n_train:].T
M = np.linalg.pinv(train) @ train_labels
M = M + free @ np.linalg.lstsq(validation @ free, validation_labels - validation @ M, rcond=None)[0]
best = 0.5 * np.sum((validation_labels - validation @ M) ** 2)


def penalised_optimum(gamma: float) -> float:
    """Upper objective at the global optimum of the penalty problem."""
    stacked = np.vstack([validation, np.sqrt(gamma) * train])
    wanted = np.vstack([validation_labels, np.sqrt(gamma) * train_labels])
    product = np.linalg.lstsq(stacked, wanted, rcond=None)[0]
    return 0.5 * np.sum((validation_labels - validation @ product) ** 2)


print(f"global optimum by linear algebra: {best:.3e}")
for gamma in (1.0, 10.0):
    print(f"of the penalty problem with gamma = {gamma:g}: {penalised_optimum(gamma):.3e}")

# %%
# Gradient steps on the penalty
# -----------------------------
# PBGD in the Jacobi order adds the lower gap with the weight ``gamma`` and takes gradient steps in both
# layers, from a random start. The history holds the upper objective along the way.
start = 0.5 * rng.standard_normal(W1.shape), 0.1 + 0.1 * rng.standard_normal(W2.shape)
errors: dict[float, tuple[np.ndarray, np.ndarray]] = {}
for gamma in (1.0, 10.0):
    W1.value, W2.value = start
    problem.solve("pbgd", penalty=gamma, max_steps=800, stop_at=0.0)
    history = problem.solution.history
    errors[gamma] = history["iteration"], np.abs(history["value"] - penalised_optimum(gamma))
    print(
        f"gamma {gamma:g}: error {errors[gamma][1][0]:.1e} at first, {errors[gamma][1][-1]:.1e} at last"
    )

# %%
# No settings
# -----------
# A first layer alone does not decide the upper value here, since many second layers fit. So the second
# layer must be chosen among them, and ``auto`` does that.
W1.value, W2.value = start
problem.solve()
print(problem.certificate)

# %%
# The picture
# -----------
# Left: on a logarithmic scale a linear rate is a straight line. Right: what the network says for the
# validation data, at the start and at the answer.
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
for (gamma, row), colour, marker in zip(errors.items(), ("#0072B2", "#E69F00"), "os", strict=True):
    left.semilogy(*row, marker + "-", color=colour, label=rf"$\gamma$ = {gamma:g}")
left.set(
    xlabel="iterations", ylabel="distance of $f$ from its optimum", title="PBGD on a nonconvex penalty"
)
left.legend(frameon=False)
products = {"start": start[0] @ start[1], "auto": W1.value @ W2.value}
for (name, product), colour in zip(products.items(), ("#999999", "#0072B2"), strict=True):
    right.plot(validation_labels.ravel(), (validation @ product).ravel(), "o", color=colour, label=name)
ends = np.array([validation_labels.min(), validation_labels.max()])
right.plot(ends, ends, color="#000000", linewidth=1)
right.set(xlabel="validation label", ylabel="the network's answer", title="Before and after")
right.legend(frameon=False)
for panel in (left, right):
    panel.grid(alpha=0.3)
figure.savefig(options.save, dpi=150)
print(f"picture saved to {options.save}")

# %%
# Is it right?
# ------------
# Everything is compared with the optima of linear algebra.
for gamma, (_, row) in errors.items():
    assert row[-1] < 1e-4 * row[0], f"gamma {gamma:g}: not near the global optimum: {row[-1]}"
# That optimum fits the training data exactly; with a poorer representation f may be smaller still.
assert 0 <= problem.value < best + 1e-5 and problem.certificate.accepted
print("checked: the errors of PBGD fall by more than 1e4; auto is no worse than the optimum above")
