"""y*(x), phi(x) and v(x) as functions, against formulas by pencil and differences."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import DataError


@pytest.fixture
def problem():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [0 <= x, x <= 3], lower)


def test_one_x_and_many(problem):
    one = problem.answer(2.5)
    assert one.y == pytest.approx([1.0], abs=1e-7) and one.exists and one.is_allowed
    assert one.value == pytest.approx(1.25, abs=1e-7)
    assert one.lower_value == pytest.approx(2.25, abs=1e-7)
    assert one.certificate.accepted and "value" in str(one)
    assert problem.variables[0].value is None  # nothing is left in the variables
    places = np.linspace(-1, 3, 9)
    many = problem.answer(places)
    assert len(many) == 9 and many.y.shape == (9, 1)
    assert many.y[:, 0] == pytest.approx(np.minimum(places, 1.0), abs=1e-7)
    assert list(many.is_allowed) == [bool(0 <= place <= 3) for place in places]
    assert problem.value_at(places) == pytest.approx(many.value)
    assert problem.lower_value(places) == pytest.approx(np.maximum(places - 1, 0) ** 2, abs=1e-7)
    assert problem.value_at(2.5) == one.value and isinstance(problem.value_at(2.5), float)


def test_gradients_where_they_exist(problem):
    places = np.array([0.5, 2.5])
    _, slopes = problem.value_at(places, gradient=True)
    assert slopes[:, 0] == pytest.approx([4 * (0.5 - 2), 2 * (2.5 - 2)], abs=1e-6)
    _, slopes = problem.lower_value(places, gradient=True)
    assert slopes[:, 0] == pytest.approx([0.0, 2 * (2.5 - 1)], abs=1e-6)
    value, slope = problem.value_at(1.0, gradient=True)  # the kink of phi
    assert value == pytest.approx(2.0, abs=1e-6) and np.isnan(slope).all()


def test_no_derivative_is_made_up_at_a_kink_of_v():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(x * y), [-1 <= y, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y + x**2), [-1 <= x, x <= 1], lower)
    values, slopes = problem.lower_value([-0.5, 0.0, 0.5], gradient=True)
    assert values == pytest.approx([-0.5, 0.0, -0.5], abs=1e-8)
    assert slopes[[0, 2], 0] == pytest.approx([1.0, -1.0]) and np.isnan(slopes[1, 0])
    assert problem.value_at(0.0) == pytest.approx(-1.0, abs=1e-6)  # the upper level chooses y = -1


def test_several_variables_and_senses():
    price, cap = cp.Variable(2, name="price"), cp.Variable(name="cap")
    sold = cp.Variable(2, name="sold", nonneg=True)
    welfare = 8 * cp.sum(cp.log(1 + sold)) - price @ sold
    lower = bm.Lower(cp.Maximize(welfare), [cp.sum(sold) <= cap], variables=[sold])
    problem = bm.BilevelProblem(cp.Maximize(price @ sold - cap), [price >= 1, cap <= 5], lower)
    points = np.array([[2.0, 3.0, 4.0], [1.5, 1.5, 3.0]])

    def by_cvxpy(point):
        theirs = cp.Variable(2, nonneg=True)
        goal = cp.Maximize(8 * cp.sum(cp.log(1 + theirs)) - point[:2] @ theirs)
        single = cp.Problem(goal, [cp.sum(theirs) <= point[2]])
        single.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
        return point[:2] @ theirs.value - point[2], single.value

    order = [variable.name() for variable in problem.levels.upper]
    assert order == ["price", "cap"]
    expected = np.array([by_cvxpy(point) for point in points])
    values, slopes = problem.value_at(points, gradient=True)
    lower_values, lower_slopes = problem.lower_value(points, gradient=True)
    assert values == pytest.approx(expected[:, 0], abs=1e-5)
    assert lower_values == pytest.approx(expected[:, 1], abs=1e-5)
    step = 1e-4
    for k in range(3):
        move = step * np.eye(3)[k]
        for function, slope in ((problem.value_at, slopes), (problem.lower_value, lower_slopes)):
            difference = (function(points + move) - function(points - move)) / (2 * step)
            assert slope[:, k] == pytest.approx(difference, rel=1e-3, abs=1e-3)
    named = problem.answer({price: [2.0, 3.0], cap: 4.0})
    assert named.value == pytest.approx(values[0]) and set(named.values) == {"price", "cap", "sold"}


def test_where_there_is_no_answer():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y), [y >= x, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y), [x >= 0], lower)
    found = problem.answer([0.5, 2.0])
    assert [answer.exists for answer in found] == [True, False]
    assert np.isnan(found.value[1]) and found[1].certificate is None
    assert "no lower answer" in str(found[1])
    assert np.isnan(problem.lower_value(2.0, gradient=True)[1]).all()


def test_a_lower_level_that_is_not_convex():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.nlp.cos(3 * y) + 0.1 * (y - x) ** 2), [-2 <= y, y <= 2], [y])
    problem = bm.BilevelProblem(cp.Minimize((y - 1) ** 2 + x**2), [-1 <= x, x <= 1], lower)
    value, slope = problem.lower_value(0.5, gradient=True)
    grid = np.linspace(-2, 2, 40001)
    assert value == pytest.approx((np.cos(3 * grid) + 0.1 * (grid - 0.5) ** 2).min(), abs=1e-6)
    assert np.isnan(slope).all()


def test_what_is_no_x_is_refused(problem):
    with pytest.raises(DataError, match="answer"):
        problem.answer([[1.0, 2.0]])
    with pytest.raises(DataError, match="NaN"):
        problem.value_at(np.nan)
    with pytest.raises(DataError, match="NaN"):
        problem.value_at([0.5, np.nan])
