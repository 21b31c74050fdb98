"""Where f is convex in x and y together, a linear program may prove what a search has found."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize

import blomodel as bm
from blomodel.methods.portfolio import plan
from blomodel.methods.portfolio.global_bounds import GlobalBounds


def network(demand):
    """Capacities of two parallel roads whose free travel times agree, in natural units."""
    x, v = cp.Variable(2, name="capacity"), cp.Variable(2, name="flow", nonneg=True)
    crowd = cp.multiply(cp.power(v, 5), cp.power(np.array([40.0, 60.0]) + x, -4))
    lower = bm.Lower(
        cp.Minimize(3 * cp.sum(v) + cp.sum(crowd) / 5), [cp.sum(v) == demand], variables=[v]
    )
    upper = 3 * cp.sum(v) + cp.sum(crowd) + 1.5 * cp.sum_squares(x)
    return bm.BilevelProblem(cp.Minimize(upper), [x >= 0, x <= 25], lower)


@pytest.mark.parametrize("demand", [100.0, 160.0])
def test_a_network_in_which_both_levels_agree_is_proven(demand):
    problem = network(demand)
    value = problem.solve()
    assert problem.status == "optimal"
    assert "tangents" in problem.certificate.bound_source

    def total(z):  # both levels' constraints by hand: the second flow is what the first leaves
        flow = np.array([z[2], demand - z[2]])
        crowd = flow**5 / (np.array([40.0, 60.0]) + z[:2]) ** 4
        return 3 * demand + crowd.sum() + 1.5 * (z[:2] ** 2).sum()

    wish = minimize(total, [1.0, 1.0, demand / 2], bounds=[(0, 25)] * 2 + [(0, demand)])
    assert value == pytest.approx(wish.fun, rel=1e-5)


def test_levels_that_disagree_are_not_proven_by_it(monkeypatch):
    others = tuple(step for step in plan.MEMBERS if not issubclass(step, GlobalBounds))
    monkeypatch.setattr(plan, "MEMBERS", others)
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(
        cp.Minimize(cp.sum(cp.power(y, 4)) + x * y[0]), [cp.sum(y) == 1, y >= 0], variables=[y]
    )
    f = cp.exp(y[1]) + cp.square(x - 0.3)
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 1], lower)
    value = problem.solve()
    bound = problem.certificate.bound
    assert bound is None or bound < value - 0.1
    assert problem.status != "optimal"
