"""Linear estimators of nonlinear KKT conditions: valid on the whole box, exact in the limit."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.interval_kkt import Box, IntervalKKT


@pytest.fixture
def conditions():
    """Products of x with y and with multipliers, an exponential, a kink and a linear row."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(
        cp.Minimize(cp.exp(x[0]) * cp.square(y[0]) + x[1] * y[1] + cp.square(y[1])),
        [x[0] * y[0] + y[1] <= 1, -3 <= y, y <= 3],
        variables=[y],
    )
    upper = cp.Minimize(cp.abs(x[0] - 0.2) * y[0] + cp.nlp.sin(x[1]) - y[1])
    problem = bm.BilevelProblem(upper, [-2 <= x, x <= 2, x[0] + y[1] <= 2], lower)
    return IntervalKKT(problem.model, problem.parameter_values())


def boxes(conditions, count=12):
    draw = np.random.default_rng(0)
    for k in range(count):
        width = 4.0 * 0.5 ** (k / 2)
        low = draw.uniform(-2, 2, conditions.n)
        low[conditions.pair_columns] = draw.uniform(0, 1, conditions.pair_columns.size)
        yield Box(low, low + width * draw.random(conditions.n)), draw


def test_estimators_bound_every_row_on_the_whole_box(conditions):
    for box, draw in boxes(conditions):
        below, above, _ = conditions.relax(box)
        for _ in range(100):
            z = draw.uniform(box.low, box.high)
            for value, under, over in zip(conditions.values(z), below, above, strict=True):
                slack = 1e-9 * (1 + abs(value))
                assert np.all(under.matrix @ z + under.right <= value + slack)
                assert np.all(over.matrix @ z + over.right >= value - slack)


def test_linear_rows_are_exact_and_the_others_are_known(conditions):
    assert not conditions.is_linear[0]  # f
    assert conditions.is_linear[conditions.inequalities[-1]]  # x0 + y1 <= 2
    assert not conditions.is_linear[conditions.pair_rows[0]]  # x0 y0 + y1 <= 1
    below, above, spread = conditions.relax(conditions.first_box())
    for row in np.flatnonzero(conditions.is_linear):
        assert below[row] is above[row]
        assert np.all(spread[row] == 0)


def test_the_error_falls_with_the_square_of_the_width(conditions):
    center = np.full(conditions.n, 0.4)
    errors = []
    for width in (0.1, 0.05, 0.025):
        box = Box(center - width, center + width)
        below, above, _ = conditions.relax(box)
        draw = np.random.default_rng(1)
        worst = 0.0
        for _ in range(200):
            z = draw.uniform(box.low, box.high)
            for under, over in zip(below, above, strict=True):
                room = (over.matrix @ z + over.right).min() - (under.matrix @ z + under.right).max()
                worst = max(worst, room)
        errors.append(worst)
    assert errors[0] > 0
    assert errors[1] < errors[0] / 3 and errors[2] < errors[1] / 3


def test_open_sides_leave_the_estimators_that_need_them_not(conditions):
    box = conditions.first_box()  # multipliers have no upper end
    below, above, _ = conditions.relax(box)
    draw = np.random.default_rng(2)
    for _ in range(50):
        z = draw.uniform(np.maximum(box.low, -5), np.minimum(box.high, 50))
        for value, under, over in zip(conditions.values(z), below, above, strict=True):
            assert np.all(under.matrix @ z + under.right <= value + 1e-8 * (1 + abs(value)))
            assert np.all(over.matrix @ z + over.right >= value - 1e-8 * (1 + abs(value)))


def test_names_are_those_of_the_user(conditions):
    assert conditions.name_of(1) == "x"
    assert conditions.name_of(2) == "y"
    assert "multiplier" in conditions.name_of(conditions.pair_columns[0])
