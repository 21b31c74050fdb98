"""The relaxation below a bilevel problem: never above the optimum, and tight with the right cuts."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.reformulations.forms.bounding import BoundingProblem, LowerPoint, why_no_bounds

pytest.importorskip("pyscipopt")
NOTHING = np.empty(0)


def stated(f, upper, g, below, y):
    return bm.BilevelProblem(cp.Minimize(f), upper, bm.Lower(cp.Minimize(g), below, variables=[y]))


def least(problem, points=()):
    bounding = BoundingProblem(problem.plain_model, NOTHING)
    return bounding, bounding.program(points).solve(bounding.n_values, gap=1e-7)


def test_kkt_conditions_of_affine_rows_are_exact():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    # y = min(x, 1): the best of (x - 2)^2 + (y - 2)^2 lies at x = 2, y = 1.
    problem = stated((x - 2) ** 2 + (y - 2) ** 2, [0 <= x, x <= 3], (y - x) ** 2, [y <= 1, y >= 0], y)
    bounding, answer = least(problem)
    assert bounding.is_exact
    assert answer.bound == pytest.approx(1.0, abs=1e-4)


def test_no_qualification_is_assumed():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    # The only lower point is y = 0, where the row has no slope: no multiplier of the KKT conditions.
    problem = stated((y - 1) ** 2 + (x - 1) ** 2, [0 <= x, x <= 2], -y, [y**2 <= 0, y <= 1, y >= -1], y)
    bounding, answer = least(problem)
    assert bounding.has_conditions
    assert not bounding.is_exact
    assert answer.bound <= 1.0 + 1e-6
    assert answer.bound == pytest.approx(1.0, abs=1e-3)


def test_a_minimiser_at_the_end_of_a_domain_is_kept():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    # sqrt has no slope at y = 0, which is the lower answer for every x > 0.
    problem = stated(y + (x - 1) ** 2, [0.1 <= x, x <= 2], x * cp.sqrt(y), [y >= 0, y <= 1], y)
    bounding, answer = least(problem)
    assert not bounding.has_conditions
    assert answer.bound <= 1e-6


def test_a_lower_point_cuts_what_the_lower_level_would_leave():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    # g is concave: the answer is y = -1 for x < 0, y = 1 for x > 0; stationary points fool KKT.
    problem = stated(
        (x + 0.5) ** 2 + (y - 1) ** 2, [-1 <= x, x <= 1], -(y**2) - x * y, [-1 <= y, y <= 1], y
    )
    bounding, without = least(problem)
    assert not bounding.is_exact
    points = [LowerPoint(np.array([-0.5]), np.array([-1.0])), LowerPoint(np.array([0.5]), np.ones(1))]
    _, cut = least(problem, points)
    assert without.bound < 0.1
    assert cut.bound == pytest.approx(0.25, abs=1e-3)  # x = 0, y = 1


def test_a_lower_point_says_nothing_where_a_row_excludes_it():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    # y <= x excludes y = 1 for x < 1; without the disjunction the cut would claim y = 1 everywhere.
    problem = stated(x + y, [0 <= x, x <= 1], -(y**3), [y <= x, y >= 0], y)
    _, answer = least(problem, [LowerPoint(np.array([1.0]), np.array([0.9]))])
    assert answer.bound <= 1e-6  # x = y = 0


def test_a_lower_point_moves_along_lower_equations():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    problem = stated(
        y[0],
        [-1 <= x, x <= 1],
        -cp.square(y[0]) + 0.1 * y[0],
        [y[0] + y[1] == x, y >= -1, y <= 1],
        y,
    )
    bounding = BoundingProblem(problem.plain_model, NOTHING)
    assert bounding.takes_lower_points
    point = LowerPoint(np.array([0.0]), np.array([-0.9, 0.9]))
    answer = bounding.program([point]).solve(bounding.n_values, gap=1e-7)
    assert answer.bound <= -1.0 + 1e-5  # x = 0 and y = (-1, 1)


def test_kinks_become_rows():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    # A lasso in one dimension: y = max(1 - x, 0); the best of (y - 0.3)^2 is 0 at x = 0.7.
    problem = stated(
        (y - 0.3) ** 2 + 0 * x,
        [0.1 <= x, x <= 2],
        (y - 1) ** 2 / 2 + x * cp.abs(y),
        [y <= 5, y >= -5],
        y,
    )
    bounding, answer = least(problem)
    assert bounding.has_conditions
    assert not bounding.equivalent.is_same
    assert bounding.split(answer.point)[1] == pytest.approx([0.3], abs=1e-2)


def test_what_cannot_be_stated_is_named():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    problem = stated(x + y, [0 <= x, x <= 1], (y - x) ** 2, [y <= 1], y)
    assert why_no_bounds(problem.plain_model) is None
    S = cp.Variable((2, 2), symmetric=True, name="S")
    matrices = stated(x + S[0, 0], [0 <= x, x <= 1], cp.sum_squares(S - x), [S >> 0], S)
    assert "matrix" in why_no_bounds(matrices.plain_model)


def test_a_lower_point_that_no_x_excludes():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    below = [y >= -1, y <= 1, x - 0.2 <= y[1] ** 2, x * y[0] <= 0.5]
    problem = stated(x**2, [x >= -1, x <= 1], y[0] ** 3 + 0.1 * y[1], below, y)
    problem = BoundingProblem(problem.plain_model, NOTHING)
    assert problem.is_allowed_everywhere(np.array([0.2, -1.0]))
    assert not problem.is_allowed_everywhere(np.array([0.2, 0.1]))  # the third row at x = 1
    assert not problem.is_allowed_everywhere(np.array([-0.9, -1.0]))  # the fourth at x = -1
