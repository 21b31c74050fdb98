"""One point, read from whatever holds it, and given in whatever form is wanted."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.declare.levels import Levels
from blomodel.declare.point import Point, read_level
from blomodel.errors import DataError

FLAT_X, FLAT_Y = np.array([1.0, 2.0, 3.0]), np.arange(1.0, 8.0)


@pytest.fixture
def levels():
    """Two upper variables; below a matrix, a number and a matrix of zeros but for its diagonal."""
    a, b = cp.Variable(name="a"), cp.Variable(2, name="b")
    c, d = cp.Variable((2, 1), name="c"), cp.Variable(name="d")
    e = cp.Variable((2, 2), diag=True, name="e")
    return Levels((a, b), (c, d, e), ())


def test_all_forms_give_the_same_vectors(levels):
    a, b = levels.upper
    c, d, e = levels.lower
    matrix = np.array([[4.0, 6.0], [5.0, 7.0]])  # column by column: 4, 5, 6, 7
    forms = [
        (FLAT_X, FLAT_Y),
        (list(FLAT_X), list(FLAT_Y)),
        ([1.0, [2.0, 3.0]], [[1.0, 2.0], 3.0, matrix]),
        ({b: (2, 3), a: 1}, {e: sp.csr_array(matrix), d: 3, c: [[1.0], [2.0]]}),
    ]
    for x, y in forms:
        point = Point.read(levels, x, y, "test")
        np.testing.assert_array_equal(point.x, FLAT_X)
        np.testing.assert_array_equal(point.y, FLAT_Y)


def test_there_and_back_by_variable_by_name_and_through_the_variables(levels):
    point = Point(levels, FLAT_X, FLAT_Y)
    again = Point.of_values(levels, point.values)
    np.testing.assert_array_equal(again.y, FLAT_Y)
    assert point.by_name["c"].shape == (2, 1) and point.by_name["a"] == 1.0
    assert list(point.by_name) == ["a", "b", "c", "d", "e"]
    point.assign()
    present = Point.present(levels)
    np.testing.assert_array_equal(present.x, FLAT_X)
    np.testing.assert_array_equal(present.y, FLAT_Y)


def test_values_are_copies(levels):
    point = Point(levels, FLAT_X.copy(), FLAT_Y.copy())
    point.values[levels.upper[1]][:] = 9.0
    point.assign()
    levels.upper[1].value[:] = 9.0
    np.testing.assert_array_equal(point.x, FLAT_X)


def test_a_sparse_value_of_a_variable_is_read(levels):
    e = levels.lower[2]
    Point(levels, FLAT_X, FLAT_Y).assign()
    e.save_value(sp.dia_array(np.diag([8.0, 9.0])))
    np.testing.assert_array_equal(Point.present(levels).y, [1, 2, 3, 8, 0, 0, 9])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([1.0], r"test: the upper variables have 3 entries, but 1 number came; .*a \(\), b \(2,\)"),
        ({}, "test: no value for the upper variables a, b"),
        ([1.0, [2.0, 3.0, 4.0]], r"test: 'b' has shape \(2,\), but a value of shape \(3,\)"),
        ([1.0, 2.0, np.nan], "test: the upper values contain NaN or infinite numbers"),
    ],
)
def test_what_does_not_fit_is_named(levels, x, message):
    with pytest.raises(DataError, match=message):
        read_level(levels, "upper", x, "test")


def test_variables_without_values_and_of_wrong_shape_are_named(levels):
    with pytest.raises(DataError, match="'a' has no value"):
        Point.present(levels)
    Point(levels, FLAT_X, FLAT_Y).assign()
    levels.lower[1].save_value(np.ones(3))
    with pytest.raises(DataError, match=r"'d' has shape \(3,\), but the variable has shape \(\)"):
        Point.present(levels)


def test_a_level_without_variables():
    nothing = Levels((), (), ())
    assert Point.read(nothing, [], np.empty(0), "test").x.size == 0
    assert nothing.x.has_values
