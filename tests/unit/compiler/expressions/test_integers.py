"""Which entries are whole, from the declaration to the compiled model."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel import errors
from blomodel.compiler.expressions.integers import (
    boolean_entries,
    distance_to_integers,
    integer_entries,
    whole_copy,
    with_integers_rounded,
)


@pytest.mark.parametrize(
    ("variable", "whole", "boolean"),
    [
        (cp.Variable(3), [0, 0, 0], [0, 0, 0]),
        (cp.Variable(3, boolean=True), [1, 1, 1], [1, 1, 1]),
        (cp.Variable(3, integer=[(1,)]), [0, 1, 0], [0, 0, 0]),
        (cp.Variable(3, boolean=[(0,), (2,)]), [1, 0, 1], [1, 0, 1]),
        (cp.Variable(3, boolean=[(0,)], integer=[(2,)]), [1, 0, 1], [1, 0, 0]),
        (cp.Variable(3, integer=[(0, 2)]), [1, 0, 1], [0, 0, 0]),  # as cvxpy's solvers take it
        (cp.Variable((2, 2), integer=[(0, 1)]), [0, 0, 1, 0], [0, 0, 0, 0]),
        (cp.Variable((2, 3), integer=[(0, 1), (2, 0)]), [0, 1, 0, 0, 1, 0], [0] * 6),
        (cp.Variable(integer=True), [1], [0]),
    ],
)
def test_entries_column_by_column(variable, whole, boolean):
    assert integer_entries(variable).tolist() == [bool(k) for k in whole]
    assert boolean_entries(variable).tolist() == [bool(k) for k in boolean]


def test_copies_are_whole_for_cvxpy():
    variable = cp.Variable((2, 2))
    copy = whole_copy(variable, np.array([True, False, False, True]))
    cp.Problem(cp.Minimize(cp.sum(copy)), [copy >= 0.4]).solve(solver=cp.HIGHS)
    assert copy.value.tolist() == [[1.0, 0.4], [0.4, 1.0]]


def test_distances_and_rounding():
    values, mask = np.array([0.25, 1.9, 0.5]), np.array([False, True, False])
    assert distance_to_integers(values, mask) == pytest.approx(0.1)
    assert with_integers_rounded(values, mask).tolist() == [0.25, 2.0, 0.5]
    assert distance_to_integers(np.empty(0), np.zeros(0, bool)) == 0


def mixed():
    x = cp.Variable(3, name="x", boolean=[(0,), (2,)])
    z = cp.Variable(name="z")
    y = cp.Variable(2, name="y", integer=True, bounds=[-1, 4])
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x[:2] - z)), [], variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum(y) + cp.sum(x) + z**2), [x[1] <= 9], lower)


def test_the_model_knows():
    model = mixed().model
    names = [leaf.name() for leaf in model.x.leaves]
    assert names == ["x", "z"]
    assert model.integer_x.tolist() == [True, False, True, False]
    assert model.integer_y.tolist() == [True, True]
    low, high = model.x_bounds
    assert low.tolist() == [0, -np.inf, 0, -np.inf]
    assert high.tolist() == [1, 9, 1, np.inf]
    assert [bound.tolist() for bound in model.y_bounds] == [[-1, -1], [4, 4]]


def test_no_integers_by_default():
    x, y = cp.Variable(2), cp.Variable()
    lower = bm.Lower(cp.Minimize((y - x[0]) ** 2), [], variables=[y])
    model = bm.BilevelProblem(cp.Minimize(cp.sum_squares(x) + y), [], lower).model
    assert not model.integer_x.any()
    assert not model.integer_y.any()
    assert (model.integer_x.size, model.integer_y.size) == (2, 1)


@pytest.mark.parametrize("method", ["kkt-mip", "meha", "blocc", "value-cuts", "random-search"])
def test_methods_without_the_capability_refuse(method):
    with pytest.raises(errors.VariableTypeError, match=f"{method}: 'x' is declared integer or boolean"):
        mixed().solve(method)


def test_integers_below_leave_no_multipliers():
    x, y = cp.Variable(), cp.Variable(integer=True, name="count")
    row = y >= x
    lower = bm.Lower(cp.Minimize(y), [row], variables=[y])
    with pytest.raises(errors.ModelError, match="'count' is declared integer or boolean"):
        bm.BilevelProblem(cp.Minimize(lower.multiplier(row) + x), [0 <= x, x <= 1], lower)
