r"""
Road times behind a driver's choice
===================================

The least change of a map's road times that makes a way that was seen a shortest one.

The map says :math:`c_0`, but a driver who knows the town takes another way :math:`\hat y` than the map's
shortest. So the map is wrong somewhere. The *inverse shortest path problem* looks for the times
:math:`c` nearest to the map's under which the driver is right:

.. math:: \min_{c \ge 0} \; \|c - c_0\|_1 \quad\text{subject to}\quad y = \hat y \quad\text{where}\quad
          y \in \operatorname{argmin}_{y \ge 0} \; \{c^\top y : A y = b\}.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

roads = [(0, 1, 2.0), (0, 2, 3.0), (1, 2, 2.0), (1, 3, 6.0), (2, 3, 2.0), (2, 4, 6.0), (3, 4, 1.0)]
on_map = np.array([minutes for _, _, minutes in roads])
A = np.zeros((5, len(roads)))
for k, (tail, head, _) in enumerate(roads):
    A[tail, k], A[head, k] = 1, -1
b = np.array([1, 0, 0, 0, -1])  # from node 0 to node 4
seen = np.array([1, 0, 0, 1, 0, 0, 1])  # over 1 and 3

c = cp.Variable(len(roads), name="c")
y = cp.Variable(len(roads), name="y")
driver = bm.Lower(cp.Minimize(c @ y), [A @ y == b, y >= 0], variables=[y], name="the driver")
problem = bm.BilevelProblem(cp.Minimize(cp.norm1(c - on_map)), [0 <= c, c <= 10, y == seen], driver)
problem.solve()
print(problem.certificate)
for (tail, head, _), before, after in zip(roads, on_map, c.value, strict=True):
    print(
        f"road {tail}-{head}: {before:g} on the map"
        + (f", {after:g} found" if abs(after - before) > 1e-6 else "")
    )

# %%
# ``y == seen`` is a constraint of the *upper* level: the driver decides ``y`` freely, and the times have
# to be such that the way that was seen is an answer. It need not be the only one; at the least change it
# is just as long as another.
print("with the map's times:", problem.answer(on_map).y.round(3) + 0.0)

# %%
# The picture
# -----------
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
axes.bar(np.arange(7) - 0.2, on_map, 0.4, color="#BBBBBB", label="map")
axes.bar(np.arange(7) + 0.2, c.value, 0.4, color=np.where(seen > 0, "#D55E00", "#0072B2"), label="found")
axes.set_xticks(range(7), [f"{tail}-{head}" for tail, head, _ in roads])
axes.set(title="Times of the roads (orange: the way seen)", ylabel="minutes")
axes.legend(frameon=False)
plt.show()

# %%
# Is it right?
# ------------
# By the duality of linear programs, ``seen`` is shortest exactly when node potentials :math:`\pi`
# exist with :math:`A^\top \pi \le c` and equality along it. With that the inverse problem is one
# linear program.
times, potential = cp.Variable(len(roads), nonneg=True), cp.Variable(5)
slack = times - A.T @ potential
alone = cp.Problem(cp.Minimize(cp.norm1(times - on_map)), [slack >= 0, seen @ slack == 0])
alone.solve(solver=cp.CLARABEL)
assert problem.status == "optimal" and abs(problem.value - alone.value) < 1e-5
assert abs(c.value @ seen - problem.lower_value(c.value)) < 1e-6
print(f"checked: the linear program changes {alone.value:.4f} minutes as well")
