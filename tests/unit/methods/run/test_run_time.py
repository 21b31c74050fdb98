"""The time of a run: one deadline decides, and what asks the lower level gets it."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.methods.run.run import Run, StopRun


def two_wells() -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum((y**2 - 1) ** 2) - x * y[0]), [y <= 2], variables=[y])
    return bm.BilevelProblem(cp.Minimize(x**2 + y[0]), [-1 <= x, x <= 1], lower)


def a_run(deadline: Deadline) -> Run:
    model = two_wells().model
    return Run(model=model, p=np.empty(0), start=None, tolerance=1e-6, seed=0, deadline=deadline)


def test_without_a_limit():
    run = a_run(NEVER)
    assert run.time_limit is None and run.remaining == np.inf
    run.check_limits()


def test_with_a_limit():
    run = a_run(Deadline.after(100.0))
    assert run.time_limit == pytest.approx(100.0, abs=0.5)
    assert run.on(run.model, None).deadline == run.deadline
    run.deadline = Deadline.after(-1.0)
    with pytest.raises(StopRun, match="time limit"):
        run.check_limits()


def test_late_answers_of_a_nonconvex_lower_level_take_the_fewest_searches():
    x, near = np.array([0.3]), np.zeros(2)

    def searches(deadline: Deadline) -> int:
        answer, _ = a_run(deadline).solve_lower(x, near)
        return int(answer.solver.split()[0])

    assert searches(Deadline.after(-1.0)) < searches(NEVER)
