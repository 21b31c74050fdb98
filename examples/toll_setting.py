"""
Toll setting: revenue from drivers who choose their own way
===========================================================

A company runs a bridge and a tunnel in a road network and sets a toll on each. Two groups of
drivers answer by taking the cheapest ways they can: commuters from A to E, and lorries from B to
F, of which only three an hour may use the bridge. High tolls earn much from each driver and drive
the drivers away; the company looks for the tolls with the largest revenue.

The lower level is linear: each group solves a minimum-cost flow problem. Each group is a follower
of its own, so ``lower=`` is a list. Run it with ``python examples/toll_setting.py``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog

import blomodel as bm

parser = argparse.ArgumentParser(description="Toll setting on a small network.")
parser.add_argument("--save", type=Path, default=Path("toll_setting.png"), metavar="FILE")
options, _ = parser.parse_known_args()  # a notebook hands over arguments of its own

# %%
# The network
# -----------
# Six nodes and ten one-way links, each with the cost (time and fuel) of driving along it. The two
# tolled links come first. The columns of ``incidence`` say where each link starts (+1) and ends
# (-1).
PLACES = {"A": (0, 2), "B": (0, 0), "C": (1, 1), "D": (2, 1), "E": (3, 2), "F": (3, 0)}
LINKS = [
    ("C", "D", 1),  # the bridge
    ("C", "F", 2),  # the tunnel
    ("A", "C", 1),
    ("B", "C", 2),
    ("D", "E", 2),
    ("D", "F", 1),
    ("A", "E", 14),
    ("B", "F", 13),
    ("C", "E", 9),
    ("E", "F", 1),
]
BRIDGE, TUNNEL = 0, 1
nodes = list(PLACES)
cost = np.array([length for _, _, length in LINKS], dtype=float)
incidence = np.zeros((len(nodes), len(LINKS)))
for link, (tail, head, _) in enumerate(LINKS):
    incidence[nodes.index(tail), link] = 1
    incidence[nodes.index(head), link] = -1


def supply(origin: str, destination: str, trips: float) -> np.ndarray:
    """What leaves each node on balance."""
    balance = np.zeros(len(nodes))
    balance[nodes.index(origin)], balance[nodes.index(destination)] = trips, -trips
    return balance


no_limit = np.full(len(LINKS), 20.0)
three_on_the_bridge = no_limit.copy()
three_on_the_bridge[BRIDGE] = 3
GROUPS = {
    "commuters": (supply("A", "E", 10), no_limit),
    "lorries": (supply("B", "F", 6), three_on_the_bridge),
}

# %%
# The model
# ---------
# One ``bm.Lower`` for each group. The tolls enter the groups' costs, and the company's revenue is
# a sum of products of tolls and flows.
tolls = cp.Variable(2, name="tolls")
price = cost + cp.hstack([tolls, np.zeros(len(LINKS) - 2)])

followers, flows = [], {}
for name, (balance, limit) in GROUPS.items():
    flow = flows[name] = cp.Variable(len(LINKS), name=name)
    constraints = [incidence @ flow == balance, 0 <= flow, flow <= limit]
    followers.append(bm.Lower(cp.Minimize(price @ flow), constraints, variables=[flow], name=name))

traffic = sum(flows.values())
problem = bm.BilevelProblem(cp.Maximize(tolls @ traffic[:2]), [0 <= tolls, tolls <= 12], lower=followers)

problem.solve()
print(problem.certificate)
bridge, tunnel = (float(toll) for toll in tolls.value)
print(f"bridge {bridge:g}, tunnel {tunnel:g}, revenue {problem.value:g}")
for name, flow in flows.items():
    used = [f"{a}{b}: {n:g}" for (a, b, _), n in zip(LINKS, flow.value.round(6), strict=True) if n > 0]
    print(f"  {name}: {', '.join(used)}")

# %%
# Although a product of tolls and flows is not concave, the status is ``optimal``: by the duality
# of linear programs the products can be replaced by linear terms, and branch and bound then proves
# that no tolls earn more.
#
# The certificate also says that the lower answer is perhaps not unique. That is typical for tolls.
# The company raises a toll until the drivers are just indifferent between the tolled and the free
# way, and the model lets them choose in its favour. In practice one charges a little less.
#
# A grid of tolls
# ---------------
# An independent check: for each pair of tolls on a grid, both groups' flow problems are solved by
# SciPy. To let indifferent drivers choose the tolled way, they see the tolls lower by one part in
# ten million.


def revenue(charged: np.ndarray, seen: np.ndarray) -> float:
    """Revenue from drivers who choose their ways by the tolls that they see."""
    total = 0.0
    for balance, limit in GROUPS.values():
        perceived = cost + np.concatenate([seen, np.zeros(len(LINKS) - 2)])
        bounds = np.column_stack([np.zeros(len(LINKS)), limit])
        flow = linprog(perceived, A_eq=incidence, b_eq=balance, bounds=bounds).x
        total += float(charged @ flow[:2])
    return total


steps = np.arange(0.0, 13.0)
table = np.zeros((len(steps), len(steps)))
for row, on_bridge in enumerate(steps):
    for column, in_tunnel in enumerate(steps):
        pair = np.array([on_bridge, in_tunnel])
        table[row, column] = revenue(pair, pair * (1 - 1e-7))
row, column = np.unravel_index(np.argmax(table), table.shape)
print(f"grid: bridge {steps[row]:g}, tunnel {steps[column]:g}, revenue {table.max():g}")

undercut = np.array([bridge, tunnel]) - 0.01
print(f"with tolls lower by 0.01 nobody is indifferent: revenue {revenue(undercut, undercut):.2f}")

# %%
# The picture
# -----------
# Left: the network at the best tolls; wide lines carry much traffic. Right: the revenue for each
# pair of tolls. It climbs along slopes and falls off cliffs, where a group changes its way. Such
# functions have no useful gradient at their best points, which lie on the edges of the cliffs.
figure, (road, surface) = plt.subplots(
    1, 2, figsize=(13, 5.5), layout="constrained", width_ratios=(1.3, 1)
)
total = sum(flow.value for flow in flows.values())
for link, (tail, head, length) in enumerate(LINKS):
    start, end = np.array(PLACES[tail], float), np.array(PLACES[head], float)
    colour = "#D55E00" if link in (BRIDGE, TUNNEL) else "#0072B2"
    bend = 0.35 if (tail, head) == ("A", "E") else -0.35 if (tail, head) == ("B", "F") else 0.0
    style = {"color": colour if total[link] > 1e-6 else "#BBBBBB", "lw": 1 + 0.45 * total[link]}
    arrow = {"arrowstyle": "-|>", "connectionstyle": f"arc3,rad={-bend}", "shrinkA": 14, "shrinkB": 14}
    road.annotate("", end, start, arrowprops=arrow | style)
    toll = f" + {(bridge, tunnel)[link]:g}" if link in (BRIDGE, TUNNEL) else ""
    across = np.array([-(end - start)[1], (end - start)[0]])
    middle = 0.55 * end + 0.45 * start + bend * across / 2
    text = f"{length}{toll}\n{total[link]:.0f} drivers"
    road.text(
        *middle,
        text,
        ha="center",
        va="center",
        fontsize=8.5,
        bbox={"fc": "white", "ec": "none", "pad": 1},
    )
for name, place in PLACES.items():
    road.text(*place, name, ha="center", va="center", bbox={"boxstyle": "circle", "fc": "#F0E442"})
road.set(
    xlim=(-0.3, 3.3),
    ylim=(-0.75, 2.75),
    title="Cost + toll, and traffic; tolled links in orange, unused in grey",
)
road.axis("off")
mesh = surface.pcolormesh(steps, steps, table.T, cmap="cividis", shading="nearest")
surface.plot(
    bridge,
    tunnel,
    "*",
    color="#D55E00",
    markeredgecolor="white",
    markersize=18,
    label=f"best: {problem.value:g}",
)
surface.set(title="Revenue", xlabel="toll on the bridge", ylabel="toll in the tunnel", aspect="equal")
surface.legend(loc="upper right")
figure.colorbar(mesh, ax=surface)
figure.savefig(options.save, dpi=150)
print(f"picture saved to {options.save}")

# %%
# Is it right?
# ------------
# With a pencil: commuters reach E for 4 + toll over the bridge, and for 10 by the link CE, so the
# bridge can charge them 6, and ten of them pay. At that toll three lorries take the bridge (4 +
# 6). The rest pay 4 + toll in the tunnel, while a lorry that avoids the company pays 12 (over C, E
# and F), so the tunnel can charge 8. Together 13 times 6 and 3 times 8: 102.
assert problem.status == "optimal"
assert np.allclose([bridge, tunnel], [6, 8], atol=1e-5) and abs(problem.value - 102) < 1e-4
assert abs(table.max() - problem.value) < 1e-4 and (steps[row], steps[column]) == (6, 8)
assert 102 - 0.01 * 16 - 1e-6 < revenue(undercut, undercut) < 102
print("checked: pencil and grid both find tolls 6 and 8 with the revenue 102")
