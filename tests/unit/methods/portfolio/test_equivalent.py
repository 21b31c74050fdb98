"""Searches on an equivalent problem: what they leave behind is of the problem itself."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

import blomodel as bm
from blomodel.basics.deadline import Deadline
from blomodel.methods.portfolio.equivalent import search_with_kinks, search_without_kinks
from blomodel.methods.portfolio.plan import make_plan
from blomodel.methods.portfolio.step import Outlook
from blomodel.methods.run.run import Run
from blomodel.transformations.kinks import without_kinks

NOTHING = np.zeros(0)


def kinked() -> bm.BilevelProblem:
    """Kinks of both levels."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x) + cp.norm1(y)), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.norm1(y - 1) + cp.norm_inf(x)), [x >= -2, x <= 2], lower)


def run_on(problem: bm.BilevelProblem) -> Run:
    return Run(model=problem.model, p=NOTHING, start=None, tolerance=1e-6, seed=0, history_every=1)


def test_the_history_holds_points_of_the_problem_itself() -> None:
    run = run_on(kinked())
    run.step(x=np.array([1.0, 2.0]))

    def search(other: Run) -> None:
        assert other.model.x.size > 2 and other.model.y.size > 2  # kinks of both levels
        point = np.arange(other.model.x.size, dtype=float), np.arange(other.model.y.size, dtype=float)
        other.watch(*point)
        other.step(x=point[0])

    search_without_kinks(run, search)
    assert np.array_equal(run.record()["x"], [[1, 2], [0, 1]])
    assert np.array_equal(run.record()["y"][1], [0, 1])


def test_a_point_that_was_found_in_time_is_kept_when_none_is_left_to_ask_again() -> None:
    problem = kinked()
    run, equivalent = run_on(problem), without_kinks(problem.model)
    x, y = np.array([1.5, 1.0]), np.array([1.0, 0.5])

    def search(other: Run) -> None:
        other.propose(*equivalent.forward(x, y, NOTHING), "found in time")
        run.deadline = Deadline.after(0)

    search_without_kinks(run, search)
    best = run.best()
    assert best is not None and best.value == 2.0 and best.gap < 1e-6
    assert np.array_equal(best.x, x) and np.array_equal(best.y, y)


def test_a_search_of_the_problem_itself_from_within() -> None:
    """Its points come forward with the further variables, and back without them."""
    run = run_on(kinked())

    def within(own: Run) -> Outlook:
        assert own.model is run.model
        own.step(x=np.array([1.5, 1.0]))
        own.propose(np.array([1.5, 1.0]), np.array([1.0, 0.5]), "itself")
        return Outlook.MORE

    def search(other: Run) -> None:
        assert search_with_kinks(other, within) is Outlook.MORE
        best = other.best()
        assert best is not None and best.value == 2.0 and best.x.size > 2

    search_without_kinks(run, search)
    assert np.array_equal(run.record()["x"], [[1.5, 1.0]])
    best = run.best()
    assert best is not None and best.source == "itself" and best.x.size == 2


def test_phi_is_descended_on_where_kinks_of_f_are_variables() -> None:
    problem = kinked()
    plan = make_plan(problem.model, NOTHING)
    assert plan.n_further
    assert [step.name for step in plan.steps].count("descent on phi") == 1
    assert "descent on phi" not in [omission.step for omission in plan.omitted]
    step = next(step for step in plan.steps if step.name == "descent on phi")
    run = run_on(problem)
    search_without_kinks(run, lambda other: (step.run(other, 0), step.run(other, 1))[0])
    best = run.best()
    assert best is not None and best.value <= problem.solve() + 1e-3
