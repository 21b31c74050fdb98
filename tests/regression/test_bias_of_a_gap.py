"""A point with a lower gap within the tolerance must not pass for better than the exact lower answer.

The gap is relative to the lower value; how far it lets y move, and so f fall, depends on the absolute
gap.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


@pytest.mark.parametrize("method", ["alt-pbgd", "meha"])
def test_a_small_relative_gap_of_a_large_lower_value_buys_nothing(method: str) -> None:
    n = 60
    root = np.random.default_rng(0).standard_normal((n, n))
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = 0.5 * cp.quad_form(y, root @ root.T / n + np.eye(n), assume_PSD=True) - x @ y
    upper = cp.Minimize(cp.sum_squares(y - 1) + 0.1 * cp.sum_squares(x))
    problem = bm.BilevelProblem(upper, [x >= -3, x <= 3], bm.Lower(cp.Minimize(g), variables=[y]))
    best = problem.solve()
    assert problem.status == "optimal"
    x.value = y.value = None
    problem.solve(method)
    assert best - 1e-6 <= problem.value <= best + 1e-3
