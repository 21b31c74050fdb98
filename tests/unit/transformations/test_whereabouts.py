"""Where models lie: what is found moves with the model."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.transformations.whereabouts import find_whereabouts

NOTHING = np.zeros(0)


def ranges(s: float) -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y >= s - 2, y <= s + 3], variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum(y)), [x >= s - 1, x <= s + 2], lower)


def free_below(s: float) -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    target = cp.hstack([2 * (x - s), 1 - (x - s)])
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - s - target)), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - s)), [x >= s - 1, x <= s + 2], lower)


def free_everywhere(s: float) -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y[0] <= x + 0.5], variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.square(x - s) + cp.sum_squares(y - s - 1)), [], lower)


def in_a_ball(s: float) -> bm.BilevelProblem:
    """Nothing but a curved row says where y is."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    row = cp.sum_squares(y - s - (x - s)) <= 4
    lower = bm.Lower(cp.Minimize(y[0] + 2 * y[1]), [row], variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - s)), [x >= s - 1, x <= s + 2], lower)


@pytest.mark.parametrize("make", [ranges, free_below, free_everywhere, in_a_ball])
@pytest.mark.parametrize("s", [1e5, -1e6, 1e8])
def test_what_is_found_moves_with_the_model(make, s):
    here = find_whereabouts(make(0.0).plain_model, NOTHING)
    there = find_whereabouts(make(s).plain_model, NOTHING)
    assert np.abs(there.point - s - here.point).max() < 10
    assert there.spread.max() < 100


def test_ranges_are_asked_alone(monkeypatch):
    problem = ranges(1e6)
    monkeypatch.setattr(type(problem.plain_model), "solve_lower", None)
    found = find_whereabouts(problem.plain_model, NOTHING)
    np.testing.assert_array_equal(found.point, 1e6 + 0.5)
    np.testing.assert_array_equal(found.spread, [3, 5, 5])


def test_a_model_near_zero_asks_for_no_lower_answer(monkeypatch):
    problem = free_everywhere(3.0)
    monkeypatch.setattr(type(problem.plain_model), "solve_lower", None)
    found = find_whereabouts(problem.plain_model, NOTHING)
    assert np.isinf(found.spread).all()


def test_an_answer_that_moves_far_is_not_far_from_zero():
    """A variable in large units: it is a million here and nothing there."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.square(y - 1e6 * x)), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.square(y - 3e5)), [x >= 0, x <= 2], lower)
    found = find_whereabouts(problem.plain_model, NOTHING)
    assert found.spread[1] > 1e5
