"""Trees over a part of the pairs lead from a poor point to the optimum, step by step."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics.deadline import Deadline
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.step import Outlook
from blomodel.methods.portfolio.trees import TreesAroundTheBest
from blomodel.methods.run.run import Run
from blomodel.methods.search.neighbourhoods import FEWEST_OPEN, Neighbourhoods, neighbourhoods

N = 15
NODES = 40  # too few for the tree over all pairs


def linear(n=N, seed=1):
    draw = np.random.default_rng(seed)
    A, B = draw.uniform(0, 1, (n, n)), draw.uniform(0, 0.5, (n, n))
    b, c = draw.uniform(1, 2, n), draw.uniform(0.5, 1.5, n)
    d, q = draw.uniform(-1, 1, n), draw.uniform(0.5, 1.5, n)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(cp.Maximize(q @ y), [A @ y <= b + B @ x, y >= 0, y <= 5], variables=[y])
    return bm.BilevelProblem(cp.Minimize(c @ x + d @ y), [x >= 0, x <= 2], lower)


def begun(problem):
    """A run that knows one poor point."""
    run = Run(problem.model, problem.parameter_values(), None, 1e-6, 0)
    x = np.full(N, 2.0)
    answer = problem.model.lower_program.solve(x, run.p)
    run.propose(x, answer.y, "a corner of X")
    return run


def test_the_optimum_is_reached_in_steps():
    problem = linear()
    truth = problem.solve("kkt-mip")
    assert problem.status == "optimal"
    run = begun(problem)
    corner = run.best().value
    around = Neighbourhoods(run)
    around.search(run, rounds=30, nodes=NODES)
    assert around.tree.tree.nodes == 0  # the tree over all pairs was left alone
    assert truth < corner - 1
    assert run.best().value == pytest.approx(truth, abs=1e-6)


def test_how_many_pairs_are_open_follows_from_how_trees_end():
    run = begun(linear())
    around = Neighbourhoods(run)
    first = around.n_open
    around.search(run, rounds=2, nodes=1)
    assert FEWEST_OPEN <= around.n_open < first
    for _ in range(40):
        around.search(run, rounds=1, nodes=100_000)
    assert around.n_open == around.n_pairs


def test_without_a_point_there_is_nothing_to_search_around():
    problem = linear()
    run = Run(problem.model, problem.parameter_values(), None, 1e-6, 0)
    Neighbourhoods(run).search(run, rounds=3, nodes=NODES)
    assert run.best() is None


def test_the_step_is_for_many_pairs_and_goes_on_where_it_ended():
    assert TreesAroundTheBest.consider(Situation(linear().model, np.zeros(0))) is None
    many = linear(n=40)
    step = TreesAroundTheBest.consider(Situation(many.model, np.zeros(0)))
    assert isinstance(step, TreesAroundTheBest)
    assert step.name in [each.name for each in many.plan().steps]
    run = begun(linear())
    assert not step.is_wanted(run)
    run.deadline = Deadline.after(60.0)
    assert step.is_wanted(run)
    assert TreesAroundTheBest(N, 1000, True).run(run, 0) is Outlook.MORE
    assert neighbourhoods(run) is neighbourhoods(run)
