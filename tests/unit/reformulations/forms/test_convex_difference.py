"""Penalties put together are what they were one by one, and their multipliers come back in place."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.forms.convex_difference import PenaltiesAsBounds, _joined


def test_norms_of_equally_many_entries_become_one_vector() -> None:
    y = cp.Variable(9)
    y.value = np.arange(9.0) - 3
    norms = [cp.norm(y[:2], 2), 3 * cp.norm(y[2:5], 2), cp.norm1(y[5:]), 2 * cp.norm(y[[7, 1]], 2)]
    joined = _joined(norms)
    assert [places.tolist() for places, _ in joined] == [[0, 3], [1], [2]]
    for places, vector in joined:
        assert vector.value == pytest.approx([norms[j].value for j in places])
        assert vector.is_convex()


def test_multipliers_of_bounds_are_the_weights_that_give_the_same_answer() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(12, 8))
    b = a @ np.arange(1.0, 9.0)  # no group is zero, where multipliers would not be unique
    x, y = cp.Variable(4, name="x", nonneg=True), cp.Variable(8, name="y")
    # Groups of two sizes, so that places and order differ.
    groups = [slice(0, 2), slice(2, 5), slice(5, 7), slice(7, 8)]
    penalties = sum(x[j] * cp.norm(y[group], 2) for j, group in enumerate(groups))
    lower = bm.Lower(cp.Minimize(cp.sum_squares(a @ y - b) + penalties), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - 1)), [x <= 9], lower)
    form = PenaltiesAsBounds(problem.model, np.zeros(0))
    weights = np.array([1.0, 0.5, 2.0, 1.5])
    found = form.solve_lower(form.first_point(weights, None))
    assert found is not None
    expected = problem.model.solve_lower(weights, np.zeros(0), np.zeros(8))[0].y
    assert found.y == pytest.approx(expected, abs=1e-4)
    assert found.x == pytest.approx(weights, rel=1e-2)
