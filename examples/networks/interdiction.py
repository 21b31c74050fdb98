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

roads = {"ab": 2, "ac": 3, "bc": 1, "bd": 4, "cd": 2, "ce": 5, "de": 1, "df": 5, "ef": 2, "be": 7}
time = np.array(list(roads.values()), dtype=float)
A = np.array(
    [[(road[0] == node) - (road[1] == node) for road in roads] for node in "abcdef"], dtype=float
)
b = np.array([1, 0, 0, 0, 0, -1])  # one smuggler goes from a to f

x = cp.Variable(len(roads), boolean=True, name="x")
y = cp.Variable(len(roads), name="y")
hours = (time + 5 * x) @ y
smuggler = bm.Lower(cp.Minimize(hours), [A @ y == b, y >= 0], variables=[y], name="the smuggler")
problem = bm.BilevelProblem(cp.Maximize(hours), [cp.sum(x) <= 2], smuggler)
problem.solve()
blocked = [road for road, is_blocked in zip(roads, x.value > 0.5, strict=True) if is_blocked]
print(f"{problem.status}: block {blocked}, and the way takes {problem.value:g} hours")

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
way = [road for road, share in zip(roads, y.value, strict=True) if share > 0.5]
relaxed.solve()
print(f"two roads: {problem.value:g} hours; the same effort spread: {relaxed.value:g} hours")

# %%
# The picture
# -----------
places = {"a": (0, 0.5), "b": (1, 1), "c": (1, 0), "d": (2, 1), "e": (2, 0), "f": (3, 0.5)}
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
for road in roads:
    colour = "#D55E00" if road in blocked else "#0072B2" if road in way else "#BBBBBB"
    arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 3, "shrinkB": 10}
    axes.annotate("", places[road[1]], places[road[0]], arrowprops=arrow)
for node, place in places.items():
    axes.text(*place, node, ha="center", va="center", bbox={"boxstyle": "circle", "fc": "#F0E442"})
axes.set(title="Blocked: orange; the smuggler's way: blue", xlim=(-0.3, 3.3), ylim=(-0.3, 1.3))
axes.axis("off")
plt.show()


# %%
# Is it right?
# ------------
# There are 45 pairs of roads. SciPy's shortest paths tries them all.
def shortest(closed: tuple[str, ...]) -> float:
    """The smuggler's time when these roads are blocked."""
    graph = np.zeros((6, 6))
    for road, length in roads.items():
        graph["abcdef".index(road[0]), "abcdef".index(road[1])] = length + 5 * (road in closed)
    return shortest_path(graph, indices=0)[5]


best = max(shortest(pair) for pair in combinations(roads, 2))
assert problem.status == "optimal" and abs(problem.value - best) < 1e-6
assert relaxed.value > best
print(
    f"checked: of 45 pairs the best makes the way {best:g} hours long; unhindered it is {shortest(()):g}"
)
