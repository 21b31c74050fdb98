"""
A first bilevel problem, in pictures
====================================

A town pays a subsidy ``x`` for every solar panel that a household puts on its roof. The household
then decides how many panels ``y`` it wants. The town cannot decide ``y``. It can only choose ``x``
and foresee the answer. That is a *bilevel* problem: one optimisation problem with another one
inside.

This page states the problem, solves it, draws everything that has a name in bilevel optimisation,
and checks the answer with a pencil. Run it with ``python examples/first_bilevel_problem.py``;
``--save FILE`` says where the picture goes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

parser = argparse.ArgumentParser(description="A first bilevel problem, in pictures.")
parser.add_argument("--save", type=Path, default=Path("first_bilevel_problem.png"), metavar="FILE")
options, _ = parser.parse_known_args()  # a notebook hands over arguments of its own

# %%
# The lower level: the household
# ------------------------------
# A panel costs 3 and the household gets ``x`` of that back. The first panel is worth 2 to it,
# further ones less and less, and the roof has room for two. With the worth written as a negative
# cost, the household solves
#
# .. math:: \min_y \; g(x, y) = (3 - x)\,y - 2y + y^2/2 \quad\text{subject to}\quad 0 \le y \le 2.
#
# These are ordinary cvxpy variables. The list ``variables=[y]`` says what the household decides;
# every other variable belongs to the town.
x = cp.Variable(name="x")
y = cp.Variable(name="y")

household = bm.Lower(
    cp.Minimize((3 - x) * y - 2 * y + y**2 / 2), [0 <= y, y <= 2], variables=[y], name="the household"
)

# %%
# The upper level: the town
# -------------------------
# The town would like to see two panels, and pays the subsidy ``x`` for each panel that is built:
#
# .. math:: \min_{x, y} \; f(x, y) = (y - 2)^2 + x\,y \quad\text{subject to}\quad 0 \le x \le 4
#           \text{ and } y \text{ is the household's answer to } x.
town = cp.Minimize((y - 2) ** 2 + x * y)
problem = bm.BilevelProblem(town, [0 <= x, x <= 4], household)

problem.solve()
print(f"{problem.status}: subsidy {x.value:.4f}, panels {y.value:.4f}, cost {problem.value:.4f}")
print(problem.certificate)

# %%
# The certificate is an independent check: the point is put into the model as it was written, and
# the household's problem is solved once more. The status ``optimal`` means that a bound proves
# that no subsidy is better.
best_x, best_y, best_value = float(x.value), float(y.value), problem.value

# %%
# Two tempting answers that are wrong
# -----------------------------------
# *Wishful thinking.* Minimise ``f`` over ``x`` and ``y`` as if the town decided both: no subsidy,
# two panels, cost 0. But without a subsidy the household builds nothing, and ``bm.certify``
# refuses the point.
wishful = bm.certify(problem, x=0.0, y=2.0)
print(f"wishful thinking is refused: {wishful.reasons[0]}")

# %%
# *Taking turns.* The town chooses the best ``x`` for the present ``y``, the household answers, and
# so on. With the number of panels fixed, the town saves money with ``x = 0``; the household
# answers ``y = 0``; there it ends, at a cost of 4. Taking turns ignores that the household
# *reacts*. The point is a valid answer, but a bad one.
taking_turns = bm.certify(problem, x=0.0, y=0.0)
print(f"taking turns: accepted {taking_turns.accepted}, cost {taking_turns.objective:g}")

# %%
# The names of things
# -------------------
# * :math:`y^*(x)`, the lower solution: what the household answers to ``x``.
# * :math:`v(x) = g(x, y^*(x))`, the value function: the best that the household can get.
# * :math:`\varphi(x) = f(x, y^*(x))`: what the town really minimises, a function of ``x`` alone.
# * :math:`g(x, y) - v(x)`, the lower gap: how much the household would lose with ``y``. A point is
#   bilevel feasible exactly when its gap is zero.
# * :math:`F_\gamma(x) = \min_y [f(x, y) + \gamma\,(g(x, y) - v(x))]`, the penalty: the town may
#   choose ``y`` after all, but pays :math:`\gamma` for each unit of gap. It lies below
#   :math:`\varphi` and rises towards it with :math:`\gamma`. Many methods minimise it, because it
#   is smoother than :math:`\varphi` and has a simple gradient.
#
# The reformulation "value-function-reduced" has these as functions of numbers.
functions = problem.reformulate("value-function-reduced").functions
print(functions)

# %%
gammas = (2.0, 5.0, 20.0)
grid = np.linspace(0, 4, 161)
y_star = np.clip(grid - 1, 0, 2)  # by pencil: g'(y) = 1 - x + y vanishes at y = x - 1
phi = np.array([functions.objective(a, b) for a, b in zip(grid, y_star, strict=True)])
penalty = {gamma: np.array([functions.penalty(a, gamma) for a in grid]) for gamma in gammas}
answers = {gamma: np.array([functions.answer(a, gamma)[0] for a in grid]) for gamma in gammas}

# %%
# The pictures
# ------------
# Top left, the whole problem: the town walks along the thick line, which is all that the household
# allows, and looks for its lowest point on the contours of ``f``. Top right, where that line comes
# from. Bottom left, the answers that the penalty assumes. Bottom right, the function of ``x``
# alone that is left. ``problem.plot()`` draws the lower two with less ado.
BLACK, PENALTY_COLOURS = "#000000", ("#E69F00", "#56B4E9", "#009E73")
STAR = {"marker": "*", "color": "#D55E00", "markersize": 16, "linestyle": "none", "zorder": 5}

figure, ((whole, below), (reply, above)) = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")

xs, ys = np.meshgrid(grid, np.linspace(0, 2, 81))
contours = whole.contour(xs, ys, (ys - 2) ** 2 + xs * ys, levels=np.arange(0.5, 8, 0.5), cmap="cividis")
whole.clabel(contours, levels=[1, 2, 3, 4, 6], fontsize=8)
whole.plot(grid, y_star, color=BLACK, linewidth=4, label="$y^*(x)$: the household's answer")
whole.plot(best_x, best_y, label=f"bilevel solution ({best_x:.2f}, {best_y:.2f})", **STAR)
whole.plot(0, 2, "X", color="#CC79A7", markersize=10, clip_on=False, zorder=5, label="wishful thinking")
whole.plot(0, 0, "s", color="#0072B2", markersize=8, clip_on=False, zorder=5, label="taking turns")
whole.set(
    title="Contours of $f(x, y)$", xlabel="subsidy $x$", ylabel="panels $y$", xlim=(0, 4), ylim=(0, 2)
)
whole.legend(loc="lower right", framealpha=0.95, fontsize=9)

loads = np.linspace(0, 2, 81)
for subsidy, colour in zip(
    (0.5, 1.5, 2.5, 3.5), plt.get_cmap("cividis")([0.05, 0.35, 0.65, 0.9]), strict=True
):
    lowest = float(np.clip(subsidy - 1, 0, 2))
    below.plot(loads, (1 - subsidy) * loads + loads**2 / 2, color=colour, linewidth=2)
    below.plot(
        lowest, (1 - subsidy) * lowest + lowest**2 / 2, "o", color=colour, clip_on=False, zorder=5
    )
    below.text(2.03, (1 - subsidy) * 2 + 2, f"$x$ = {subsidy}", va="center", fontsize=9)
below.set(
    title="$g(x, y)$ at four subsidies; dots: $(y^*(x), v(x))$",
    xlabel="panels $y$",
    ylabel="$g$",
    xlim=(0, 2.35),
)

reply.plot(grid, y_star, color=BLACK, linewidth=4, label="$y^*(x)$")
above.plot(grid, phi, color=BLACK, linewidth=4, label=r"$\varphi(x) = f(x, y^*(x))$")
for gamma, colour in zip(gammas, PENALTY_COLOURS, strict=True):
    lowest = int(np.argmin(penalty[gamma]))
    reply.plot(grid, answers[gamma], color=colour, linewidth=2, label=rf"$\gamma$ = {gamma:g}")
    above.plot(
        grid, penalty[gamma], color=colour, linewidth=2, label=rf"$F_\gamma(x)$, $\gamma$ = {gamma:g}"
    )
    above.plot(grid[lowest], penalty[gamma][lowest], "v", color=colour, markersize=9, zorder=6)
above.plot(best_x, best_value, label=f"solution, $x$ = {best_x:.2f}", **STAR)
reply.set(
    title=r"Answers: the household's, and the penalty's", xlabel="subsidy $x$", ylabel="panels $y$"
)
above.set(
    title=r"What is left for the town (triangles: lowest points)",
    xlabel="subsidy $x$",
    ylabel="cost of the town",
)
for panel in (reply, above):
    panel.legend(frameon=False, fontsize=9)
for panel in (below, reply, above):
    panel.grid(alpha=0.3)
figure.savefig(options.save, dpi=150)
print(f"picture saved to {options.save}")

# %%
# Is it right?
# ------------
# With a pencil: the household's slope :math:`1 - x + y` vanishes at :math:`y = x - 1`, which the
# roof and zero cut off, so :math:`y^*(x)` is :math:`x - 1` between 1 and 3. There
# :math:`\varphi(x) = (x - 3)^2 + x(x - 1)` with slope :math:`4x - 7`: the subsidy is 7/4, the
# household builds 3/4, and the cost is 46/16. Outside it is worse: 4 for :math:`x \le 1`, and at
# least 6 for :math:`x \ge 3`.
assert problem.status == "optimal"
assert abs(best_x - 7 / 4) < 1e-5 and abs(best_y - 3 / 4) < 1e-5 and abs(best_value - 46 / 16) < 1e-6
assert not wishful.accepted
assert taking_turns.accepted and taking_turns.objective == 4.0

# The penalty lies below phi, rises with gamma, and its lowest point moves to the solution.
assert np.all(penalty[2.0] <= penalty[5.0] + 1e-7) and np.all(penalty[5.0] <= penalty[20.0] + 1e-7)
assert np.all(penalty[20.0] <= phi + 1e-7)
lowest_points = [float(grid[np.argmin(penalty[gamma])]) for gamma in gammas]
print(f"lowest points of F_gamma at gamma = 2, 5, 20: {', '.join(f'{a:.3f}' for a in lowest_points)}")
assert lowest_points[0] < lowest_points[1] < lowest_points[2] < 7 / 4
print("checked with a pencil: x = 7/4, y = 3/4, cost 46/16")
