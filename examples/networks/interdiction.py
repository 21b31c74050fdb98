r"""
Which roads to block
====================

Two roads may be blocked to make a smuggler's shortest way as long as possible.

An interdictor blocks roads, then a smuggler takes the shortest way through what is left. A blocked road
is not closed, but it takes 5 hours more. Both look at the same number, the time of the smuggler: one
wants it large, the other small.

.. math:: \max_{x \in \{0,1\}^{10},\; \sum x \le 2} \; (c + 5 x)^\top y \quad\text{where}\quad
          y \in \operatorname{argmin}_{y \ge 0} \; \{(c + 5 x)^\top y : A y = b\}.
"""

from itertools import combinations

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse.csgraph import shortest_path

import blomodel as bm

roads = [
    (0, 1, 2), (0, 2, 3), (1, 2, 1), (1, 3, 4), (2, 3, 2),
    (2, 4, 5), (3, 4, 1), (3, 5, 5), (4, 5, 2), (1, 4, 7),
]  # fmt: skip
time = np.array([hours for _, _, hours in roads], dtype=float)
A = np.zeros((6, len(roads)))
for k, (tail, head, _) in enumerate(roads):
    A[tail, k], A[head, k] = 1, -1
b = np.array([1, 0, 0, 0, 0, -1])  # one smuggler leaves node 0 and arrives at node 5

x = cp.Variable(len(roads), boolean=True, name="x")
y = cp.Variable(len(roads), name="y")
hours = (time + 5 * x) @ y
smuggler = bm.Lower(cp.Minimize(hours), [A @ y == b, y >= 0], variables=[y], name="the smuggler")
problem = bm.BilevelProblem(cp.Maximize(hours), [cp.sum(x) <= 2], smuggler)
problem.solve()
print(problem.solution)

# %%
# The shortest way is a linear program whose corners are ways, so ``y`` needs no ``boolean=True``: that
# the smuggler's level stays convex is what makes the problem easy to state. The upper level may hold
# integers.
#
# What if the effort can be spread?
# ---------------------------------
# Without ``boolean=True`` the two units of effort may be split. That hurts the smuggler more.
spread = cp.Variable(len(roads), name="spread")
hours = (time + 5 * spread) @ y
smuggler = bm.Lower(cp.Minimize(hours), [A @ y == b, y >= 0], variables=[y])
relaxed = bm.BilevelProblem(
    cp.Maximize(hours), [0 <= spread, spread <= 1, cp.sum(spread) <= 2], smuggler
)
way = [roads[k][:2] for k in np.flatnonzero(y.value > 0.5)]
relaxed.solve()
print(f"two roads: {problem.value:g} hours; the same effort spread: {relaxed.value:g} hours")

# %%
# The picture
# -----------
places = np.array([[0, 0.5], [1, 1], [1, 0], [2, 1], [2, 0], [3, 0.5]])
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for k, (tail, head, _) in enumerate(roads):
    colour = "#D55E00" if x.value[k] > 0.5 else "#0072B2" if (tail, head) in way else "#BBBBBB"
    arrow = {"arrowstyle": "-|>", "color": colour, "lw": 4 if colour != "#BBBBBB" else 2, "shrinkB": 10}
    axes.annotate("", places[head], places[tail], arrowprops=arrow)
for node, place in enumerate(places):
    axes.text(*place, node, ha="center", va="center", bbox={"boxstyle": "circle", "fc": "#F0E442"})
axes.set(title="Blocked: orange; the smuggler's way: blue", xlim=(-0.3, 3.3), ylim=(-0.3, 1.3))
axes.axis("off")
plt.show()


# %%
# Is it right?
# ------------
# There are 45 pairs of roads. SciPy's shortest paths tries them all.
def shortest(blocked: tuple[int, ...]) -> float:
    """The smuggler's time when these roads are blocked."""
    graph = np.zeros((6, 6))
    for k, (tail, head, length) in enumerate(roads):
        graph[tail, head] = length + 5 * (k in blocked)
    return shortest_path(graph, indices=0)[5]


best = max(shortest(pair) for pair in combinations(range(len(roads)), 2))
assert problem.status == "optimal" and abs(problem.value - best) < 1e-6
assert relaxed.value > best
print(
    f"checked: of 45 pairs the best makes the way {best:g} hours long; unhindered it is {shortest(()):g}"
)
