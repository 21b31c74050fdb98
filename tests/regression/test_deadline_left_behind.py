"""A time-limited solve whose method raises must leave no deadline behind.

It stayed on the model, so that later solves without a limit gave a nonconvex lower level the fewest
searches, without a word.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def two_wells() -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    wells = cp.sum((y**2 - 1) ** 2) - 0.2 * x * cp.sum(y)
    lower = bm.Lower(cp.Minimize(wells), [y[0] + y[1] <= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 0.3) ** 2 + y[0]), [-1 <= x, x <= 1], lower)


def searches(problem: bm.BilevelProblem) -> int:
    answer, _ = problem.model.solve_lower(np.array([0.3]), np.empty(0), np.zeros(2))
    return int(answer.solver.split()[0])


def test_a_refused_solve_with_a_time_limit_leaves_all_searches_to_the_next() -> None:
    problem = two_wells()
    with pytest.raises(bm.BlomodelError):
        problem.solve(method="galet", time_limit=0.3)
    assert searches(problem) >= searches(two_wells()) > 30
