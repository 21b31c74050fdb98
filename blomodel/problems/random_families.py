"""Random problems of any size, the same for the same seed."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from blomodel.problem import BilevelProblem, Lower


def coupled_qp(n: int = 10, seed: int = 2) -> BilevelProblem:
    """A random bilevel QP: strongly convex lower level, right-hand side affine in x.

    With the default seed three of the ten coupled constraints bind at the solution; with seed 0 none.
    """
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, n))
    Q = cp.Constant(root @ root.T / n + np.eye(n), name="Q")
    C = cp.Constant(rng.standard_normal((n, n)) / np.sqrt(n), name="C")
    A = cp.Constant(rng.standard_normal((n, n)) / np.sqrt(n), name="A")
    B = cp.Constant(0.3 * rng.standard_normal((n, n)) / np.sqrt(n), name="B")
    b = cp.Constant(rng.uniform(0.2, 1.0, n), name="b")
    x_wanted = cp.Constant(rng.standard_normal(n), name="x_wanted")
    y_wanted = cp.Constant(rng.standard_normal(n), name="y_wanted")

    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    lower = Lower(
        cp.Minimize(0.5 * cp.quad_form(y, Q) + (C @ x) @ y), [A @ y <= b + B @ x], variables=[y]
    )
    distance = 0.5 * cp.sum_squares(x - x_wanted) + 0.5 * cp.sum_squares(y - y_wanted)
    return BilevelProblem(cp.Minimize(distance), [-5 <= x, x <= 5], lower)
