"""
Finding wrong labels
====================

Half of the training labels are wrong, and nobody knows which. A small set of validation data is clean.
*Data hyper-cleaning* gives each training sample a weight: the lower level fits a classifier to the
weighted samples, the upper level looks at its errors on the validation data. A sample whose label is
wrong only does harm there, so its weight falls.

The default data are the digits of scikit-learn; ``--data FILE`` reads MNIST from an ``.npz`` file with
X_train, y_train, X_val, y_val, X_test and y_test (5000, 5000 and 10000 images in the papers). Run it
with ``python examples/hyper_cleaning.py``; ``python -m examples.reproduce galet-3 --data FILE`` compares
several methods with the tables of the papers.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import blomodel as bm

parser = argparse.ArgumentParser(description="Finding wrong labels.")
parser.add_argument("--data", type=Path, default=None, metavar="FILE", help="MNIST as .npz")
parser.add_argument("--save", type=Path, default=Path("hyper_cleaning.png"), metavar="FILE")
options, _ = parser.parse_known_args()  # a notebook hands over arguments of its own

# %%
# The data
# --------
# Images as rows of numbers between 0 and 1, with a column of ones for the offset. Half of the training
# labels get another class at random.
rng = np.random.default_rng(1)
if options.data:
    file = np.load(options.data)
    images = [
        file[f"X_{part}"].reshape(len(file[f"X_{part}"]), -1) / 255 for part in ("train", "val", "test")
    ]
    labels = [file[f"y_{part}"].astype(int) for part in ("train", "val", "test")]
else:
    digits = load_digits()
    order = rng.permutation(len(digits.target))
    images = np.split(digits.data[order] / 16, [600, 1200])
    labels = np.split(digits.target[order], [600, 1200])
train, validation, test = (np.hstack([part, np.ones((len(part), 1))]) for part in images)
is_wrong = np.zeros(len(train), bool)
is_wrong[rng.permutation(len(train))[: len(train) // 2]] = True
noisy = np.where(is_wrong, (labels[0] + rng.integers(1, 10, len(train))) % 10, labels[0])
print(f"{len(train)} training samples, {is_wrong.sum()} of them with a wrong label")

# %%
# The model
# ---------
# A linear classifier with ten columns of coefficients ``W``, and its cross entropy. The weight of
# sample *i* is the sigmoid of :math:`x_i`, between 0 and 1:
#
# .. math:: \min_{x, W} \; \frac1{N'} \sum_{\text{validation}} \ell_j(W) \quad\text{where}\quad
#           W = \operatorname{argmin}_W \; \frac1N \sum_{\text{training}} \sigma(x_i)\, \ell_i(W)
#           + \frac{1}{2000} \|W\|^2.


def losses(features: np.ndarray, classes: np.ndarray, W: cp.Variable) -> cp.Expression:
    """Cross entropy of each sample."""
    scores = features @ W
    return cp.log_sum_exp(scores, axis=1) - cp.sum(cp.multiply(np.eye(10)[classes], scores), axis=1)


x = cp.Variable(len(train), name="x", value=np.zeros(len(train)))
W = cp.Variable((train.shape[1], 10), name="W", value=np.zeros((train.shape[1], 10)))
fit = cp.sum(cp.multiply(bm.sigmoid(x), losses(train, noisy, W))) / len(train)
lower = bm.Lower(cp.Minimize(fit + cp.sum_squares(W) / 2000), variables=[W])
upper = cp.Minimize(cp.sum(losses(validation, labels[1], W)) / len(validation))
problem = bm.BilevelProblem(upper, [], lower)

# %%
# The method
# ----------
# PBGD in the Gauss-Seidel order: the penalty of the lower gap has the weight 1, and each iteration takes
# one gradient step for each of the three parts. Each sample counts 1/N, so the step in ``x`` grows with
# N. The classifier at which the method itself ends, ``solution.iterate``, is a compromise between both
# levels; the answer of the solve has the lower level's own classifier for the same weights.
steps = {"step_x": float(len(train)), "step_y": 0.1, "step_y_penalised": 0.5}
problem.solve(
    "pbgd",
    order="gauss-seidel",
    penalty=1.0,
    inner_steps=1,
    max_steps=450 if options.data else 300,
    stop_at=0.0,
    **steps,
)
print(problem.certificate)


def accuracy(W: np.ndarray) -> float:
    """Share of the test images that are recognised."""
    return float(np.mean((test @ W).argmax(axis=1) == labels[2]))


found = x.value < 0
precision, recall = np.mean(is_wrong[found]), np.mean(found[is_wrong])
f1 = 2 * precision * recall / (precision + recall)
print(f"wrong labels found: precision {precision:.3f}, recall {recall:.3f}, F1 {f1:.3f}")

# %%
# How much is it worth?
# ---------------------
# The iterate has seen the validation data, so its accuracy alone would not show that the cleaning works;
# the F1 score does, and the lower level's own classifier, which has seen weighted training data only.
# Beside them the same classifier fitted to all noisy labels, and to the right ones only.


def plain(features: np.ndarray, classes: np.ndarray) -> float:
    """Test accuracy of the classifier fitted to the given samples, by many plain gradient steps."""
    W, targets = np.zeros((features.shape[1], 10)), np.eye(10)[classes]
    for _ in range(1000):
        powers = np.exp(features @ W)
        slope = features.T @ (powers / powers.sum(axis=1, keepdims=True) - targets) / len(targets)
        W -= 0.1 * (slope + W / 1000)
    return accuracy(W)


iterate, ours = accuracy(problem.solution.iterate["W"]), accuracy(W.value)
with_all, with_clean = plain(train, noisy), plain(train[~is_wrong], noisy[~is_wrong])
print(f"test accuracy: iterate {iterate:.4f}, lower level's answer {ours:.4f}")
print(f"plain fits: all labels {with_all:.4f}, only the right ones {with_clean:.4f}")

# %%
# The picture
# -----------
# Left: the weights of samples with right and with wrong labels. Right: eight samples that lost their
# weight, with the label they came with.
figure = plt.figure(figsize=(12, 5), layout="constrained")
left, grid = figure.subfigures(1, 2)
axes = left.subplots()
values = 1 / (1 + np.exp(-x.value))
bins = np.linspace(0, 1, 31)
axes.hist(values[~is_wrong], bins, color="#0072B2", alpha=0.8, label="right label")
axes.hist(values[is_wrong], bins, color="#D55E00", alpha=0.6, label="wrong label")
axes.set(xlabel=r"weight $\sigma(x_i)$", ylabel="samples", title="Weights tell the labels apart")
axes.legend(frameon=False)
side = int(np.sqrt(train.shape[1] - 1))
for panel, sample in zip(grid.subplots(2, 4).ravel(), np.argsort(x.value)[:8], strict=True):
    panel.imshow(train[sample, :-1].reshape(side, side), cmap="gray_r")
    panel.set_title(f"labelled {noisy[sample]}", fontsize=10)
    panel.axis("off")
grid.suptitle("Least weights")
figure.savefig(options.save, dpi=150)
print(f"picture saved to {options.save}")

# %%
# Is it right?
# ------------
# The labels that were made wrong are known, though the model never saw which.
assert f1 > 0.9, f1
assert ours > with_all + 0.03 and ours > with_clean - 0.03
assert iterate > with_all + 0.03
assert problem.certificate.accepted and problem.certificate.lower_gap <= 1e-6
assert np.mean(values[is_wrong]) < 0.5 < np.mean(values[~is_wrong])
print(f"checked: F1 {f1:.3f} at finding wrong labels, and nearly the accuracy that clean labels give")
