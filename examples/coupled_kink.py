"""
Coupled constraints, and the kink they make
===========================================

An operator releases a capacity ``x`` between 0 and 3. A user sees ``x`` and chooses a load ``y``.
The user would like to run at twice the capacity, ``y = 2x``, but may exceed it by no more than an
allowance ``room``. That limit *couples* the levels: it is a constraint of the lower level, and it
moves with the decision of the upper level.

With ``room = 0`` this is Example 4 of Jiang, Xiao, Chen and Chen, "Efficient Penalty-Based Bilevel
Methods: Improved Analysis, Novel Updates, and Flatness Condition" (the story is ours). Its
solution is :math:`x = 0.300705` with the value 2.654498. With more room the function that the
upper level minimises gets a kink, and for a whole range of allowances the solution sits exactly on
it. Run it with ``python examples/coupled_kink.py``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

parser = argparse.ArgumentParser(description="Coupled constraints, and the kink they make.")
parser.add_argument("--save", type=Path, default=Path("coupled_kink.png"), metavar="FILE")
options, _ = parser.parse_known_args()  # a notebook hands over arguments of its own

# %%
# The model
# ---------
# The allowance is a ``cp.Parameter``, so that it can be changed without stating or compiling the
# problem again. The upper objective is not convex, and need not be: any smooth function of cvxpy's
# nonlinear language will do.
x = cp.Variable(name="x")
y = cp.Variable(name="y")
room = cp.Parameter(nonneg=True, value=0.0, name="room")

user = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= x + room, 0 <= y, y <= 3], variables=[y])
cost = cp.exp(2 - y) / (2 + cp.nlp.cos(4 * x)) + cp.log((4 * x - 2) ** 2 + 1) / 2 + x**2
problem = bm.BilevelProblem(cp.Minimize(cost), [0 <= x, x <= 3], user)

# %%
# The example of the paper
# ------------------------
problem.solve()
print(f"room 0: {problem.status}, x = {x.value:.6f}, y = {y.value:.6f}, value {problem.value:.6f}")
print(problem.certificate)
paper_x, paper_value = float(x.value), problem.value

# %%
# Why the multiplier matters
# --------------------------
# Gradient methods need the slope of the value function :math:`v(x) = \min_y g(x, y)`. When the
# constraints do not hold ``x``, that slope is just :math:`\partial g/\partial x` at the user's
# answer. Here it is not: a larger ``x`` also loosens the limit, and the multiplier :math:`\lambda`
# of the limit says what this is worth:
#
# .. math:: v'(x) = \partial_x g(x, y^*) + \lambda\,\partial_x (y^* - x) = 4x - \lambda,
#           \qquad \lambda = 2x.
#
# (The user answers :math:`y^* = x`, so :math:`v(x) = x^2`, whose slope is indeed :math:`2x` and
# not :math:`4x`.)
functions = problem.reformulate("value-function-reduced").functions
slope = float(functions.value_gradient(1.0)[0])
difference = (functions.value(1.0 + 1e-4) - functions.value(1.0 - 1e-4)) / 2e-4
print(f"v'(1): {slope:.6f} by the formula, {difference:.6f} by differences, 4 without the multiplier")

# %%
# The method of the paper
# -----------------------
# PBGD-BLOCC takes gradient steps on the penalty :math:`F_\gamma`. The paper shows that a step size
# of 0.05 is good for both :math:`\gamma = 10` and :math:`\gamma = 100`, because :math:`F_\gamma`
# does not get steeper with :math:`\gamma`. We start at ``x = 0.1`` and not at 0, where the limits
# ``y <= x`` and ``0 <= y`` meet: the multipliers are not unique there, and so the formula for the
# slope has no single answer.
blocc = {}
for gamma in (10.0, 100.0):
    x.value = 0.1
    problem.solve("blocc", penalty=gamma, step_x=0.05)
    blocc[gamma] = float(x.value)
    print(f"blocc, gamma {gamma:g}: x = {x.value:.6f} after {problem.solution.iterations} steps")

# %%
# The kink
# --------
# With ``room = 0`` the limit binds at every ``x``, and all is smooth. For ``room > 0`` the user
# has two regimes. While :math:`2x \le x + \text{room}`, that is for ``x`` up to ``room``, the
# limit does not bind and the answer is :math:`2x`; beyond, it is :math:`x + \text{room}`. At ``x =
# room`` the answer has a kink, and so has the upper level's function :math:`\varphi(x) = f(x,
# y^*(x))`. Its slope jumps there, and when it jumps from negative to positive, the kink itself is
# a minimum at which no gradient vanishes.
allowances = np.array([0.0, 0.15, 0.3, 0.33, 0.39, 0.42, 0.45, 0.6])
best_x, best_value = [], []
for allowance in allowances:
    room.value = allowance
    problem.solve()
    best_x.append(float(x.value))
    best_value.append(problem.value)
    print(f"room {allowance:4.2f}: {problem.status}, x = {x.value:.6f}, value {problem.value:.6f}")


# %%
# By hand
# -------
# The user's answer in one line, and the upper level's function from it. Both come from a pencil,
# not from the library.
def answer(at: np.ndarray, allowance: float) -> np.ndarray:
    """What the user does: twice the capacity if that is allowed, else the most that is."""
    return np.minimum(np.minimum(2 * at, at + allowance), 3)


def phi(at: np.ndarray, allowance: float) -> np.ndarray:
    """Upper objective at the user's answer."""
    load = answer(at, allowance)
    return np.exp(2 - load) / (2 + np.cos(4 * at)) + np.log((4 * at - 2) ** 2 + 1) / 2 + at**2


kink, step = 0.39, 1e-6
left = float(phi(kink, kink) - phi(kink - step, kink)) / step
right = float(phi(kink + step, kink) - phi(kink, kink)) / step
print(f"room {kink}: slope of phi {left:.3f} left of the kink, {right:+.3f} right of it")

# %%
# The picture
# -----------
# Left: three allowances, three functions. At ``room = 0.39`` the minimum is the kink. The penalty
# :math:`F_\gamma` for that allowance rounds it off, which is why penalty methods can work with
# gradients. Right: the best ``x`` for each allowance. It grows slowly, then follows the kink along
# the line ``x = room``, and then stays where the limit no longer binds.
grid = np.linspace(0.1, 0.7, 601)
figure, (curves, path) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
for allowance, colour, width in ((0.0, "#56B4E9", 2.5), (kink, "#000000", 5), (0.6, "#E69F00", 2.5)):
    found = allowances.tolist().index(allowance)
    label = rf"$\varphi(x)$, room = {allowance:g}"
    curves.plot(grid, phi(grid, allowance), color=colour, linewidth=width, label=label)
    curves.plot(best_x[found], best_value[found], "*", color="#D55E00", markersize=11, zorder=5)
room.value = kink
penalty = [functions.penalty(point, 3.0) for point in grid[::10]]
label = r"$F_\gamma(x)$, $\gamma$ = 3, room = 0.39"
curves.plot(grid[::10], penalty, color="#009E73", linestyle="--", linewidth=2, label=label)
curves.axvline(kink, color="#000000", linewidth=0.8, linestyle=":")
curves.annotate("kink at $x$ = room = 0.39", (kink, 3.1), textcoords="offset points", xytext=(-150, 0))
curves.set(title="What the upper level minimises (stars: solutions)", ylim=(1.8, 3.5))
curves.set(xlabel="capacity $x$", ylabel="cost")
curves.legend(framealpha=1, loc="upper right")
path.plot(allowances, allowances, color="#999999", linestyle=":", label="the kink, $x$ = room")
path.plot(allowances, best_x, "o-", color="#0072B2", label="best $x$")
path.axhline(
    paper_x, color="#D55E00", linewidth=1, linestyle="--", label=f"Example 4, $x$ = {paper_x:.4f}"
)
path.set(
    title="The solution follows the kink",
    xlabel="allowance (room)",
    ylabel="best capacity $x$",
    ylim=(0.25, 0.5),
)
path.legend(frameon=False, loc="lower right")
for panel in (curves, path):
    panel.grid(alpha=0.3)
figure.savefig(options.save, dpi=150)
print(f"picture saved to {options.save}")

# %%
# Is it right?
# ------------
# A grid search over the pencil formula, at every allowance, and the value that the paper's
# functions have at its solution.
fine = np.linspace(0, 3, 300_001)
for allowance, found_x, found_value in zip(allowances, best_x, best_value, strict=True):
    values = phi(fine, allowance)
    assert abs(found_value - values.min()) < 1e-6, f"room {allowance}: the grid finds {values.min()}"
    assert abs(found_x - fine[np.argmin(values)]) < 2e-5
assert abs(paper_x - 0.300705) < 1e-6 and abs(paper_value - 2.654498) < 1e-6
assert abs(slope - 2.0) < 1e-6 and abs(difference - 2.0) < 1e-4
assert all(abs(found - paper_x) < 1e-3 for found in blocc.values())
assert left < 0 < right and abs(best_x[allowances.tolist().index(kink)] - kink) < 1e-7
print("checked: a grid search agrees at every allowance, and at room 0.39 the solution is the kink")
