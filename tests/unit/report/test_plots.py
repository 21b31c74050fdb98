"""Curves are right, and pictures are written without touching pyplot."""

from __future__ import annotations

import sys
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.report import plots


def toll_problem(low: float | None = 0.0, high: float | None = 10.0) -> bm.BilevelProblem:
    """Revenue t (10 - t) of a toll t, drivers answer y = 10 - t."""
    t, y = cp.Variable(name="t"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - (10 - t)) ** 2), [0 <= y], variables=[y])
    bounds = [t >= low] if low is not None else []
    bounds += [t <= high] if high is not None else []
    return bm.BilevelProblem(cp.Maximize(t * y), bounds, lower)


def test_sampled_curves_match_the_formulas() -> None:
    # f = -t y is minimised; with z = y - (10 - t), f + gamma z^2 is least at z = t / (2 gamma)
    t = np.linspace(0, 8, 9)
    curve = plots.sample_upper_objective(toll_problem().model, t, gammas=(2.0,))
    np.testing.assert_allclose(curve.value, -t * (10 - t), atol=1e-6)
    np.testing.assert_allclose(curve.penalised[2.0], -t * (10 - t) - t**2 / 8, atol=1e-5)


def test_curve_has_gaps_where_the_lower_level_has_no_answer() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2), [y >= x, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y), [0 <= x, x <= 2], lower)
    curve = plots.sample_upper_objective(problem.model, np.array([0.5, 1.5]), gammas=(1.0,))
    assert np.isfinite(curve.value).tolist() == [True, False]
    assert np.isfinite(curve.penalised[1.0]).tolist() == [True, False]


def test_plot_shows_the_answer_in_the_users_sense() -> None:
    problem = toll_problem()
    problem.solve()
    axes = plots.plot_upper_objective(problem, points=21).axes[0]
    labels = [line.get_label() for line in axes.lines]
    assert labels[-1] == "answer: t = 5, value 25"
    assert np.nanmax(axes.lines[0].get_ydata()) == pytest.approx(25, abs=1e-5)
    assert axes.get_title() == "What the upper level maximises"


def test_plots_leave_the_answer_alone(tmp_path: Path) -> None:
    problem = toll_problem()
    problem.solve()
    before = [float(variable.value) for variable in problem.variables]
    plots.save(plots.plot_upper_objective(problem, points=11), tmp_path / "curve.png")
    plots.save(plots.plot_convergence(problem), tmp_path / "progress.png")
    assert [float(variable.value) for variable in problem.variables] == before
    assert all((tmp_path / name).stat().st_size > 5000 for name in ("curve.png", "progress.png"))
    assert "matplotlib.pyplot" not in sys.modules


def test_progress_is_drawn_in_the_users_sense() -> None:
    problem = toll_problem()
    with pytest.raises(bm.BlomodelError, match="before problem.solve"):
        plots.plot_convergence(problem)
    problem.solve(method="reduced-penalty")
    value, gap = (panel.lines[0].get_ydata() for panel in plots.plot_convergence(problem).axes)
    assert value[-1] == pytest.approx(25, abs=1e-2)
    assert gap[-1] < 1e-6 < gap[0]


def test_unbounded_range_asks_for_a_span() -> None:
    with pytest.raises(bm.BlomodelError, match="pass span="):
        plots.plot_upper_objective(toll_problem(high=None))


def test_vector_problems_have_no_curve() -> None:
    x, y = cp.Variable(2, name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - cp.sum(x)) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y), [0 <= x, x <= 1], lower)
    with pytest.raises(bm.BlomodelError, match="x of size 2.*plot_convergence"):
        plots.plot_upper_objective(problem)
