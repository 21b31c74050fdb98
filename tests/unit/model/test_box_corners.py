"""Lower levels that are concave along each coordinate of a box are answered at its corners."""

import itertools

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.model.multistart import CORNERS


def model_of(g, rows, x, y):
    lower = bm.Lower(cp.Minimize(g), rows, variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(x) + cp.sum(y)), [x >= -2, x <= 2], lower).model


def test_the_least_corner_of_an_indefinite_quadratic():
    random = np.random.default_rng(3)
    matrix = random.normal(size=(5, 5))
    matrix = matrix + matrix.T - 8 * np.diag(random.random(5))
    np.fill_diagonal(matrix, -np.abs(np.diag(matrix)))
    x, y = cp.Variable(5), cp.Variable(5)
    model = model_of(y @ matrix @ y + x @ y, [y >= -1, y <= 0.7], x, y)
    at = random.normal(size=5)
    answer, is_proven = model.solve_lower(at, np.empty(0), np.zeros(5))
    corners = np.array(list(itertools.product([-1, 0.7], repeat=5)))
    values = [corner @ matrix @ corner + at @ corner for corner in corners]
    assert (is_proven, answer.solver) == (True, CORNERS)
    assert answer.value == pytest.approx(min(values), abs=1e-12)


def test_a_concave_objective_that_is_not_quadratic():
    x, y = cp.Variable(2), cp.Variable(2)
    model = model_of(cp.sum(cp.log(2 + y)) + x @ y, [y >= -1, y <= 1 + x], x, y)
    at = np.array([0.3, -0.8])
    answer, is_proven = model.solve_lower(at, np.empty(0), np.zeros(2))
    corners = np.array(list(itertools.product([-1, 1.3], [-1, 0.2])))
    assert is_proven
    assert answer.value == pytest.approx(min(np.log(2 + c).sum() + at @ c for c in corners), abs=1e-12)


def test_rows_besides_bounds_and_positive_curvature_are_searched():
    x, y = cp.Variable(2), cp.Variable(2)
    for g, rows in (
        (y[0] * y[1] - y[0] ** 2 + x @ y, [y >= -1, y <= 1, y[0] + y[1] <= 0.5]),
        (y[0] * y[1] * 3 + y[0] ** 2 + x @ y, [y >= -1, y <= 1]),
    ):
        answer, is_proven = model_of(g, rows, x, y).solve_lower(np.ones(2), np.empty(0), np.zeros(2))
        assert not is_proven
        assert answer.solver != CORNERS
