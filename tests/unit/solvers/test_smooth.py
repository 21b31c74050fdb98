"""SLSQP on programs given as callables: it ends in time, since none of its steps can be stopped."""

from __future__ import annotations

import time

import numpy as np
import pytest

from blomodel.basics.deadline import Deadline, ending
from blomodel.solvers.smooth import SmoothProgram, minimise_smooth


def distance(n: int, seconds: float = 0.0) -> SmoothProgram:
    """The point of a plane that is nearest to (1, ..., 1); each value takes so long."""

    def value(z: np.ndarray) -> float:
        time.sleep(seconds)
        return float(((z - 1) ** 2).sum())

    return SmoothProgram(
        value=value,
        gradient=lambda z: 2 * (z - 1),
        inequalities=lambda z: np.array([z.sum() - 1]),
        inequalities_jacobian=lambda z: np.ones((1, n)),
        equalities=lambda z: np.zeros(0),
        equalities_jacobian=lambda z: np.zeros((0, n)),
        bounds=(np.full(n, -9.0), np.full(n, 9.0)),
    )


def test_a_program_is_solved() -> None:
    with ending(Deadline.after(60.0)):
        assert minimise_smooth(distance(4), np.zeros(4)) == pytest.approx(np.full(4, 0.25), abs=1e-6)


def test_no_step_is_begun_that_would_end_too_late() -> None:
    n = 700  # a step takes a second or two
    minimise_smooth(distance(2), np.zeros(2))  # SciPy is imported by the first one
    began = time.perf_counter()
    with ending(Deadline.after(0.2)):
        assert np.array_equal(minimise_smooth(distance(n), np.zeros(n)), np.zeros(n))
    assert time.perf_counter() - began < 0.2


def test_steps_that_take_longer_than_was_guessed_are_measured() -> None:
    began = time.perf_counter()
    with ending(Deadline.after(0.5)):
        assert np.array_equal(minimise_smooth(distance(4, seconds=0.3), np.zeros(4)), np.zeros(4))
    assert time.perf_counter() - began < 0.8
