"""What is recognised as zero-sum, and the saddle point with its proof."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.transformations.zero_sum import (
    Interest,
    Relation,
    find_relation,
    find_saddle,
    why_no_saddle,
)


def relation_of(f: cp.Expression, g: cp.Expression, y: cp.Variable) -> object:
    lower = bm.Lower(cp.Minimize(g), [y <= 1, y >= -1], variables=[y])
    model = bm.BilevelProblem(cp.Minimize(f), [], lower).model
    return find_relation(model, np.zeros(0))


def test_multiples_up_to_terms_in_x_are_recognised() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    g = cp.sum_squares(y) + x @ y + cp.exp(x[0])
    opposed = relation_of(-2 * g + cp.square(x[1]), g, y)
    assert opposed.interest is Interest.OPPOSED and opposed.factor == pytest.approx(2)
    common = relation_of(cp.sum_squares(y) + x @ y + x[1] ** 4, g, y)
    assert common.interest is Interest.COMMON and common.factor == pytest.approx(1)
    assert relation_of(cp.sum_squares(y) + 2 * (x @ y), g, y) is None
    assert relation_of(cp.sum_squares(y) + 1e-6 * y[0], cp.sum_squares(y) + 0 * x[0], y) is None


def test_the_saddle_of_a_quadratic_game() -> None:
    # min_x max_|y|<=1 x^2 + 2 x y - y: the lower level answers sign(2 x - 1), so x = 1/2 and 1/4 - ...
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    f = cp.square(x) + 2 * x * y - y
    lower = bm.Lower(cp.Minimize(-2 * x * y + y), [y <= 1, y >= -1], variables=[y])
    model = bm.BilevelProblem(cp.Minimize(f), [-3 <= x, x <= 3], lower).model
    assert why_no_saddle(model, np.zeros(0)) is None
    saddle = find_saddle(model, np.zeros(0), Relation(Interest.OPPOSED, 1.0))
    grid = np.linspace(-3, 3, 6001)
    worst = grid**2 + np.abs(2 * grid - 1)
    assert saddle.bound == pytest.approx(worst.min(), abs=1e-5)
    assert saddle.x[0] == pytest.approx(grid[worst.argmin()], abs=1e-3)


def relation_with_row(row: cp.Constraint, f: cp.Expression, g: cp.Expression, y: cp.Variable) -> object:
    lower = bm.Lower(cp.Minimize(g), [y <= 1, y >= -1], variables=[y])
    model = bm.BilevelProblem(cp.Minimize(f), [row], lower).model
    return find_relation(model, np.zeros(0))


def test_rows_above_may_be_multiples_too() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    g = x @ y + cp.exp(x[0])
    opposed = relation_with_row(cp.hstack([x[0] - 3 * (x @ y), x[1]]) <= 0, x[1], g, y)
    assert opposed.interest is Interest.OPPOSED and opposed.factor == 0
    assert opposed.rows == pytest.approx((3, 0))
    common = relation_with_row(x @ y <= 2, 2 * g, g, y)
    assert common.interest is Interest.COMMON and common.rows == pytest.approx((1,))
    assert relation_with_row(x @ y <= 2, -g, g, y) is None  # f and the row want different things
    assert relation_with_row(x @ y == 2, -g, g, y) is None
    assert relation_with_row(x[0] - y[0] <= 2, -g, g, y) is None
