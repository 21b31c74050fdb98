"""The history of a solve has a row for each step, and its picture shows what was recorded."""

from __future__ import annotations

import dataclasses

import cvxpy as cp
import numpy as np
import pytest
from matplotlib.figure import Figure

import blomodel as bm


def smooth_problem() -> bm.BilevelProblem:
    """y = x / 2 below, so that (x - 1)^2 + y is least at x = 3/4."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y) - x @ y), variables=[y])
    upper = cp.Minimize(cp.sum_squares(x - 1) + cp.sum(y))
    return bm.BilevelProblem(upper, [-2 <= x, x <= 2], lower)


@pytest.mark.parametrize("method", ["auto", "reduced-penalty", "alt-pbgd", "meha", "blocc"])
def test_history_has_a_row_for_each_step(method: str) -> None:
    problem = smooth_problem()
    problem.solve(method)
    history = problem.solution.history
    assert {"time", "iteration", "value", "x"} <= set(history)
    assert len({len(column) for column in history.values()}) == 1
    assert np.all(np.diff(history["iteration"]) > 0)
    assert history["x"].shape[1] == 2
    last = history["x"][np.all(np.isfinite(history["x"]), axis=1)][-1]
    assert last == pytest.approx(problem.variables[0].value, abs=0.1)


def test_watched_values_are_those_of_the_upper_objective() -> None:
    problem = smooth_problem()
    problem.solve("alt-pbgd")
    history, y = problem.solution.history, problem.variables[1].value
    assert history["value"][-1] == pytest.approx(np.sum((history["x"][-1] - 1) ** 2) + y.sum(), abs=1e-3)


def test_picture_has_a_panel_for_each_figure() -> None:
    problem = smooth_problem()
    problem.solve("alt-pbgd")
    labels = [panel.get_ylabel() for panel in problem.solution.plot().axes]
    assert labels[0] == "upper objective"
    assert any(label.startswith("stationarity") for label in labels)
    assert any(label.startswith("penalty weight") for label in labels)


def test_values_are_drawn_in_the_users_sense() -> None:
    # revenue t (10 - t) of a toll t, which drivers answer with y = 10 - t
    t, y = cp.Variable(name="t"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - (10 - t)) ** 2), [0 <= y], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(t * y), [0 <= t, t <= 10], lower)
    problem.solve("reduced-penalty")
    value, gap, *_ = problem.solution.plot().axes
    assert value.lines[0].get_ydata()[-1] == pytest.approx(25, abs=1e-2)
    assert gap.lines[0].get_ydata()[-1] < 1e-6 < gap.lines[0].get_ydata()[0]
    assert gap.get_yscale() == "log"


def test_panels_go_to_given_axes() -> None:
    problem = smooth_problem()
    problem.solve("reduced-penalty")
    figure = Figure()
    axes = figure.subplots(2, 1)
    assert problem.solution.plot(ax=axes) is figure
    assert axes[1].get_ylabel() == "lower gap"


def test_nothing_recorded_is_said() -> None:
    problem = smooth_problem()
    problem.solve()
    bare = dataclasses.replace(problem.solution, history={"time": np.array([0.1])})
    with pytest.raises(bm.BlomodelError, match="recorded neither value nor gap"):
        bare.plot()
