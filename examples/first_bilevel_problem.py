"""A first bilevel problem: two decision makers, one after the other.

Run it with ``python examples/first_bilevel_problem.py``; ``--save FILE`` also saves a picture.

The story
---------
An operator (the upper level) chooses how much capacity x between 0 and 3 to release. A user (the
lower level) sees x and chooses a load y. The user would like to run at twice the capacity, y = 2x,
but may not exceed it:

    minimise over y   (y - 2x)^2     subject to   y <= x,  0 <= y <= 3.

The operator pays a cost that falls with the load and has a wavy dependence on x, and knows how the
user answers:

    minimise over x   exp(2 - y) / (2 + cos(4x)) + log((4x - 2)^2 + 1) / 2 + x^2,   0 <= x <= 3.

What makes this a *bilevel* problem is that y is not ours to choose: it must be a solution of the
lower problem for the x we choose. Here the operator happens to like large loads as well, so both
would pick y = x; in examples/coupled_qp.py the two levels want different things.

The functions are those of Example 4 in Jiang, Xiao, Chen and Chen, "Efficient Penalty-Based
Bilevel Methods: Improved Analysis, Novel Updates, and Flatness Condition"; the story is ours.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cvxpy as cp
import numpy as np

import blomodel as bm

parser = argparse.ArgumentParser(description="A first bilevel problem.")
parser.add_argument("--save", type=Path, metavar="FILE", help="save a picture of the problem")
options = parser.parse_args()

# --- The model -----------------------------------------------------------------------------------
# Plain cvxpy variables. Which level decides which is said once, by `variables=[y]` below; every
# other variable belongs to the upper level.
x = cp.Variable(name="x")
y = cp.Variable(name="y")

lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= x, 0 <= y, y <= 3], variables=[y])

# cp.nlp.cos is not convex, and does not have to be: the upper level may be any smooth function.
cost = cp.exp(2 - y) / (2 + cp.nlp.cos(4 * x)) + cp.log((4 * x - 2) ** 2 + 1) / 2 + x**2
problem = bm.BilevelProblem(cp.Minimize(cost), [0 <= x, x <= 3], lower)

# --- The answer ----------------------------------------------------------------------------------
# No step size, no penalty weight, no starting point.
problem.solve()
print(f"status  {problem.status}")
print(f"value   {problem.value:.6f}")
print(f"x       {x.value:.6f}")
print(f"y       {y.value:.6f}")

# --- The certificate -----------------------------------------------------------------------------
# Checks the point against the model above and solves the lower level once more.
print()
print(problem.certificate)

# --- The picture ---------------------------------------------------------------------------------
if options.save:
    problem.plot(path=options.save)
    print(f"\npicture saved to {options.save}")

# --- Is it right? --------------------------------------------------------------------------------
# On this problem we can check by hand. The user's wish 2x lies above the limit x, so the user
# answers y = x for every x in [0, 3]. Put y = x into the cost and search a fine grid.
grid = np.linspace(0, 3, 300_001)
by_hand = np.exp(2 - grid) / (2 + np.cos(4 * grid)) + np.log((4 * grid - 2) ** 2 + 1) / 2 + grid**2
best = grid[np.argmin(by_hand)]

# --- Assertions ----------------------------------------------------------------------------------
assert abs(y.value - x.value) < 1e-5, "the user does not answer y = x"
assert abs(x.value - best) < 1e-4, f"x = {x.value}, but the grid has its minimum at {best}"
assert abs(problem.value - by_hand.min()) < 1e-6
print(f"\nchecked by a grid search: x = {best:.5f}, value {by_hand.min():.6f}")
