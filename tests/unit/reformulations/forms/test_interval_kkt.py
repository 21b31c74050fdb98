"""Linear estimators of nonlinear KKT conditions: valid on the whole box, exact in the limit."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.forms.interval_kkt import Box, IntervalKKT


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


def open_boxes(conditions):
    """Boxes with some of their ends at infinity."""
    for box, draw in boxes(conditions, 6):
        low, high = box.low - 1.0, box.high + 1.0
        low[conditions.pair_columns] = np.maximum(low[conditions.pair_columns], 0.0)
        low[draw.random(conditions.n) < 0.3] = -np.inf
        high[draw.random(conditions.n) < 0.3] = np.inf
        yield Box(low, high), draw


def test_ranges_hold_the_values_of_open_boxes(conditions):
    for box, draw in open_boxes(conditions):
        low, high = conditions.ranges(box)
        for _ in range(50):
            values = conditions.values(draw.uniform(np.maximum(box.low, -9), np.minimum(box.high, 9)))
            assert np.all(low - 1e-9 <= values) and np.all(values <= high + 1e-9)


def test_propagation_keeps_every_point_that_satisfies_the_rows(conditions):
    """Rows are shifted so that they hold at a random point, which must then stay in the box."""
    cut = 0
    for box, draw in open_boxes(conditions):
        z = draw.uniform(np.maximum(box.low, -3), np.minimum(box.high, 3))
        shifted = _Shifted(conditions, conditions.values(z))
        left = shifted.propagate(box, conditions.pair_rows[:1], 0.0)
        assert np.all(left.low <= z + 1e-9) and np.all(z <= left.high + 1e-9)
        cut += int(np.sum(left.low > box.low) + np.sum(left.high < box.high))
    assert cut > 10


class _Shifted(IntervalKKT):
    """The same rows less their values at one point."""

    def __init__(self, rows, shift):
        self.__dict__.update(rows.__dict__)
        self.shift = shift

    def ranges(self, box):
        low, high = super().ranges(box)
        return low - self.shift, high - self.shift


def reciprocal_wage():
    """Zlobec (2001): F = -y0 / x with x free; stationarity alone bounds x, on each piece."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y", nonneg=True)
    lower = bm.Lower(cp.Maximize(cp.sum(y)), [y[0] + x * y[1] <= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize(-y[0] / x), [], lower)


def test_a_decided_pair_bounds_what_the_box_leaves_open():
    problem = reciprocal_wage()
    rows = IntervalKKT(problem.model, problem.parameter_values())
    box = rows.first_box()
    assert np.isinf(box.low[0]) and np.isinf(box.high[0])
    # The signs of y are the linear pairs; y0 comes first.
    at = [k for k, row in enumerate(rows.pair_rows) if rows.is_linear[row]][0]
    high = box.high.copy()
    high[rows.pair_columns[at]] = 0.0
    left = rows.propagate(Box(box.low, high), rows.pair_rows[:0], np.inf)
    assert left.low[0] == pytest.approx(1.0, abs=1e-6)
    assert rows.ranges(left)[0][0] == pytest.approx(-1.0, abs=1e-6)


def test_propagation_finds_that_a_piece_is_empty():
    problem = reciprocal_wage()
    rows = IntervalKKT(problem.model, problem.parameter_values())
    box = rows.first_box()
    high = box.high.copy()
    at = [k for k, row in enumerate(rows.pair_rows) if not rows.is_linear[row]][0]
    high[rows.pair_columns[at]] = 0.0  # the price of the budget is at least 1
    left = rows.propagate(Box(box.low, high), rows.pair_rows[:0], np.inf)
    assert np.any(left.low > left.high)


def test_what_overflows_is_large_but_not_infinite():
    """At x = 2000 the answer y = exp(-x) is positive, though exp(x) is no floating point number."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.exp(x) * cp.square(y) / 2 - y), [-5 <= y, y <= 5], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y), [x >= 2000], lower)
    rows = IntervalKKT(problem.model, problem.parameter_values())
    box = rows.first_box()
    high = box.high.copy()
    high[rows.pair_columns] = 0.0
    left = rows.propagate(Box(box.low, high), rows.pair_rows[:0], np.inf)
    assert np.all(left.low <= left.high)
    assert 0 < left.high[1] < 1e-300
