"""Where a level has no limit, the variable that runs away is named, and no exception is raised."""

import logging

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def test_a_lower_level_without_limit_names_its_variable(caplog):
    x, y = cp.Variable(name="x"), cp.Variable(2, name="flow")
    lower = bm.Lower(cp.Minimize((y[0] - x) ** 2 - y[1]), [y >= -1], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(x), [0 <= x, x <= 1], lower)
    with caplog.at_level(logging.WARNING, logger="blomodel"):
        assert problem.solve() == -np.inf
    assert problem.status == "lower_unbounded"
    assert "flow[1] can grow without limit" in problem.solution.no_answer.reason
    assert "flow[0]" not in problem.solution.no_answer.reason
    assert "flow[1]" in caplog.text and "explain()" in caplog.text
    assert problem.certificate is None


@pytest.mark.parametrize("method", ["auto", "reduced-penalty", "kkt-mip", "value-cuts"])
def test_no_method_raises_for_a_lower_level_without_answer(method):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y), [y <= x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2), [0 <= x, x <= 1], lower)
    problem.solve(method=method)
    assert not problem.status.has_point


def test_an_upper_level_without_limit_names_its_variable():
    x, y = cp.Variable(2, name="price"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x[1]) ** 2), [y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(y - x[0] ** 2), [x[1] >= 0, x[0] >= 0, x[0] <= 1], lower)
    assert problem.solve() == np.inf
    assert problem.status == "unbounded"
    assert "price[1]" in problem.solution.no_answer.reason
    assert "price[0]" not in problem.solution.no_answer.reason


def test_a_word_is_said_where_there_is_no_answer(caplog):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 1, y <= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2), [], lower)
    with caplog.at_level(logging.WARNING, logger="blomodel"):
        problem.solve()
    assert "1.0 <= y" in caplog.text or "y <= 0" in caplog.text
    caplog.clear()
    bm.compare(problem, ["auto"])  # whose table has the reasons
    assert not caplog.records
