"""
When PBGD-Free is right, and when it is wrong
=============================================

The slope of the upper level's true function :math:`\\varphi(x) = f(x, y^*(x))` has two parts: how
``f`` changes with ``x`` itself, and how it changes because the lower level's answer moves. The
second part is the expensive one. PBGD-Free leaves it out and steps along :math:`\\partial
f/\\partial x` alone. That is fast, and right only where ``f`` hardly depends on ``y`` near the
lower answer. The paper that proposes it calls this *flatness* (Jiang, Xiao, Chen and Chen,
"Efficient Penalty-Based Bilevel Methods: Improved Analysis, Novel Updates, and Flatness
Condition").

This page shows a problem where it goes the wrong way, one where it is nearly right, and what tells
them apart. Run it with ``python examples/pbgd_free.py``.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

parser = argparse.ArgumentParser(description="When PBGD-Free is right, and when it is wrong.")
parser.add_argument("--save", type=Path, default=Path("pbgd_free.png"), metavar="FILE")
options, _ = parser.parse_known_args()  # a notebook hands over arguments of its own


def run(problem: bm.BilevelProblem, x: cp.Variable, start: float, method: str) -> tuple[float, str]:
    """Solve from a start; the x found, and the warning if there was one."""
    x.value = start
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        problem.solve(method)
    warned = "; ".join(str(warning.message) for warning in raised)
    return float(x.value), warned


# %%
# Wrong: the answer matters
# -------------------------
# Example 1 of the paper: :math:`f = x^2 + 10y` above, :math:`g = (y - x + 1)^2` below. The lower
# level answers :math:`y = x - 1`, so the upper level minimises :math:`x^2 + 10x - 10`, whose
# lowest point is :math:`x = -5`. But :math:`\partial f/\partial x = 2x` knows nothing of the
# answer and leads to :math:`x = 0`.
x, y = cp.Variable(name="x"), cp.Variable(name="y")
steep = bm.BilevelProblem(
    cp.Minimize(x**2 + 10 * y),
    [-10 <= x, x <= 10],
    bm.Lower(cp.Minimize((y - x + 1) ** 2), variables=[y]),
)
wrong_x, wrong_warning = run(steep, x, 3.0, "pbgd-free")
wrong_certificate = steep.certificate
print(f"pbgd-free: x = {wrong_x:.4f}, value {steep.value:.4f}, status {steep.status}")
print(f"  warning: {wrong_warning}")
right_x, right_warning = run(steep, x, 3.0, "alt-pbgd")
print(f"alt-pbgd:  x = {right_x:.4f}, value {steep.value:.4f}, status {steep.status}")

# %%
# Two things give the wrong answer away. The method looks at the flatness of ``f`` at its last
# point and warns. And the certificate, which knows nothing of the method, claims only
# ``feasible``: its stationarity says that the upper objective could still fall.
print(wrong_certificate)
print(bm.diagnostics.flatness(steep, x=0.0))

# %%
# Useless: only the answer matters
# --------------------------------
# If ``f`` does not hold ``x`` at all, as in most hyper-parameter problems, there is nothing to
# follow, and PBGD-Free says so.
tuning = bm.BilevelProblem(
    cp.Minimize((y - 3) ** 2), [-10 <= x, x <= 10], bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
)
still_x, still_warning = run(tuning, x, 0.5, "pbgd-free")
print(f"pbgd-free: x stays at {still_x}; warning: {still_warning}")

# %%
# Nearly right: both levels want the same answer
# ----------------------------------------------
# A model predicts :math:`y\,(a_1 + x\,a_2)` from two measurements. The *feature* ``x`` is shared;
# the *head* ``y`` is fitted to training data by the lower level. The upper level chooses ``x`` for
# the best prediction of other data. When both data sets follow the same law, the head that is best
# for one is nearly best for the other: ``f`` is flat in ``y`` at the lower answer.
#
# The parameter ``target`` holds the other data. We shall change the law that they follow.
rng = np.random.default_rng(0)
n = 50
train, other = rng.standard_normal((n, 2)), rng.standard_normal((n, 2))
train_noise, other_noise = 0.1 * rng.standard_normal((2, n))
law = np.array([1.0, 0.6])  # the true feature is 0.6, the true head 1.5
label = 1.5 * train @ law + train_noise

target = cp.Parameter(n, name="target")
fit = cp.sum_squares(label - y * train[:, 0] - x * y * train[:, 1]) / n + 0.01 * y**2
error = cp.sum_squares(target - y * other[:, 0] - x * y * other[:, 1]) / n
shared = bm.BilevelProblem(
    cp.Minimize(error), [-1 <= x, x <= 3], bm.Lower(cp.Minimize(fit), variables=[y])
)


def other_labels(shift: float) -> np.ndarray:
    """Labels of the other data, whose true head is larger by ``shift``."""
    return (1.5 + shift) * other @ law + other_noise


def phi(at: np.ndarray, shift: float) -> np.ndarray:
    """Error at the best head, by pencil: ridge regression with one unknown has a formula."""
    values = []
    for feature in at:
        column = train @ np.array([1.0, feature])
        head = (column @ label) / (column @ column + 0.01 * n)
        values.append(np.mean((other_labels(shift) - head * (other @ np.array([1.0, feature]))) ** 2))
    return np.array(values)


def best_feature(shift: float) -> float:
    """The lowest point of phi on a grid, and then on a finer one around it."""
    grid = np.linspace(-1, 3, 2001)
    center = grid[np.argmin(phi(grid, shift))]
    grid = np.linspace(center - 0.004, center + 0.004, 1601)
    return float(grid[np.argmin(phi(grid, shift))])


# %%
# Now let the law of the other data differ more and more from that of the training data. For each
# shift: the feature that PBGD-Free finds, the one that ALT-PBGD finds, which keeps the second part
# of the slope, and the :math:`\delta` of the flatness condition at the best feature.
shifts = (0.0, 0.1, 0.2, 0.3, 0.5)
truth, free, alternating, deltas, warned = [], [], [], [], []
for shift in shifts:
    target.value = other_labels(shift)
    truth.append(best_feature(shift))
    deltas.append(bm.diagnostics.flatness(shared, x=truth[-1]).delta)
    found, warning = run(shared, x, 0.0, "pbgd-free")
    free.append(found)
    warned.append(bool(warning))
    alternating.append(run(shared, x, 0.0, "alt-pbgd")[0])
    places = f"grid {truth[-1]:.3f}, alt-pbgd {alternating[-1]:.3f}, pbgd-free {free[-1]:.3f}"
    print(
        f"shift {shift:4.2f}: {places}, delta {deltas[-1]:.2g}, {'warned' if warning else 'no warning'}"
    )

# %%
# Without a shift PBGD-Free is off by less than 0.02, and silent. With a shift of 0.1 it is off by more
# than 0.05 and warns: it computes the part of the slope that it left out, and how far that would move
# ``x``. :math:`\delta` itself is measured in units of ``f`` and falls with the penalty weight.
#
# The picture
# -----------
BLUE, RED, BLACK = "#0072B2", "#D55E00", "#000000"
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.8), layout="constrained")
line = np.linspace(-9, 4, 200)
left.plot(
    line, line**2 + 10 * (line - 1), color=BLACK, linewidth=2, label=r"$\varphi(x) = x^2 + 10(x - 1)$"
)
left.plot(
    line, line**2 - 35, color="#999999", linestyle="--", label="what PBGD-Free sees: $x^2$ + constant"
)
left.plot(wrong_x, wrong_x**2 + 10 * (wrong_x - 1), "X", color=RED, markersize=11, label="PBGD-Free")
left.plot(right_x, right_x**2 + 10 * (right_x - 1), "o", color=BLUE, markersize=10, label="ALT-PBGD")
left.set(title="Wrong: Example 1", xlabel="$x$", ylabel="upper objective", ylim=(-42, 60))
left.legend(frameon=False)
near = np.linspace(-0.2, 1.6, 200)
for shift, style, place in ((0.0, "-", 0), (0.5, "--", 4)):
    middle.plot(
        near,
        phi(near, shift),
        color=BLACK,
        linestyle=style,
        linewidth=2,
        label=rf"$\varphi(x)$, shift {shift:g}",
    )
    names = ("PBGD-Free", "ALT-PBGD") if place == 0 else (None, None)
    middle.plot(
        free[place], phi(np.array([free[place]]), shift), "X", color=RED, markersize=11, label=names[0]
    )
    middle.plot(
        alternating[place], phi(np.array([alternating[place]]), shift), "o", color=BLUE, label=names[1]
    )
middle.set(
    title="Shared feature: right without a shift", xlabel="feature $x$", ylabel="error on the other data"
)
middle.legend(frameon=False)
far = np.abs(np.array(free) - truth)
right.plot(shifts, far, "X-", color=RED, markersize=9, label="error of PBGD-Free in $x$")
right.plot(shifts, np.array(deltas), "s--", color="#009E73", label=r"$\delta$ of the flatness condition")
right.plot(
    shifts, np.abs(np.array(alternating) - truth), "o-", color=BLUE, label="error of ALT-PBGD in $x$"
)
right.axhline(0.01, color="#999999", linestyle=":", label=r"warning where $\delta$ is above this")
right.set(
    title="How wrong, and what tells",
    xlabel="shift between the data sets",
    yscale="log",
    ylim=(1e-9, 10),
)
right.legend(frameon=False, loc="lower right")
for panel in (left, middle, right):
    panel.grid(alpha=0.3)
figure.savefig(options.save, dpi=150)
print(f"picture saved to {options.save}")

# %%
# Is it right?
# ------------
# Example 1 by pencil, the shared feature by a grid over the closed formula.
assert abs(wrong_x) < 1e-4 and "not flat" in wrong_warning and wrong_certificate.claim == "feasible"
assert abs(right_x + 5) < 1e-4 and right_warning == ""
assert still_x == 0.5 and "step is zero" in still_warning
assert np.allclose(alternating, truth, atol=2e-5), "the finer grid has a spacing of 0.000005"
assert far[0] < 0.02 and not warned[0] and 0.05 < far[1] < 0.1
assert np.all(np.diff(far) > 0) and np.all(np.diff(deltas) > 0) and all(warned[1:])
print("checked: PBGD-Free ends at 0 where -5 is right, and is off by less than 0.02 where f is flat")
