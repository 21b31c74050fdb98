"""When there is no answer: the status is right, and explain() says which level and which constraint."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics.deadline import NEVER, Deadline


@pytest.fixture
def x():
    return cp.Variable(name="x")


@pytest.fixture
def y():
    return cp.Variable(name="y")


def outcome(problem):
    """What explain() says about the last solve, on one line."""
    return " ".join(problem.explain().split("the last solve")[1].split())


def names(no_answer):
    return [str(conflict.constraint) for conflict in no_answer.conflicts]


def test_relaxation_infeasible_names_the_rows_in_conflict(x, y):
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= -5], variables=[y])
    rows = [x + y >= 3, x <= 1, y <= 1, x >= -7]
    problem = bm.BilevelProblem(cp.Minimize(x), rows, lower)
    assert problem.solve() == np.inf
    assert problem.status == "infeasible"
    reason = problem.solution.no_answer
    assert reason.kind == "relaxation infeasible" and reason.is_proven
    assert names(reason) == [str(row) for row in rows[:3]]  # x >= -7 and y >= -5 have no part in it
    assert sum(c.violation for c in reason.conflicts) == pytest.approx(1.0, abs=1e-6)
    assert "3 <= x + y" in outcome(problem)


def test_relaxation_infeasible_across_the_levels(x, y):
    lower = bm.Lower(cp.Minimize(y), [y >= 2 * x, y <= 10], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x), [x >= 3, y <= 5, x <= 8], lower)
    problem.solve()
    assert problem.status == "infeasible"
    found = {(c.level, str(c.constraint)) for c in problem.solution.no_answer.conflicts}
    assert found == {("lower", "2.0 * x <= y"), ("upper", "3.0 <= x"), ("upper", "y <= 5.0")}


def test_every_lower_answer_violates_an_upper_constraint(x, y):
    # y = x <= 1 below, so y >= 2 misses by 1 at best, though y <= 4 would leave room for it.
    lower = bm.Lower(cp.Minimize(y), [y >= x, y <= 4], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x), [0 <= x, x <= 1, y >= 2, y <= 3], lower)
    assert problem.solve() == np.inf
    assert problem.status == "infeasible"
    reason = problem.solution.no_answer
    assert reason.kind == "upper constraint violated" and reason.is_proven
    assert names(reason) == ["2.0 <= y"]
    assert reason.conflicts[0].violation == pytest.approx(1.0, abs=1e-6)
    assert "upper constraint 2 <= y, violated by 1 at best" in outcome(problem)
    assert x.value is None and y.value is None


def test_least_violation_of_vector_rows_and_equalities():
    # y = (x, -x), so that y[0] + y[1] == 1 misses by 1, whatever x is.
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - cp.hstack([x, -x]))), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x), [x >= -2, x <= 2, cp.sum(y) == 1], lower)
    problem.solve()
    assert problem.status == "infeasible"
    conflict = problem.solution.no_answer.conflicts[0]
    assert conflict.violation == pytest.approx(1.0, abs=1e-6)


def test_a_problem_with_coupling_rows_that_can_hold_has_an_answer(x, y):
    lower = bm.Lower(cp.Minimize(y), [y >= x, y <= 4], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x), [0 <= x, x <= 3, y >= 2], lower)
    assert problem.solve() == pytest.approx(2.0, abs=1e-6)
    assert problem.status == "optimal"
    assert problem.solution.no_answer is None


def test_lower_level_infeasible_names_the_lower_rows(x, y):
    lower = bm.Lower(cp.Minimize(y), [y >= x + 1, y <= x - 1, y <= 9], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x), [0 <= x, x <= 1], lower)
    assert problem.solve() == np.inf
    assert problem.status == "lower_infeasible"
    assert problem.solution.no_answer.kind == "lower infeasible"
    assert len(problem.solution.no_answer.conflicts) == 2
    assert "whatever x is" in outcome(problem)


def test_lower_level_unbounded_is_not_called_infeasible(x, y):
    lower = bm.Lower(cp.Maximize(y), [y >= x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x), [0 <= x, x <= 1], lower)
    assert problem.solve() == np.inf
    assert problem.status == "lower_unbounded"
    assert "lower unbounded" in outcome(problem)


def test_unbounded_on_a_piece(x, y):
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(y), [x >= 0], lower)
    assert problem.solve() == np.inf
    assert problem.status == "unbounded"
    assert problem.solution.no_answer.is_proven
    assert x.value is None


def test_unbounded_along_a_curve(x, y):
    # -log falls without limit, but slowly: only the trend over many decades shows it.
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(-cp.log(1 + y)), [x >= 0], lower)
    assert problem.solve(n_starts=1) == -np.inf
    assert problem.status == "unbounded"
    assert "with x going to +infinity" in outcome(problem) and "seen, not proven" in outcome(problem)


@pytest.mark.parametrize("f", [lambda y: cp.exp(-y), lambda y: cp.inv_pos(1 + y)])
def test_optimum_at_infinity_is_not_attained(x, y, f):
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f(y)), [x >= 0], lower)
    # auto goes on until the value meets the bound within the tolerance.
    value = problem.solve("reduced-penalty")
    assert problem.status == "not_attained"
    assert 0 < value < 1e-3 and problem.certificate.accepted  # a point that is as good as it gets
    assert "not attained" in outcome(problem)


def test_optimum_at_a_jump_of_the_lower_answer_is_not_attained(x, y):
    # y = 0 for every x > 0, but y = 1 at x = 0: x + y comes near 0 and is never there.
    lower = bm.Lower(cp.Maximize(y), [x * y <= 0, y >= 0, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y), [x >= 0, x <= 1], lower)
    value = problem.solve()
    assert problem.status == "not_attained"
    assert 0 < value < 1e-3
    assert "near [0]" in outcome(problem) and "f is 1" in outcome(problem)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: cp.pos(1 - y) ** 2,  # level beyond y = 1
        lambda x, y: cp.exp(y) + cp.exp(-y),
        lambda x, y: (y - 3) ** 2 + 0 * x,
        lambda x, y: cp.abs(y),
    ],
)
def test_attained_optima_are_left_alone(x, y, f):
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f(x, y)), [], lower)
    problem.solve()
    assert problem.status in ("optimal", "locally_optimal")
    assert problem.solution.no_answer is None


def test_values_set_before_are_not_lost_by_the_search_for_a_reason(x, y):
    x.value, y.value = 0.25, 0.5
    lower = bm.Lower(cp.Minimize(y), [y >= x, y <= 4], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x), [0 <= x, x <= 1, y >= 2], lower)
    from blomodel.solve.no_answer import explain_coupling, explain_relaxation

    assert explain_relaxation(problem, deadline=NEVER) is None
    reason, _ = explain_coupling(problem, tolerance=1e-6, seed=0, deadline=Deadline.after(5.0))
    assert reason is not None
    assert (float(x.value), float(y.value)) == (0.25, 0.5)


@pytest.mark.parametrize("method", ["auto", "value-cuts", "grid-search"])
def test_bounds_that_contradict_each_other_are_infeasible_whatever_the_lower_level(method):
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    g = y[0] * y[1] + 0.7 * x * y[0] - 0.1 * y[1]
    rows = [y >= [-2, -1], y <= [2, 1.4], 0.1 * y[0] + y[1] - 0.4 * x <= 2]
    lower = bm.Lower(cp.Minimize(g), rows, variables=[y])
    problem = bm.BilevelProblem(
        cp.Minimize((x + 0.4) ** 2 + y[0]), [x >= -1, x <= 0.8, x <= -1.3], lower
    )
    assert problem.solve(method) == np.inf
    assert problem.status == "infeasible"
