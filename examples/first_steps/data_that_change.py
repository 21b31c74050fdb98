r"""
Data that change
================

A planner's targets are parameters: state the problem once, solve it for many numbers.

A planner sets five budgets :math:`x`. Five departments answer with activities :math:`y` that solve a
quadratic program; the budgets enter its cost and its constraints. The planner wants both near targets,
which are ``cp.Parameter`` objects:

.. math:: \min_{-5 \le x \le 5} \; \tfrac12 \|x - \hat x\|^2 + \tfrac12 \|y - \hat y\|^2
          \quad\text{where}\quad
          y = \operatorname{argmin}_y \; \{\tfrac12 y^\top Q y + (C x)^\top y : A y \le b + B x\}.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

n, rng = 5, np.random.default_rng(0)
root, C, A, B = rng.standard_normal((4, n, n)) / np.sqrt(n)
Q, b = root @ root.T + np.eye(n), rng.uniform(0, 0.2, n)

x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
x_target, y_target = cp.Parameter(n, name="x_target"), cp.Parameter(n, name="y_target")

plan = cp.Minimize(cp.quad_form(y, Q) / 2 + (C @ x) @ y)
departments = bm.Lower(plan, [A @ y <= b + B @ x], variables=[y], name="the departments")
distance = cp.sum_squares(x - x_target) / 2 + cp.sum_squares(y - y_target) / 2
problem = bm.BilevelProblem(cp.Minimize(distance), [-5 <= x, x <= 5], departments)

x_target.value, y_target.value = rng.standard_normal((2, n))
problem.solve()
print(problem.solution)

# %%
# Other targets
# -------------
# The first solve compiles the model; the next ones only put numbers into it.
for _ in range(3):
    x_target.value, y_target.value = rng.standard_normal((2, n))
    problem.solve()
    print(f"{problem.status}: distance {problem.value:.6f}")

# %%
# The picture
# -----------
# What the planner wants of the departments, and what the best budgets make them do.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
places = np.arange(1, n + 1)
axes.vlines(places, y_target.value, y.value, color="#999999", linewidth=2)
axes.plot(places, y_target.value, "o", color="#E69F00", markersize=11, label="wanted by the planner")
axes.plot(places, y.value, "s", color="#0072B2", markersize=9, label="done by the departments")
axes.set(title="Activities", xlabel="department", xticks=places)
axes.legend(frameon=False)
plt.show()

# %%
# How does the answer depend on one number?
# -----------------------------------------
# ``sensitivity`` gives the slope of the value in each parameter at the answer, without solving again.
# ``bm.sweep`` solves the problem for a list of values.
print(problem.sensitivity())

# %%
# Is it right?
# ------------
# cvxpy alone solves the departments' problem at the budgets found, and at budgets nearby: the first
# gives the same activities, and none of the others is better for the planner.
given, z = cp.Parameter(n), cp.Variable(n)
alone = cp.Problem(cp.Minimize(cp.quad_form(z, Q) / 2 + (C @ given) @ z), [A @ z <= b + B @ given])
for trial in range(10):
    given.value = x.value + 0.05 * (trial > 0) * rng.standard_normal(n)
    alone.solve(solver=cp.CLARABEL)
    found = np.sum((given.value - x_target.value) ** 2) / 2 + np.sum((z.value - y_target.value) ** 2) / 2
    assert found >= problem.value - 1e-5
    assert trial > 0 or np.allclose(z.value, y.value, atol=1e-4)
assert problem.status == "optimal"
print("checked: cvxpy finds the same activities, and no better budgets nearby")
