"""What excludes a lower point at another x, against all x."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.forms.exclusion import (
    carry,
    common_unit,
    elsewhere,
    find_switches,
    least_positive,
    linking_columns,
)

NO_P = np.zeros(0)


@pytest.mark.parametrize(
    ("numbers", "unit"),
    [([2.0, 4.0], 2.0), ([0.5, 0.75], 0.25), ([0.1, 0.25], 0.05), ([1.0, np.pi], 0.0)],
)
def test_common_unit(numbers, unit):
    assert common_unit(np.array(numbers)) == pytest.approx(unit)


def test_least_positive_value_by_enumeration():
    draw = np.random.default_rng(0)
    whole = np.array([True, True, True])
    for _ in range(50):
        slope = draw.integers(-6, 7, 3) / draw.choice([1, 2, 4])
        value = float(np.round(draw.normal() * 3, 2))
        if not slope.any():
            continue
        values = [value + slope @ np.array(d) for d in itertools.product(range(-12, 13), repeat=3)]
        least = min(v for v in values if v > 1e-9)
        assert least_positive(slope, value, whole) == pytest.approx(least)
    assert least_positive(np.array([1.0, 1.0]), 0.0, np.array([True, False])) == 0.0


def small(below, integer=True, high=3):
    x = cp.Variable(2, name="x", integer=integer, bounds=[0, high])
    y = cp.Variable(2, name="y", integer=True, bounds=[0, 3])
    lower = bm.Lower(cp.Minimize(cp.sum(y) - 3 * y[0]), below(x, y), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum(x) + y[1]), [], lower).model


def holds(formulas):
    return any(formula <= 1e-12 for formula in formulas)


@pytest.mark.parametrize(
    "below",
    [
        lambda x, y: [2 * x[0] + 3 * y[0] - y[1] <= 6, x[1] + y[1] <= 4],
        lambda x, y: [y[0] + 2 * y[1] == x[0] + x[1]],
        lambda x, y: [y <= 3 - x, y[0] + y[1] <= 4],
    ],
)
def test_a_point_is_excluded_exactly_where_it_is_no_lower_point(below):
    model = small(below)
    grid = [np.array(v, float) for v in itertools.product(range(4), repeat=2)]

    def is_lower(x, y):
        rows = model.lower_in.values(x, y, NO_P), np.abs(model.lower_eq.values(x, y, NO_P))
        return all(part.max(initial=0) <= 1e-9 for part in rows)

    for at in grid:
        for y in (v for v in grid if is_lower(at, v)):
            carried = carry(model, NO_P, at, y, at)
            assert carried is not None
            assert carried.is_sharp
            assert not holds(carried.excluding)
            for x in grid:
                moved = carry(model, NO_P, at, y, x)
                assert holds(moved.excluding) or is_lower(x, np.array(moved.y))


def test_interdicted_entries_are_done_without():
    model = small(lambda x, y: [y <= 3 * (1 - x), y[0] + y[1] <= 4], high=1)
    assert find_switches(model, NO_P) == ((0, 0), (1, 1))
    at, y = np.array([0.0, 0.0]), np.array([3.0, 1.0])
    for x in itertools.product((0.0, 1.0), repeat=2):
        carried = carry(model, NO_P, at, y, x)
        assert carried.excluding == []  # a knapsack has room for less
        assert carried.y == [3 * (1 - x[0]), 1 - x[1]]


def test_real_upper_variables_leave_the_boundary_open():
    model = small(lambda x, y: [x[0] + y[0] <= 2], integer=False)
    carried = carry(model, NO_P, np.array([1.0, 0.0]), np.array([1.0, 0.0]), [1.0, 0.0])
    assert not carried.is_sharp
    assert elsewhere(model, np.zeros(2), [0.0, 0.0], model.bounds(NO_P)) is None
    equation = small(lambda x, y: [y[0] + y[1] == x[0]], integer=False)
    assert carry(equation, NO_P, np.array([1.0, 0.0]), np.array([1.0, 0.0]), [1.0, 0.0]) is None


def test_elsewhere():
    model = small(lambda x, y: [x[0] + x[1] * 2 + y[0] <= 7])
    assert linking_columns(model).tolist() == [True, True]
    grid = [np.array(v, float) for v in itertools.product(range(4), repeat=2)]
    for at, x in itertools.product(grid, grid):
        assert holds(elsewhere(model, at, x, model.bounds(NO_P))) == (not np.array_equal(at, x))
