"""Callbacks: what they are told, how they stop a run, and what is left when they fail."""

import logging

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import UnknownSettingError


@pytest.fixture
def problem():
    t, y = cp.Variable(name="t"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - (10 - t)) ** 2), [0 <= y], variables=[y])
    return bm.BilevelProblem(cp.Maximize(t * y), [0 <= t, t <= 10], lower)


def test_states_tell_incumbent_bound_and_iteration(problem):
    seen = []
    value = problem.solve(callback=seen.append)
    last = seen[-1]
    assert [state.iteration for state in seen] == sorted(state.iteration for state in seen)
    assert last.value == pytest.approx(value, abs=1e-6)
    assert last.bound == pytest.approx(25.0, abs=1e-4) and last.gap < 1e-4
    assert float(last.values["t"]) == pytest.approx(5.0, abs=1e-4)
    assert last.method == "auto" and last.time > 0


def test_scaled_problems_tell_the_users_units():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 2e6], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 3e6) ** 2 + y), [0 <= x, x <= 5e6], lower)
    seen = []
    value = problem.solve(callback=seen.append)
    assert seen[-1].value == pytest.approx(value, rel=1e-6)
    assert float(seen[-1].values["x"]) == pytest.approx(float(x.value), rel=1e-6)


def test_a_callback_may_stop_the_run(problem):
    problem.solve("random-search", n_points=10**6, callback=lambda state: state.iteration > 5)
    assert problem.solution.stopped_by == "callback"
    assert problem.solution.iterations < 10**5
    assert problem.certificate.accepted
    problem.solve("random-search", n_points=10**6, callback=lambda state: np.float64(3) > 2)
    assert problem.solution.stopped_by == "callback"  # what NumPy calls true is true
    problem.solve(callback=lambda state: "go on")  # anything but True does not stop it
    assert problem.solution.stopped_by is None


def test_a_callback_that_raises_loses_nothing(problem):
    def fail(state):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        problem.solve("random-search", n_points=10**6, callback=fail)
    assert problem.certificate.accepted and np.isfinite(problem.value)
    assert problem.solution.stopped_by == "callback that raised"
    assert problem.solve() == pytest.approx(25.0, abs=1e-4)


def test_no_function_is_no_callback(problem):
    with pytest.raises(UnknownSettingError, match="callback = 3"):
        problem.solve(callback=3)


def test_the_history_has_a_row_every_so_often(problem):
    problem.solve("meha", max_steps=500)
    usual = problem.value
    problem.variables[0].value = problem.variables[1].value = None
    problem.solve("meha", max_steps=500, history_every=50)
    rows = problem.solution.history["iteration"]
    assert len(rows) >= 5 and np.all(rows % 50 == 0) and np.all(np.diff(rows) == 50)
    assert problem.value == pytest.approx(usual, abs=1e-6)  # looking on changes nothing
    for wrong in (0, 1.5, "all"):
        with pytest.raises(UnknownSettingError, match="history_every"):
            problem.solve(history_every=wrong)


def test_levels_of_talk(problem, capsys):
    problem.solve(verbose=0)
    assert capsys.readouterr().out == ""
    problem.solve(verbose=1)
    brief = capsys.readouterr().out
    problem.solve(verbose=2)
    long = capsys.readouterr().out
    assert "optimal" in brief and "tree over KKT pieces" in long and len(long) > len(brief)
    for wrong in (3, -1, "yes"):
        with pytest.raises(UnknownSettingError, match="verbose = "):
            problem.solve(verbose=wrong)


def test_the_logger_is_told(problem, caplog):
    with caplog.at_level(logging.DEBUG, logger="blomodel"):
        problem.solve()
    levels = {record.levelname for record in caplog.records if record.name == "blomodel"}
    assert levels == {"DEBUG", "INFO"}
    assert "optimal" in caplog.text
