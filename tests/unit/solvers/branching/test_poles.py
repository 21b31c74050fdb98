"""Denominators that may vanish are found, others are not."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.forms.bounding import BoundingProblem
from blomodel.solvers.branching.poles import find_poles, is_at_a_pole


def model_of(f, low=-1.0):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= low, y <= 4], variables=[y])
    return bm.BilevelProblem(cp.Minimize(f(x, y)), [x >= -5, x <= 5], lower).model


def box(model):
    return {"x": model.bounds(np.empty(0)), "y": model.y_bounds}


@pytest.mark.parametrize(
    "f", [lambda x, y: x / y, lambda x, y: cp.inv_pos(y), lambda x, y: (y + 0.5) ** -0.5 + x]
)
def test_poles_within_the_ranges_are_found(f):
    model = model_of(f)
    assert find_poles([model.f], box(model))


@pytest.mark.parametrize("f", [lambda x, y: x * y, lambda x, y: x / (1 + y**2), lambda x, y: x / 3])
def test_nothing_else_is_one(f):
    model = model_of(f)
    assert not find_poles([model.f], box(model))


def test_ranges_keep_away_from_poles():
    model = model_of(lambda x, y: x / y, low=0.5)
    assert not find_poles([model.f], box(model))


def test_a_point_beside_a_pole():
    model = model_of(lambda x, y: x / y)
    poles = find_poles([model.f], box(model))

    def at(y):
        return {"x": (np.ones(1), np.ones(1)), "y": (np.array([y]), np.array([y]))}

    assert is_at_a_pole(poles, at(-1e-9))
    assert not is_at_a_pole(poles, at(1e-3))


def test_bounds_that_may_rest_on_a_pole_do_not_count():
    problem = BoundingProblem(model_of(lambda x, y: x / y), np.empty(0))
    assert problem.rests_on_a_pole(-1e9, None)
    assert not problem.rests_on_a_pole(-3.0, None)
    assert problem.rests_on_a_pole(-1e9, np.array([1.0, -1e-9]))
    assert not problem.rests_on_a_pole(-3.0, np.array([1.0, -1.0]))
    plain = BoundingProblem(model_of(lambda x, y: x * y), np.empty(0))
    assert not plain.rests_on_a_pole(-1e9, None)
