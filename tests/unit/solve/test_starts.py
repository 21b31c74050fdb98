"""Where a solve begins: at the last answer, or at what the user has set."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import UnknownSettingError


@pytest.fixture
def problem():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [0 <= x, x <= 3], lower)


ONE_STEP = {"max_steps": 1, "step_size": 1e-9}  # too short to leave the start


def first_x(problem, **settings):
    problem.solve(method="blocc", **ONE_STEP, **settings)
    return float(problem.solution.history["x"][0, 0])


def test_a_cold_start_is_the_users(problem):
    x = problem.variables[0]
    x.value = 0.25
    assert first_x(problem) == pytest.approx(0.25)
    problem.solve(method="blocc", max_steps=2)
    answer = float(x.value)
    assert answer != pytest.approx(0.25, abs=1e-3)
    assert first_x(problem) == pytest.approx(answer)  # as cvxpy: where the last solve ended
    assert first_x(problem, warm_start=False) == pytest.approx(0.25)
    x.value = 0.5  # a new start of the user's own
    assert first_x(problem, warm_start=False) == pytest.approx(0.5)


def test_a_cold_start_without_values_is_no_start(problem):
    cold = first_x(problem)
    problem.solve()
    assert first_x(problem, warm_start=False) == pytest.approx(cold)


def test_compare_does_not_start_at_the_optimum(problem):
    x = problem.variables[0]
    x.value = 0.25
    problem.solve()
    answer = float(x.value)
    for _ in range(2):  # the comparison itself leaves no trace
        rows = bm.compare(problem, ["blocc", "blocc"], **ONE_STEP).rows
        assert all(row.solution.history["x"][0, 0] == pytest.approx(0.25) for row in rows)
        assert float(x.value) == answer
    warm = bm.compare(problem, ["blocc"], **ONE_STEP, warm_start=True).rows[0]
    assert warm.solution.history["x"][0, 0] == pytest.approx(answer)


def test_the_switch_is_checked(problem):
    with pytest.raises(UnknownSettingError, match="warm_start = 'no'"):
        problem.solve(warm_start="no")


def test_multipliers_that_the_model_does_not_use_have_values_too(problem):
    lower = problem.followers[0]
    row = lower.constraints[0]
    before = lower.multiplier(row)
    problem.variables[0].value = None
    problem.solve()
    # At x = 2 the follower wants y = 2 and gets 1: 2 (y - x) + multiplier = 0.
    assert float(before.value) == pytest.approx(2.0, abs=1e-5)
    lower.multipliers.clear()
    assert np.allclose(lower.multiplier(row).value, 2.0, atol=1e-5)
