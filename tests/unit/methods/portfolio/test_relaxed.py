"""Relaxed complementarity as a member of auto: known optima, deadlines, absence."""

from __future__ import annotations

import time

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics.deadline import Deadline
from blomodel.methods.portfolio.relaxed import RelaxedComplementarity
from blomodel.methods.run.run import Run, StopRun
from blomodel.methods.search import relaxed_path
from blomodel.methods.search.relaxed_path import RelaxedPath
from blomodel.solvers.direct import is_available

needs_ipopt = pytest.mark.skipif(not is_available(), reason="IPOPT is not installed")


def run_of(problem: bm.BilevelProblem, seconds: float | None = None) -> Run:
    model = problem.model
    return Run(
        model=model, p=np.zeros(0), start=None, tolerance=1e-6, seed=0, deadline=Deadline.after(seconds)
    )


def linear_toll() -> tuple[bm.BilevelProblem, float]:
    """One toll road: the follower takes it up to a toll of 3, where it is indifferent."""
    toll, flow = cp.Variable(name="toll"), cp.Variable(2, name="flow", nonneg=True)
    lower = bm.Lower(
        cp.Minimize((2 + toll) * flow[0] + 5 * flow[1]), [cp.sum(flow) == 1], variables=[flow]
    )
    return bm.BilevelProblem(cp.Maximize(toll * flow[0]), [toll >= 0, toll <= 10], lower), 3.0


def clipped_answer() -> tuple[bm.BilevelProblem, float]:
    """y = min(max(x, 0), 1) below; (x - 2)^2 + (y - 0.5)^2 is least at x = 2, y = 1."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 0, y <= 1], variables=[y])
    f = (x - 2) ** 2 + (y - 0.5) ** 2
    return bm.BilevelProblem(cp.Minimize(f), [x >= -3, x <= 3], lower), 0.25


def shrunk_answer() -> tuple[bm.BilevelProblem, float]:
    """A lasso of one number: y = max(2 - x, 0), and |y - 1| above has its zero at x = 1."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 2) ** 2 / 2 + x * cp.abs(y)), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.abs(y - 1) + 0.1 * x), [x >= 0, x <= 5], lower), 0.1


@needs_ipopt
@pytest.mark.parametrize("make", [linear_toll, clipped_answer, shrunk_answer])
def test_known_optima_are_found_exactly(make):
    problem, value = make()
    run = run_of(problem)
    RelaxedComplementarity(1).run(run, 0)
    best = run.best()
    assert best is not None
    assert abs(best.value) == pytest.approx(value, abs=1e-6)


def bilevel_qp(n: int) -> bm.BilevelProblem:
    r = np.random.default_rng(0)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    M, C, A = (r.standard_normal((n, n)) / np.sqrt(n) for _ in range(3))
    g = cp.sum_squares(y) + cp.sum_squares(M @ y) + (C @ x) @ y
    lower = bm.Lower(cp.Minimize(g), [A @ y <= 0.5 + 0.3 * C @ x], variables=[y])
    f = cp.sum_squares(x - 1) + cp.sum_squares(y - r.standard_normal(n))
    return bm.BilevelProblem(cp.Minimize(f), [x >= -5, x <= 5], lower)


@needs_ipopt
def test_a_limit_is_kept_and_leaves_a_point():
    run = run_of(bilevel_qp(150))
    path = RelaxedPath(run)
    run.solve_lower(np.zeros(150), np.zeros(150))
    run.deadline = Deadline.after(1.0)
    began = time.process_time()  # a busy machine gives this process a part of each second only
    with pytest.raises(StopRun):
        for x in np.random.default_rng(0).uniform(-5, 5, (100, 150)):
            path.follow(x)
    assert time.process_time() - began < 1.0 + 0.25
    assert run.best() is not None


def test_without_ipopt_the_plan_says_so_and_the_rest_works(monkeypatch):
    monkeypatch.setattr(relaxed_path, "is_available", lambda: False)
    problem, value = clipped_answer()
    omitted = {omission.step: omission.reason for omission in problem.plan().omitted}
    assert "cyipopt" in omitted["relaxed complementarity"]
    problem.solve()
    assert problem.value == pytest.approx(value, abs=1e-6)


@needs_ipopt
def test_size_decides_the_place_in_the_plan_only():
    small, large = clipped_answer()[0].plan(), bilevel_qp(60).plan()
    for plan in (small, large):
        assert sum(step.family == "relaxed complementarity" for step in plan.steps) == 1
