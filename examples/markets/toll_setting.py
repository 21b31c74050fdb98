r"""
Tolls on a bridge and in a tunnel
=================================

High tolls earn much from each driver and drive the drivers away: which tolls earn the most?

A company runs a bridge and a tunnel. Ten commuters drive from A to E and six lorries from B to F, each
group at the least cost; only three lorries may use the bridge. The costs of the links are :math:`c`, the
flows of the two groups :math:`y_1, y_2`:

.. math:: \max_{0 \le t \le 12} \; t^\top (y_1 + y_2)_{\text{tolled}} \quad\text{where}\quad
          y_k \in \operatorname{argmin}_{0 \le y \le u_k} \; \{(c + t)^\top y : N y = b_k\},
          \quad k = 1, 2.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog

import blomodel as bm

# The bridge and the tunnel come first; N says where each link starts (+1) and ends (-1).
links = {"CD": 1, "CF": 2, "AC": 1, "BC": 2, "DE": 2, "DF": 1, "AE": 14, "BF": 13, "CE": 9, "EF": 1}
cost = np.array(list(links.values()), dtype=float)
N = np.array(
    [[(link[0] == node) - (link[1] == node) for link in links] for node in "ABCDEF"], dtype=float
)
trips = {"commuters": np.array([10, 0, 0, 0, -10, 0]), "lorries": np.array([0, 6, 0, 0, 0, -6])}
limits = {"commuters": np.full(10, 20.0), "lorries": np.array([3.0] + [20.0] * 9)}

# %%
# The model
# ---------
# Each group is a follower of its own, so ``lower=`` is a list.
tolls = cp.Variable(2, name="tolls")
price = cost + cp.hstack([tolls, np.zeros(8)])
groups, traffic = [], 0
for name, balance in trips.items():
    flow = cp.Variable(10, name=name)
    ways = [N @ flow == balance, 0 <= flow, flow <= limits[name]]
    groups.append(bm.Lower(cp.Minimize(price @ flow), ways, variables=[flow], name=name))
    traffic += flow
problem = bm.BilevelProblem(cp.Maximize(tolls @ traffic[:2]), [0 <= tolls, tolls <= 12], lower=groups)
problem.solve()
print(
    f"{problem.status}: bridge {tolls.value[0]:g}, tunnel {tolls.value[1]:g}, revenue {problem.value:g}"
)
for name, drivers in zip(links, traffic.value, strict=True):
    print(f"{name} {abs(drivers):g}", end=", ")

# %%
# A product of tolls and flows is not concave, yet the status is ``optimal``: by the duality of linear
# programs the products can be replaced by linear terms, and branch and bound proves the rest.
#
# At the best tolls the drivers are just indifferent between the tolled and the free way, and the
# model lets them choose in the company's favour. In practice one charges a little less.
#
# The picture
# -----------
# The revenue for each pair of tolls. It climbs along slopes and falls off cliffs, where a group changes
# its way. Such a function has no useful gradient at the cliffs, where the best tolls are.
figure, axes = plt.subplots(figsize=(5, 3.8), layout="constrained")
problem.plot(ax=axes, gammas=[], points=25)
axes.set_title("Revenue", loc="left")
axes.set(xlabel="toll on the bridge", ylabel="toll in the tunnel")
plt.show()


# %%
# Is it right?
# ------------
# SciPy solves both groups' flow problems for every pair of whole tolls. So that indifferent drivers
# choose the tolled way, they see the tolls lower by one part in ten million.
def revenue(charged: np.ndarray) -> float:
    """What the company earns."""
    seen, total = cost + np.append(charged * (1 - 1e-7), np.zeros(8)), 0.0
    for name, balance in trips.items():
        bounds = np.column_stack([np.zeros(10), limits[name]])
        total += charged @ linprog(seen, A_eq=N, b_eq=balance, bounds=bounds).x[:2]
    return total


best = max(revenue(np.array([a, b])) for a in range(1, 13) for b in range(1, 13))
assert problem.status == "optimal" and np.allclose(tolls.value, [6, 8], atol=1e-5)
assert abs(problem.value - best) < 1e-4
print(f"checked: of 144 pairs of tolls the best earns {best:.4f}")
