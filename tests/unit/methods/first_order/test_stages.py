"""Runs with one weight and runs in stages, and what is left of those that diverge."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.problems.meha_paper import strongly_convex

LONG = {
    "alt-pbgd": {"penalty": 10.0, "step_x": 50.0, "step_y": 0.5, "inner_steps": 3},
    "jnt-pbgd": {"penalty": 10.0, "step_x": 5.0, "step_y": 0.5, "inner_steps": 3},
    "pbgd": {"penalty": 10.0, "step_x": 5.0, "step_y": 0.5, "inner_steps": 3},
    "meha": {"penalty": 10.0, "step_x": 50.0, "step_y": 50.0, "step_theta": 50.0},
    "galet": {"step_x": 50.0, "step_y": 5.0, "inner_steps": 3, "shadow_steps": 3},
    "perturbed-gd": {"step_x": 50.0, "rate": 1.0},
    "bome": {"step_x": 50.0, "inner_steps": 3},
    "unrolled": {"step_x": 50.0, "step_y": 0.5, "inner_steps": 3},
    "iaptt": {"step_x": 50.0, "step_y": 0.5, "inner_steps": 3},
    "bda": {"step_x": 50.0, "step_y": 0.5, "inner_steps": 3},
    "implicit-cg": {"step_x": 50.0, "step_y": 0.5, "inner_steps": 3},
    "implicit-neumann": {"step_x": 50.0, "step_y": 0.5, "inner_steps": 3},
    "f2sa": {"penalty": 10.0, "step_x": 50.0, "step_y": 0.5},
    "bamm": {"step_x": 50.0, "step_y": 5.0, "inner_steps": 1, "upper_share": 0.5},
    "brc": {"step_x": 50.0, "step_y": 0.5},
    "alright": {"step_x": 500.0, "step_power": 0.0},
    "pbgd-free": {"step_x": 50.0, "step_y": 0.5, "inner_steps": 3},
}


def started():
    problem = strongly_convex(2)
    for variable in problem.variables:
        variable.value = np.array([0.3, -0.2])
    return problem


@pytest.mark.parametrize(("name", "settings"), LONG.items(), ids=LONG)
@pytest.mark.filterwarnings("ignore:pbgd-free")
def test_a_run_that_diverges_leaves_its_own_point_and_no_answer_of_its_own(name, settings):
    problem = started()
    problem.solve(method=name, max_iterations=3000, **settings)
    solution = problem.solution
    end = np.concatenate(list(solution.iterate.values()))
    assert not np.abs(end).max() < 1e5  # far away, or not a number
    assert any("has diverged" in note and "iterations" in note for note in solution.notes)
    assert problem.status is solution.status is bm.Status.DIVERGED
    assert solution.value == np.inf and solution.certificate is None and not solution.values
    assert solution.no_answer.kind == "diverged"


def test_a_weight_of_stages_that_runs_away_is_left_out():
    """Without a weight several are tried; the step is too long for the large ones only."""
    problem = started()
    problem.solve(method="jnt-pbgd", step_x=0.02, step_y=0.5)
    solution = problem.solution
    assert any("was left out" in note for note in solution.notes)
    assert np.abs(np.concatenate(list(solution.iterate.values()))).max() < 10
    assert solution.source.startswith("jnt-pbgd")


@pytest.mark.parametrize("name", ["alt-pbgd", "jnt-pbgd", "pbgd", "pbgd-free"])
@pytest.mark.filterwarnings("ignore:pbgd-free")
def test_the_paper_s_variant_has_one_weight_and_one_step(name):
    problem = started()
    problem.solve(method=name, variant="paper", max_iterations=60, history_every=1)
    history = problem.solution.history
    assert set(history["gamma"]) == {10.0}
    assert len(set(history["step"])) == 1


def test_a_far_answer_that_f_likes_has_not_diverged():
    """The answer lies ten million away, farther than what counts as run away where f grows."""
    far = 1e7
    x, y = cp.Variable(name="x", value=0.0), cp.Variable(name="y", value=0.0)
    lower = bm.Lower(cp.Minimize((y - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x / far - 1) ** 2 + (y / far - 1) ** 2), [], lower)
    problem.solve("implicit-cg", max_iterations=300)
    assert problem.status.has_point
    assert x.value > 1e6


def test_a_comparison_says_which_method_ran_away_and_never_prefers_it():
    problem = started()
    rows = bm.compare(problem, [("galet", LONG["galet"]), "f2sa"], max_iterations=300)
    assert rows["galet"].solution.status is bm.Status.DIVERGED
    assert rows.best is rows["f2sa"]
    assert "diverged" in str(rows) and "ran away" in str(rows)
