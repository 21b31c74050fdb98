"""Searches of lower levels that are not convex, group by group where groups do not meet."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics.deadline import Deadline
from blomodel.model.local_search import LocalSearch
from blomodel.model.multistart import MultistartLower
from blomodel.solvers.answer import InnerStatus

NO_P = np.zeros(0)


def lower_of(g, constraints, x, y):
    lower = bm.Lower(cp.Minimize(g), constraints, variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(x)), [x >= -1, x <= 1], lower)
    return MultistartLower(problem.model)


def waves(grid, shift):
    """Twelve valleys or so on the interval that the tests use."""
    return (grid - shift) ** 2 / 4 + np.sin(7 * grid) + np.cos(3 * grid)


@pytest.mark.parametrize("n", [1, 3, 12])
def test_separate_variables_are_all_in_their_best_valley(n):
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = cp.sum_squares(y - x) / 4 + cp.sum(cp.nlp.sin(7 * y) + cp.nlp.cos(3 * y))
    search = lower_of(g, [y >= -5, y <= 5], x, y)
    assert len(search._groups) == n
    grid = np.linspace(-5, 5, 100_001)
    for seed in range(3):
        at = np.random.default_rng(seed).uniform(-1, 1, n)
        best = sum(waves(grid, shift).min() for shift in at)
        answer = search.solve(at, NO_P, near=[np.full(n, 4.0)])
        assert answer.status is InnerStatus.OPTIMAL
        assert answer.value == pytest.approx(best, abs=1e-6)


def test_groups_with_rows_of_their_own():
    # two pairs, each on a circle, and a pair that stands alone
    x, y = cp.Variable(2, name="x"), cp.Variable(5, name="y")
    g = x[0] * y[0] * y[1] - y[2] * y[3] ** 2 + cp.nlp.cos(4 * y[4]) + x[1] * y[4]
    circles = [cp.sum_squares(y[:2]) <= 2, cp.sum_squares(y[2:4]) == 3, y >= -2, y <= 2]
    search = lower_of(g, circles, x, y)
    assert [list(free) for free, _ in search._groups] == [[0, 1], [2, 3], [4]]
    at = np.array([-0.7, 0.2])
    grid = np.linspace(-2, 2, 100_001)
    # on circles of radius r, ab is at most r^2 / 2 and ab^2 at most 2 r^3 / sqrt(27)
    best = -0.7 * 1.0 - 2 * 3**1.5 / np.sqrt(27) + (np.cos(4 * grid) + 0.2 * grid).min()
    answer = search.solve(at, NO_P, near=[np.array([1.0, -1.0, -1.5, 0.1, 2.0])])
    assert answer.value == pytest.approx(best, abs=1e-6)


def test_a_group_that_is_undefined_at_the_given_point():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    g = -cp.nlp.cos(5 * y[0]) + (y[0] - x) ** 2 - cp.log(y[1]) + y[1]
    search = lower_of(g, [y >= -3, y <= 3], x, y)
    answer = search.solve(np.array([0.3]), NO_P, near=[np.array([2.0, -1.0])])
    grid = np.linspace(-3, 3, 100_001)
    best = ((grid - 0.3) ** 2 - np.cos(5 * grid)).min() + 1.0
    assert answer.value == pytest.approx(best, abs=1e-6)


def test_an_infeasible_group_and_one_without_bound():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    wave = cp.nlp.sin(y[0]) + y[1] ** 3
    search = lower_of(wave, [y >= -3, y <= 3, y[1] ** 2 <= x], x, y)
    assert search.solve(np.array([-0.5]), NO_P).status is InnerStatus.FAILED
    search = lower_of(wave, [y[0] >= -3, y[0] <= 3], x, y)
    assert search.solve(np.array([0.5]), NO_P).status is InnerStatus.UNBOUNDED


def test_a_known_answer_is_compared_with_the_points_given_only():
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    search = lower_of(cp.nlp.sin(4 * y[0] * y[1]) + cp.sum_squares(y - x), [y >= -3, y <= 3], x, y)
    at = np.array([0.4, -0.2])
    first = search.solve(at, NO_P)
    again = search.solve(at, NO_P, near=[np.array([2.5, 2.5])])
    assert again.value <= first.value + 1e-12
    assert again.iterations < first.iterations / 5
    assert again.solver == first.solver  # still that many searches stand behind it
    fresh = search.solve(at, NO_P, warm=False)
    assert fresh.iterations > first.iterations / 5
    assert fresh.value == pytest.approx(first.value, abs=1e-8)


def test_the_certificate_does_not_take_over_what_the_method_believes():
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    g = cp.nlp.sin(4 * y[0] * y[1]) + cp.sum_squares(y - x)
    lower = bm.Lower(cp.Minimize(g), [y >= -3, y <= 3], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(x)), [x >= -1, x <= 1], lower)
    at, wrong = np.array([0.4, -0.2]), np.array([2.0, 2.0])
    search = problem.model.multistart
    search.solve(at, NO_P)
    for key in search._known:  # as if the method's searches had missed the minimum
        search._known[key] = (wrong, 30)
    assert not bm.certify(problem, at, wrong).accepted


def test_an_interval_is_searched_valley_by_valley():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    # A valley far narrower than the scan's steps is found from a given point in it.
    g = (y - x) ** 2 - 30 * cp.exp(-((400 * (y - 2.013)) ** 2))
    search = lower_of(g, [y >= -5, y <= 5], x, y)
    answer = search.solve(np.array([0.5]), NO_P, near=[np.array([2.0131])])
    grid = np.linspace(2.0, 2.03, 300_001)
    values = (grid - 0.5) ** 2 - 30 * np.exp(-((400 * (grid - 2.013)) ** 2))
    assert answer.value == pytest.approx(values.min(), abs=1e-6)


def test_searches_without_a_feasible_end_are_few():
    x, y = cp.Variable(name="x"), cp.Variable(3, name="y")
    search = lower_of(y[0] * y[1] * y[2], [cp.sum_squares(y) <= x, y[0] * y[1] <= 1], x, y)
    answer = search.solve(np.array([-1.0]), NO_P)
    assert not answer.status.has_point
    answer = search.solve(np.array([1.0]), NO_P)
    # on a sphere of radius 1 the product is at least -1 / sqrt(27)
    assert answer.value == pytest.approx(-1 / np.sqrt(27), abs=1e-6)


def test_many_groups_are_answered_by_one_search_where_time_is_over():
    n = 40
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    search = lower_of(cp.sum(cp.nlp.sin(y + x)), [], x, y)
    near = np.full(n, 11.0) + np.linspace(-0.2, 0.2, n)  # 7 pi / 2 = 10.9956 is a bottom
    late = search.solve(np.zeros(n), NO_P, near=[near], deadline=Deadline.after(0.0))
    assert late.status is InnerStatus.OPTIMAL
    assert late.y == pytest.approx(np.full(n, 3.5 * np.pi), abs=1e-5)
    assert late.solver == "0 local searches"
    # What was not searched thoroughly is not remembered as if it had been.
    again = search.solve(np.zeros(n), NO_P, near=[near])
    assert int(again.solver.split()[0]) >= n


@pytest.mark.parametrize("has_rows", [False, True])
def test_the_fewest_searches_are_told_without_any(has_rows, monkeypatch):
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    g = cp.sum_squares(y - x) / 4 + cp.sum(cp.nlp.sin(7 * y))
    rows = [y[0] * y[1] <= 3] if has_rows else []
    search = lower_of(g, [y >= -5, y <= 5, *rows], x, y)
    with monkeypatch.context() as forbidden:
        forbidden.setattr(LocalSearch, "descend", None)
        fewest = search.fewest_searches(np.zeros(2), NO_P)
    taken = int(search.solve(np.zeros(2), NO_P).solver.split(" ")[0])
    assert fewest <= taken
    assert fewest == (30 if has_rows else 0)  # single variables are scanned


def test_a_plan_needs_no_lower_answer_where_answers_are_dear(monkeypatch):
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    cubic = y[0] ** 3 - y[1] ** 3 + y[0] * y[1] * x[0]
    lower = bm.Lower(cp.Minimize(cubic), [cp.sum_squares(y) <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(x - y)), [x >= -1, x <= 1], lower)
    monkeypatch.setattr(MultistartLower, "solve", None)
    assert "each lower answer takes many local searches" in str(problem.plan())
