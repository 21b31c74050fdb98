"""
A bilevel QP whose data change
==============================

A planner sets ten budgets ``x``. Ten departments answer with activities ``y`` that solve a
quadratic program; the budgets enter both its cost and the right-hand side of its constraints,
which couples the two levels:

.. math:: \\min_y \\; \\tfrac12 y^\\top Q y + (C x)^\\top y
          \\quad\\text{subject to}\\quad A y \\le b + B x.

The planner wants budgets and activities close to target values. The targets are ``cp.Parameter``
objects, so they can be changed and the problem solved again; nothing is compiled anew. All numbers
are random, with a fixed seed. Run it with ``python examples/coupled_qp.py``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

parser = argparse.ArgumentParser(description="A bilevel QP whose data change.")
parser.add_argument("--save", type=Path, default=Path("coupled_qp.png"), metavar="FILE")
options, _ = parser.parse_known_args()  # a notebook hands over arguments of its own

# %%
# The data
# --------
n = 10
rng = np.random.default_rng(0)
root = rng.standard_normal((n, n))
Q = root @ root.T / n + np.eye(n)  # positive definite: one answer y for each x
C = rng.standard_normal((n, n)) / np.sqrt(n)
A = rng.standard_normal((n, n)) / np.sqrt(n)
B = 0.3 * rng.standard_normal((n, n)) / np.sqrt(n)
b = rng.uniform(0.0, 0.2, n)

# %%
# The model
# ---------
x = cp.Variable(n, name="x")
y = cp.Variable(n, name="y")
x_target = cp.Parameter(n, name="x_target")
y_target = cp.Parameter(n, name="y_target")

lower = bm.Lower(
    cp.Minimize(cp.quad_form(y, Q) / 2 + (C @ x) @ y),
    [A @ y <= b + B @ x],
    variables=[y],
    name="the departments",
)
distance = cp.sum_squares(x - x_target) / 2 + cp.sum_squares(y - y_target) / 2
problem = bm.BilevelProblem(cp.Minimize(distance), [-5 <= x, x <= 5], lower)

# %%
# Three plans with one model
# --------------------------
# The first solve compiles the model; the others only put new numbers into it.
figure, panels = plt.subplots(1, 3, figsize=(13, 4.2), sharey=True, layout="constrained")
places = np.arange(1, n + 1)
for plan, panel in enumerate(panels):
    x_target.value = rng.standard_normal(n)
    y_target.value = rng.standard_normal(n)
    start = time.perf_counter()
    value = problem.solve()
    elapsed = time.perf_counter() - start
    binding = int(np.sum(A @ y.value - b - B @ x.value > -1e-6))
    print(
        f"plan {plan + 1}: {problem.status}, distance {value:.6f}, "
        f"{binding} of {n} lower constraints binding, {elapsed:.3f} s"
    )

    # Is it right? Solve the lower level again with cvxpy alone, at the x found.
    z = cp.Variable(n)
    alone = cp.Problem(
        cp.Minimize(cp.quad_form(z, Q) / 2 + (C @ x.value) @ z), [A @ z <= b + B @ x.value]
    )
    alone.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    assert np.allclose(z.value, y.value, atol=1e-4), "the departments would answer something else"
    assert np.all(np.abs(x.value) <= 5 + 1e-6)

    # And is it any good? No budgets near those found are better, with the lower level solved by cvxpy.
    given = cp.Parameter(n)
    nearby = cp.Problem(cp.Minimize(cp.quad_form(z, Q) / 2 + (C @ given) @ z), [A @ z <= b + B @ given])
    for _ in range(10):
        given.value = x.value + 0.05 * rng.standard_normal(n)
        nearby.solve(solver=cp.CLARABEL)
        moved = (
            np.sum((given.value - x_target.value) ** 2) / 2 + np.sum((z.value - y_target.value) ** 2) / 2
        )
        assert moved >= value - 1e-6, "budgets nearby are better"

    panel.vlines(places, y_target.value, y.value, color="#999999", linewidth=1)
    panel.plot(
        places, y_target.value, "o", color="#E69F00", fillstyle="none", label="wanted by the planner"
    )
    panel.plot(places, y.value, "o", color="#0072B2", label="what the departments do")
    panel.set(title=f"Plan {plan + 1}: {binding} constraints bind", xlabel="department", xticks=places)
    panel.grid(alpha=0.3)

# %%
# The picture
# -----------
# In each plan, what the planner wants of the departments and what the best budgets make them do.
panels[0].set_ylabel("activity $y$")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
figure.savefig(options.save, dpi=150)
print(f"picture saved to {options.save}")

# %%
# The last certificate
# --------------------
print(problem.certificate)
