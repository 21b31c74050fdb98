"""Loops that begin again with smaller steps where they diverge."""

from __future__ import annotations

import numpy as np
import pytest
from smooth_problems import new_run, quadratic

from blomodel.methods.first_order.constrained import RESTARTS, iterate_safely


def run_loop(largest, *, has_given_steps):
    """A loop that has no numbers where its step is larger than ``largest``."""
    run, point, steps = new_run(quadratic()[0]), np.zeros(1), np.ones(2)

    def loop(n):
        point[:] = 1.0 if steps[0] <= largest else np.nan
        return 0.0 if steps[0] <= largest else float("nan")

    iterate_safely(
        run,
        loop,
        dict,
        state=(point,),
        steps=steps,
        max_iterations=5,
        is_settled=lambda: False,
        has_given_steps=has_given_steps,
    )
    return run, point, steps


@pytest.mark.parametrize("has_given_steps", [False, True])
def test_a_step_is_quartered_until_it_works_and_a_given_one_is_named(has_given_steps):
    run, point, steps = run_loop(0.1, has_given_steps=has_given_steps)
    assert steps[0] == 0.25**2
    assert point[0] == 1.0
    notes = [note for note in run.notes if "steps that were given" in note]
    assert [note.split()[-4] for note in notes] == (["0.25", "0.0625"] if has_given_steps else [])


def test_the_point_stays_where_the_last_attempt_ended():
    run, point, steps = run_loop(0.0, has_given_steps=False)
    assert np.isnan(point[0])
    assert steps[0] == 0.25 ** (RESTARTS - 1)
    assert run.diverged_at == run.iterations
    assert any("every step size" in note for note in run.notes)
