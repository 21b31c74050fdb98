"""Loops with settings that change."""

from __future__ import annotations

import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.first_order.scheduled import Scheduled
from blomodel.problems.meha_paper import strongly_convex


def test_each_iteration_sees_its_own_value():
    settings, seen = np.zeros(2), []

    def loop(n):
        seen.extend([settings.copy()] * n)
        return float(n)

    scheduled = Scheduled(loop, settings, {0: lambda k: 10.0 * k, 1: 0.5})
    settings[1] = 0.5
    scheduled(2)
    assert scheduled(1) == 1.0
    assert [list(row) for row in seen] == [[0.0, 0.5], [10.0, 0.5], [20.0, 0.5]]


def test_without_schedules_the_loop_is_called_once():
    calls = []
    scheduled = Scheduled(lambda n: calls.append(n) or 0.0, np.zeros(1), {0: None})
    scheduled(7)
    assert calls == [7]
    assert scheduled.done == 7


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("alt-pbgd", {"penalty": 10.0, "step_x": 0.1, "step_y": 0.5, "inner_steps": 3}),
        ("jnt-pbgd", {"penalty": 10.0, "step_x": 0.01, "step_y": 0.5, "inner_steps": 3}),
        ("pbgd", {"penalty": 10.0, "step_x": 0.01, "step_y": 0.5, "inner_steps": 3}),
        ("meha", {"penalty": 10.0, "step_x": 0.1, "step_y": 0.1, "step_theta": 0.1, "p": 0.0}),
        ("galet", {"step_x": 0.1, "step_y": 0.5, "step_shadow": 0.5, "shadow_steps": 2}),
        ("perturbed-gd", {"step_x": 0.01, "rate": 0.1}),
        ("bome", {"step_x": 0.01, "step_y": 0.5, "inner_steps": 3}),
        ("implicit-cg", {"step_x": 0.1, "step_y": 0.5, "inner_steps": 3}),
        ("unrolled", {"step_x": 0.1, "step_y": 0.5}),
        ("iaptt", {"step_x": 0.1, "step_y": 0.5}),
    ],
)
def test_a_constant_schedule_is_a_number(name, settings):
    """To rounding: a loop may sum up steps that it knows to be alike."""
    ends = []
    for wrap in (
        lambda value: value,
        lambda value: value if value == 3 else bm.schedules.constant(value),
    ):
        problem = strongly_convex(3)
        for variable in problem.variables:
            variable.value = np.full(3, 0.3)
        given = {key: value if key == "p" else wrap(value) for key, value in settings.items()}
        problem.solve(method=name, max_iterations=20, tolerance=1e-13, **given)
        ends.append(np.concatenate(list(problem.solution.iterate.values())))
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-12)
