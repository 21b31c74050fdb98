"""The worst choice among lower minimisers, on problems whose minimisers are known by heart."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel import errors


@pytest.fixture
def x():
    return cp.Variable(name="x")


def indifferent(x, n, rows, objective, constraints=(), free=None):
    """A follower that only ties z to x and leaves the n entries of y within the rows."""
    y, z = free if free is not None else cp.Variable(n, name="y"), cp.Variable(name="z")
    lower = bm.Lower(cp.Minimize((z - x) ** 2), [*rows(y), z <= 100], variables=[y, z])
    problem = bm.BilevelProblem(objective(y), [x >= 0, *constraints], lower)
    return problem, y


def test_affine_objective_is_proven(x):
    problem, y = indifferent(
        x, 2, lambda y: [y >= 0, y <= [1, 3]], lambda y: cp.Minimize(x**2 + y[0] - 2 * y[1])
    )
    problem.solve()
    result = problem.pessimistic()
    assert result.bracket == pytest.approx((-6, 1), abs=1e-6)
    assert result.is_proven and result.lower_is_unique is False
    assert result.y_worst[y] == pytest.approx([1, 0], abs=1e-6)
    assert not result.violated


def test_maximising_upper_level(x):
    problem, y = indifferent(
        x, 2, lambda y: [y >= 0, y <= [1, 3]], lambda y: cp.Maximize(-(x**2) - y[0] + 2 * y[1])
    )
    result = problem.pessimistic()  # solves first
    assert result.bracket == pytest.approx((6, -1), abs=1e-6)
    assert result.is_proven


def test_unique_answer_leaves_no_choice(x):
    y = cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [], lower)
    problem.solve()
    result = problem.pessimistic()
    assert result.lower_is_unique and result.is_proven
    assert result.bracket == pytest.approx((1, 1), abs=1e-6)


def test_degenerate_linear_program_with_one_answer(x):
    y = cp.Variable(2, name="y")
    rows = [y >= 0, y[0] + y[1] >= 1, y[0] >= 1]
    lower = bm.Lower(cp.Minimize(y[0] + y[1]), rows, variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y[1]), [], lower)
    result = problem.pessimistic()
    assert result.lower_is_unique and result.bracket == pytest.approx((0, 0), abs=1e-6)


def test_convex_objective_over_a_box_is_proven(x):
    problem, y = indifferent(
        x,
        2,
        lambda y: [y >= 0, y <= 1],
        lambda y: cp.Minimize(x**2 + cp.sum_squares(y - np.array([0.2, 0.7]))),
    )
    result = problem.pessimistic()
    assert result.bracket == pytest.approx((0, 0.8**2 + 0.7**2), abs=1e-6)
    assert result.is_proven
    assert result.y_worst[y] == pytest.approx([1, 0], abs=1e-6)


def test_convex_objective_over_a_simplex_is_proven_by_branch_and_bound(x):
    target = np.array([0.5, 0.3, 0.2])
    problem, y = indifferent(
        x,
        3,
        lambda y: [y >= 0, cp.sum(y) == 1],
        lambda y: cp.Minimize(x**2 + cp.sum_squares(y - target)),
    )
    result = problem.pessimistic()
    vertices = [np.sum((vertex - target) ** 2) for vertex in np.eye(3)]
    assert result.pessimistic == pytest.approx(max(vertices), abs=1e-6)
    assert result.is_proven and "branch and bound" in result.reason
    assert max(vertices) - 1e-9 <= result.bound <= max(vertices) + 1e-4


def test_follower_may_break_an_upper_constraint(x):
    free = cp.Variable(name="y")
    problem, y = indifferent(
        x,
        1,
        lambda y: [0 <= y, y <= 3],
        lambda y: cp.Minimize(x**2 - y),
        [free <= 2],
        free=free,
    )
    assert problem.solve() == pytest.approx(-2, abs=1e-6)
    result = problem.pessimistic()
    assert result.bracket == pytest.approx((-2, 0), abs=1e-6)
    assert list(result.violated) == ["y <= 2"]
    assert result.violated["y <= 2"] == pytest.approx(1, abs=1e-6)


def test_no_limit_to_what_the_follower_may_do(x):
    problem, y = indifferent(x, 1, lambda y: [y >= 0], lambda y: cp.Minimize(x**2 + cp.sum(y)))
    result = problem.pessimistic()
    assert result.pessimistic == np.inf and result.is_proven
    assert result.lower_is_unique is False and not result.y_worst


def test_minimisers_of_a_lower_level_that_is_not_quadratic(x):
    y = cp.Variable(2, name="y")
    rows = [y[0] + y[1] >= x, y >= -1, y <= 1]
    lower = bm.Lower(cp.Minimize(cp.exp(y[0] + y[1])), rows, variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 0.5) ** 2 + y[0] - y[1]), [0 <= x, x <= 1], lower)
    result = problem.pessimistic(x=0.5)
    # y_0 + y_1 = 0.5 within the box, so y_0 - y_1 lies between -1.5 and 1.5.
    assert result.bracket == pytest.approx((-1.5, 1.5), abs=1e-4)
    assert result.lower_is_unique is False


def test_two_minimisers_of_a_nonconvex_lower_level(x):
    y = cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y**2 - 1) ** 2 + 0 * x), [-3 <= y, y <= 3], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y), [-1 <= x, x <= 1], lower)
    problem.solve()
    result = problem.pessimistic()
    assert result.bracket == pytest.approx((-1, 1), abs=1e-3)
    assert result.lower_is_unique is False
    assert result.is_proven and result.bound == pytest.approx(1, abs=1e-3)


def test_prices_may_be_chosen_badly_too(x):
    """At x = 1 the multipliers of y >= 1 and y >= x only add up to one."""
    y = cp.Variable(name="y")
    fixed, moving = y >= 1, y >= x
    lower = bm.Lower(cp.Minimize(y), [fixed, moving], variables=[y])
    objective = 10 * (x - 1) ** 2 + lower.multiplier(fixed)
    problem = bm.BilevelProblem(cp.Minimize(objective), [0 <= x, x <= 2], lower)
    result = problem.pessimistic(x=1.0)
    assert result.bracket == pytest.approx((0, 1), abs=1e-6)


def test_search_for_a_better_x(x):
    """y = -sign(x), and anything at 0: the infimum -1 is reached by the optimistic choice alone."""
    y = cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(x * y), [-1 <= y, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y), [-1 <= x, x <= 1], lower)
    assert problem.solve() == pytest.approx(-1, abs=1e-6)
    assert problem.pessimistic().pessimistic == pytest.approx(1, abs=1e-5)
    better = problem.pessimistic(search=60)
    assert -1 <= better.pessimistic < -0.99
    assert 0 < better.x[x] < 0.1
    assert "best of" in better.reason


def test_search_looks_beside_the_optimistic_answer(x):
    """85 buyers up to the price 5 and 45 up to 9: equal spacing finds 9 first, but 5 is better."""
    followers, sold = [], 0
    for name, size, limit in (("many", 40, 5), ("few", 45, 9)):
        bought = cp.Variable(name=name)
        gain, rows = cp.Maximize((limit - x) * bought), [0 <= bought, bought <= size]
        followers.append(bm.Lower(gain, rows, [bought], name))
        sold += bought
    problem = bm.BilevelProblem(cp.Maximize(x * sold), [0 <= x, x <= 40], lower=followers)
    assert problem.solve() == pytest.approx(5 * 85, abs=1e-4)
    assert problem.pessimistic().pessimistic == pytest.approx(5 * 45, abs=1e-3)
    safe = problem.pessimistic(search=100)
    assert 9 * 45 < safe.pessimistic < 5 * 85
    assert 4.9 < safe.x[x] < 5


def test_without_an_answer(x):
    y = cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 1, y <= x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2), [x >= 1, x + y <= 1], lower)
    problem.solve()
    with pytest.raises(errors.ModelError, match="no answer to look at"):
        problem.pessimistic()
    with pytest.raises(errors.LowerLevelError, match="no answer at x"):
        problem.pessimistic(x=0.0)
