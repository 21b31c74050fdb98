"""The lower gap that is measured while a compiled loop runs."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits
from blomodel.methods.run.run import Run
from blomodel.methods.run.watched_gap import watched_gap


def shifted_squares(n: int = 2) -> bm.BilevelProblem:
    """The lower answer is y = x, its value 3 whatever x is."""
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x) + 3), variables=[y])
    upper = cp.Minimize(cp.sum_squares(x - 1) + cp.sum_squares(y + 1))
    return bm.BilevelProblem(upper, [x >= -4, x <= 4], lower)


def run_of(problem: bm.BilevelProblem) -> Run:
    return Run(model=problem.model, p=np.zeros(0), start=None, tolerance=1e-6, seed=0)


def test_gap_is_that_of_the_watched_point_and_is_measured_ever_more_rarely() -> None:
    run, x, y = run_of(shifted_squares()), np.array([1.0, 2.0]), np.array([1.5, 2.0])
    assert watched_gap(run, 1) == {}  # nothing is watched yet
    run.watch(x, y)
    assert watched_gap(run, 1)["gap"] == pytest.approx(0.25 / 4, abs=1e-9)
    run.step(count=8)
    y[:] = x
    assert watched_gap(run, 1)["gap"] == pytest.approx(0.0, abs=1e-9)
    assert watched_gap(run, 2) == {}
    assert "gap" in watched_gap(run, 4)


def test_a_point_outside_the_constraints_does_not_look_lower_optimal() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y), [y >= x], variables=[y])
    run = run_of(bm.BilevelProblem(cp.Minimize((y - x) ** 2 + x), [x >= 0, x <= 1], lower))
    run.watch(np.array([0.0]), np.array([-1.0]))  # below v(x) = 0, which no answer can be
    assert watched_gap(run, 1)["gap"] >= 0.5


def test_large_and_nonconvex_lower_levels_are_left_alone() -> None:
    n = limits.MEASURED_GAP.value + 1
    run = run_of(shifted_squares(n))
    run.watch(np.zeros(n), np.ones(n))
    assert watched_gap(run, 1) == {}
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.nlp.sin(x + y)), [y >= -4, y <= 4], variables=[y])
    run = run_of(bm.BilevelProblem(cp.Minimize(x**2 + y**2), [x >= -1, x <= 1], lower))
    run.watch(np.zeros(1), np.zeros(1))
    assert watched_gap(run, 1) == {}


@pytest.mark.parametrize("method", ["meha", "alt-pbgd", "jnt-pbgd", "pbgd"])
def test_history_of_a_penalty_method_shows_the_gap_closing(method: str) -> None:
    problem = shifted_squares()
    problem.solve(method=method)
    gaps = problem.solution.history["gap"]
    gaps = gaps[np.isfinite(gaps)]
    assert len(gaps) >= 5
    assert gaps.max() > 1e-2 and gaps[-1] <= 1e-5
