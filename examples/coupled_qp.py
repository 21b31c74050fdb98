"""A bilevel QP whose data change: compile once, solve many times.

Run it with ``python examples/coupled_qp.py``.

The story
---------
A planner sets ten budgets x. Ten departments answer with activities y that solve a quadratic
program; the budgets enter both its cost and the right-hand side of its constraints, which
couples the two levels:

    minimise over y   y'Qy / 2 + (Cx)'y    subject to   A y <= b + B x.

The planner wants budgets and activities close to target values. The targets are ``cp.Parameter``
objects, so they can be changed and the problem solved again; nothing is compiled anew. All numbers
are random, with a fixed seed.
"""

from __future__ import annotations

import time

import cvxpy as cp
import numpy as np

import blomodel as bm

# --- The data ------------------------------------------------------------------------------------
n = 10
rng = np.random.default_rng(0)
root = rng.standard_normal((n, n))
Q = root @ root.T / n + np.eye(n)  # positive definite: one answer y for each x
C = rng.standard_normal((n, n)) / np.sqrt(n)
A = rng.standard_normal((n, n)) / np.sqrt(n)
B = 0.3 * rng.standard_normal((n, n)) / np.sqrt(n)
b = rng.uniform(0.2, 1.0, n)

# --- The model -----------------------------------------------------------------------------------
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

# --- Three plans with one model ------------------------------------------------------------------
for plan in range(3):
    x_target.value = rng.standard_normal(n)
    y_target.value = rng.standard_normal(n)
    start = time.perf_counter()
    value = problem.solve()
    elapsed = time.perf_counter() - start
    binding = int(np.sum(A @ y.value - b - B @ x.value > -1e-6))
    print(
        f"plan {plan}: {problem.status}, distance {value:.6f}, "
        f"{binding} of {n} lower constraints binding, {elapsed:.3f} s"
    )

    # --- Is it right? Solve the lower level again with cvxpy alone, at the x found --------------
    z = cp.Variable(n)
    alone = cp.Problem(
        cp.Minimize(cp.quad_form(z, Q) / 2 + (C @ x.value) @ z), [A @ z <= b + B @ x.value]
    )
    alone.solve(solver=cp.CLARABEL)
    assert problem.status.has_point
    assert np.allclose(z.value, y.value, atol=1e-4), "the departments would answer something else"
    assert np.all(np.abs(x.value) <= 5 + 1e-6)

# --- The last certificate ------------------------------------------------------------------------
print()
print(problem.certificate)
