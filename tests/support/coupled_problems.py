"""Problems whose lower constraints hold x."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

import blomodel as bm


def coupled_problem(seed=0, n=2):
    """A strongly convex QP below whose rows hold x: a shared budget and a floor."""
    random = np.random.default_rng(seed)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    A = random.standard_normal((n, n))
    a, b = random.standard_normal(n), random.standard_normal(n)
    rows = [cp.sum(y) <= cp.sum(x), y >= -1]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - A @ x - a)), rows, variables=[y])
    upper = cp.Minimize(cp.sum_squares(x - b) + cp.sum_squares(y - 1))
    return bm.BilevelProblem(upper, [x >= -2, x <= 2], lower)
