"""A certificate ends in time, and the lower level's own answer takes the place of one that it leaves."""

from __future__ import annotations

import time

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics.deadline import Deadline
from blomodel.certification import certifying
from blomodel.certification.certifying import certify_point
from blomodel.declare.point import Point
from blomodel.status import Status


def _problem() -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y), [x >= 0, x <= 2], lower)


@pytest.mark.parametrize("part", ["study", "find_bound", "_tolerated"])
def test_a_part_without_an_end_is_left(part, monkeypatch):
    def endless(*arguments: object) -> None:
        while True:
            pass

    monkeypatch.setattr(certifying, part, endless)
    problem, cut = _problem(), []
    point = Point.read(problem.levels, 0.5, 0.5, "test")
    began = time.perf_counter()
    found = certify_point(
        problem, point, tolerance=1e-6, deadline=Deadline.after(0.3), when_cut=lambda: cut.append(1)
    )
    assert time.perf_counter() - began < 8.0  # on a busy machine
    assert found.accepted and cut
    assert found.claim in (Status.FEASIBLE, Status.LOCALLY_OPTIMAL, Status.OPTIMAL)
    assert part != "study" or (found.claim is Status.FEASIBLE and found.stationarity is None)


def test_the_own_answer_takes_the_place_of_a_last_hope():
    problem = _problem()
    wrong = Point.read(problem.levels, 0.5, 0.0, "test")
    refused = certify_point(problem, wrong, tolerance=1e-6, adopts_exact_answer=True)
    assert not refused.accepted and refused.claim is Status.FAILED
    found = certify_point(problem, wrong, tolerance=1e-6, adopts_exact_answer=True, is_last_hope=True)
    assert found.accepted and np.isclose(found.y, 0.5) and np.isclose(found.objective, 0.75)
    assert found.claim is Status.FEASIBLE or found.stationarity is not None
