"""Dual values of upper constraints against differences of the value."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def value_at(problem, parameter, number):
    parameter.value = number
    return problem.solve()


@pytest.mark.parametrize("sense", [cp.Minimize, cp.Maximize])
def test_the_dual_value_is_the_price_of_slack(sense):
    x, y, cap = cp.Variable(name="x"), cp.Variable(name="y"), cp.Parameter(value=1.5, name="cap")
    limit, floor = x + 0.5 * y <= cap, x >= 0
    sign = 1 if sense is cp.Minimize else -1
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 4], variables=[y])
    problem = bm.BilevelProblem(sense(sign * ((x - 2) ** 2 + (y - 2) ** 2)), [floor, limit], lower)
    problem.solve()
    dual = float(limit.dual_value)
    assert float(floor.dual_value) == 0
    step = 1e-3
    slope = (value_at(problem, cap, 1.5 + step) - value_at(problem, cap, 1.5 - step)) / (2 * step)
    assert dual == pytest.approx(-sign * slope, rel=1e-3)


def test_equalities_and_vectors():
    x, y, total = cp.Variable(3, name="x"), cp.Variable(3, name="y"), cp.Parameter(value=2.0)
    budget, floor = cp.sum(x) == total, x >= 0
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y <= 5], variables=[y])
    goal = np.array([3.0, 1.0, -2.0])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - goal)), [budget, floor], lower)
    problem.solve()
    # y = x, so that this is a projection, which cvxpy solves by itself.
    budget_alone, floor_alone = cp.sum(x) == total, x >= 0
    cp.Problem(cp.Minimize(cp.sum_squares(x - goal)), [budget_alone, floor_alone]).solve()
    assert float(budget.dual_value) == pytest.approx(float(budget_alone.dual_value), abs=1e-4)
    assert np.allclose(floor.dual_value, floor_alone.dual_value, atol=1e-4)


def test_no_number_where_none_is_determined():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    first, second = x <= 1, 2 * x <= 2  # twice the same row
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(y), [first, second], lower)
    problem.solve()
    assert first.dual_value is None and second.dual_value is None
    infeasible = bm.BilevelProblem(cp.Maximize(y), [first, x >= 2], lower)
    infeasible.solve()
    assert first.dual_value is None
