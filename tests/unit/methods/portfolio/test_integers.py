"""The steps of ``auto`` for integers, each alone."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.portfolio import integers
from blomodel.methods.portfolio.plan import Plan, plan_for_one
from blomodel.methods.run.run import Run


def moore_and_bard():
    x = cp.Variable(name="x", integer=True, bounds=[0, 10])
    y = cp.Variable(name="y", integer=True, nonneg=True)
    below = [-25 * x + 20 * y <= 30, x + 2 * y <= 10, 2 * x - y <= 15, 2 * x + 10 * y >= 15]
    return bm.BilevelProblem(
        cp.Minimize(-x - 10 * y), [], bm.Lower(cp.Minimize(y), below, variables=[y])
    )


def tracking():
    """x whole, z real, and a lower level that is strictly convex: every x is easy."""
    x, z = cp.Variable(2, name="x", integer=True, bounds=[-2, 2]), cp.Variable(name="z", bounds=[-1, 1])
    y = cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x - 0.3 * z)), [y <= 1.5], variables=[y])
    f = cp.sum_squares(y - np.array([0.8, 1.7])) + 0.1 * cp.sum_squares(x) + 0.2 * z**2
    return bm.BilevelProblem(cp.Minimize(f), [], lower)


def best_of_tracking():
    best = np.inf
    for a in range(-2, 3):
        for b in range(-2, 3):
            for z in np.linspace(-1, 1, 4001):
                y = np.minimum(np.array([a, b]) + 0.3 * z, 1.5)
                value = ((y - [0.8, 1.7]) ** 2).sum() + 0.1 * (a * a + b * b) + 0.2 * z * z
                best = min(best, value)
    return best


def run_of(problem):
    return Run(problem.model, np.zeros(0), None, 1e-6, 0)


def step_of(problem, kind):
    plan = plan_for_one(problem.model, np.zeros(0))
    return next(step for step in plan.steps if isinstance(step, kind))


def test_the_plan_says_how_large_it_may_get():
    plan = " ".join(str(tracking().plan()).split())
    assert "25 combinations of integers" in plan
    assert "2 upper variables be whole" in plan
    assert "all others: they move every variable continuously" in plan
    assert "lower level is solved as a mixed-integer program" in " ".join(
        str(moore_and_bard().plan()).split()
    )


@pytest.mark.parametrize("kind", [integers.RoundedRelaxation, integers.EveryInteger])
def test_each_step_alone_finds_the_best_point(kind):
    problem = tracking()
    run = run_of(problem)
    Plan((step_of(problem, kind),)).run(run)
    best = run.best()
    assert best.value == pytest.approx(best_of_tracking(), abs=1e-4)
    assert np.array_equal(best.x[:2], np.round(best.x[:2]))
    assert run.bound <= best.value + 1e-9
    if kind is integers.EveryInteger:
        assert run.bound >= best.value - 1e-4 * (1 + abs(best.value))


def test_without_scip_few_integers_are_proven_all_the_same(monkeypatch):
    monkeypatch.setattr(integers, "is_installed", lambda: False)
    problem = moore_and_bard()
    assert "it needs SCIP" in str(problem.plan())
    assert problem.solve() == pytest.approx(-22.0)
    assert problem.status == "optimal"
    assert "all 11 combinations" in problem.certificate.bound_source


def test_a_relaxation_below_is_no_bound():
    # Its optimum is -18, and the integers reach -22.
    problem = moore_and_bard()
    run = run_of(problem)
    step_of(problem, integers.RoundedRelaxation).run(run, 0)
    assert run.bound == -np.inf


def test_no_allowed_integers():
    x, y = cp.Variable(2, boolean=True, name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - cp.sum(x)) ** 2), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y), [2 * cp.sum(x) == 1], lower)
    problem.solve()
    assert problem.status == "infeasible"


def test_points_that_are_not_whole_are_refused():
    problem = moore_and_bard()
    x, y = problem.variables
    refused = bm.certify(problem, {x: 2.5}, {y: 2.0})
    assert not refused.accepted
    assert any("must be whole" in reason for reason in refused.reasons)
    assert bm.certify(problem, {x: 2.0}, {y: 2.0}).accepted
    worse = bm.certify(problem, {x: 4.0}, {y: 3.0})
    assert any("can do better" in reason for reason in worse.reasons)


def test_no_claim_where_the_choice_among_lower_answers_has_no_end():
    # Every y >= x is a lower answer, and f falls with y.
    for integer in (True, False):
        x, y = cp.Variable(name="x", integer=integer, bounds=[0, 5]), cp.Variable(name="y")
        lower = bm.Lower(cp.Minimize(0 * y), [y >= x], variables=[y])
        problem = bm.BilevelProblem(cp.Minimize(x - y), [], lower)
        problem.solve()
        assert problem.status != "optimal"
    y = cp.Variable(name="y")
    alone = bm.BilevelProblem(cp.Minimize(-y), [], bm.Lower(cp.Minimize(0 * y), [y >= 1], variables=[y]))
    alone.solve()
    assert alone.status != "optimal"


def test_values_without_a_lower_answer_are_left_out_of_the_proof(monkeypatch):
    monkeypatch.setattr(integers, "is_installed", lambda: False)
    x, y = cp.Variable(2, boolean=True, name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 3) ** 2), [y <= 2 - x[0], y >= 3 * x[1] - 1.5], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(-x[0] - 2 * x[1] + y), [], lower)
    # x = (1, 1) leaves y between 1.5 and 1; (0, 1) with y = 2 and (1, 0) with y = 1 are left.
    assert problem.solve() == pytest.approx(0.0, abs=1e-6)
    assert problem.status == "optimal"
