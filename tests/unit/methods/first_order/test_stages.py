"""Runs with one weight and runs in stages, and what is left of those that diverge."""

from __future__ import annotations

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
}


def started():
    problem = strongly_convex(2)
    for variable in problem.variables:
        variable.value = np.array([0.3, -0.2])
    return problem


@pytest.mark.parametrize(("name", "settings"), LONG.items(), ids=LONG)
def test_a_run_that_diverges_leaves_its_own_point_and_no_answer_of_its_own(name, settings):
    problem = started()
    problem.solve(method=name, max_iterations=3000, **settings)
    solution = problem.solution
    end = np.concatenate(list(solution.iterate.values()))
    assert not np.abs(end).max() < 1e5  # far away, or not a number
    assert any("has diverged" in note and "iterations" in note for note in solution.notes)
    assert solution.source.startswith("not the method")
    assert problem.status is bm.Status.FEASIBLE


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
