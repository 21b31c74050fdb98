r"""
Tuning a model predictive controller
====================================

The terminal weight that makes a controller with a short horizon act like a far-sighted one.

A controller of the unstable system :math:`z_{t+1} = 1.2 z_t + u_t` plans only two steps ahead and puts a
weight :math:`p` on the state where its plan ends. Planned from three states :math:`z^{(k)}`, its first
moves shall be near the moves :math:`\hat u^{(k)}` of a controller that plans forty steps:

.. math:: \min_{p \ge 0} \; \sum_k \bigl(u_0^{(k)} - \hat u^{(k)}\bigr)^2 \quad\text{where}\quad
          u^{(k)} \in \operatorname{argmin}_{|u_t| \le 1} \; \sum_{t=0}^{1} (z_t^2 + u_t^2) + p\,z_2^2,
          \quad z_0 = z^{(k)}.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import solve_discrete_are

import blomodel as bm


def plan(start: float, horizon: int, p: object) -> tuple[cp.Variable, cp.Expression]:
    """The inputs that are decided, and what the plan costs."""
    u, z, cost = cp.Variable(horizon), start, 0
    for t in range(horizon):
        cost += cp.square(z) + cp.square(u[t])
        z = 1.2 * z + u[t]
    return u, cost + p * cp.square(z)


def first_move(start: float, horizon: int, p: float) -> float:
    """What the controller does now, by cvxpy alone."""
    u, cost = plan(start, horizon, p)
    cp.Problem(cp.Minimize(cost), [-1 <= u, u <= 1]).solve(solver=cp.CLARABEL)
    return float(u.value[0])


# %%
# The model
# ---------
p = cp.Variable(name="p")
starts = [-0.8, 0.4, 1.0]
controllers, error = [], 0
for start in starts:
    u, cost = plan(start, 2, p)
    controllers.append(
        bm.Lower(cp.Minimize(cost), [-1 <= u, u <= 1], variables=[u], name=f"from {start}")
    )
    error += (u[0] - first_move(start, 40, 1.0)) ** 2
problem = bm.BilevelProblem(cp.Minimize(error), [0 <= p, p <= 10], controllers)
problem.solve()
print(problem.status, "p =", round(float(p.value), 5), "error", f"{problem.value:.1e}")

# %%
# The picture
# -----------
# What the error is for every weight; the star is the answer, the circles are steps of the solve.
# From the start :math:`z = 1` the input is limited for large weights.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
problem.plot(ax=axes, gammas=[], points=101)
axes.set_title("Error of the first move", loc="left")
axes.get_legend().remove()
axes.set(xlabel="terminal weight $p$", ylabel="")
plt.show()

# %%
# In closed loop
# --------------
# The controllers at work: plan, make the first move, plan again. Without a terminal weight
# (:math:`p = 0`) the short-sighted controller hardly brakes.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
costs = {}
loops = {"2 steps, p = 0": (2, 0.0), "2 steps, tuned": (2, float(p.value)), "40 steps": (40, 1.0)}
for name, (horizon, weight) in loops.items():
    states, spent = [1.0], 0.0
    for _ in range(8):
        move = first_move(states[-1], horizon, weight)
        spent += states[-1] ** 2 + move**2
        states.append(1.2 * states[-1] + move)
    costs[name] = spent
    axes.plot(states, "--" if horizon == 40 else "o-", label=f"{name}: cost {spent:.3f}")
axes.set(title="In closed loop", xlabel="time", ylabel="state $z$")
axes.legend(frameon=False)
axes.grid(alpha=0.3)
plt.show()

# %%
# Is it right?
# ------------
# Theory knows the weight: what an infinite plan costs from the state :math:`z` is :math:`P z^2`, where
# :math:`P` solves the Riccati equation. SciPy solves that.
P = solve_discrete_are(np.array([[1.2]]), np.eye(1), np.eye(1), np.eye(1))[0, 0]
assert problem.certificate.accepted and problem.value < 1e-6 and abs(float(p.value) - P) < 1e-2
assert (
    abs(costs["2 steps, tuned"] - costs["40 steps"]) < 1e-3 < costs["2 steps, p = 0"] - costs["40 steps"]
)
print(f"checked: the Riccati equation gives P = {P:.5f}")
