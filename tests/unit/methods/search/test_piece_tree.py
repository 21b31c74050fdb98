"""The tree over exact pieces of a run: it goes on, bounds are safe, points are kept at once."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics.deadline import Deadline
from blomodel.methods.run.run import Run, StopRun
from blomodel.methods.search.piece_tree import piece_tree


def bilevel_lp(n, seed):
    """Upper min c'x + d'y on a box; lower max q'y over rows that x loosens."""
    draw = np.random.default_rng(seed)
    A, B = draw.uniform(0, 1, (n, n)), draw.uniform(0, 0.5, (n, n))
    b, c, q = draw.uniform(1, 2, n), draw.uniform(0.5, 1.5, n), draw.uniform(0.5, 1.5, n)
    d = draw.uniform(-1, 1, n)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(cp.Maximize(q @ y), [A @ y <= b + B @ x, y >= 0, y <= 5], variables=[y])
    return bm.BilevelProblem(cp.Minimize(c @ x + d @ y), [x >= 0, x <= 2], lower)


def new_run(problem, **changes):
    return Run(problem.model, problem.parameter_values(), None, 1e-6, 0, **changes)


def test_portions_add_up_to_one_tree():
    whole, parts = new_run(bilevel_lp(6, 1)), new_run(bilevel_lp(6, 1))
    assert piece_tree(whole).go_on(whole, np.inf)
    bounds, settled = [], False
    while not settled:
        settled = piece_tree(parts).go_on(parts, 3)
        bounds.append(parts.bound)
        assert parts.bound <= whole.best().value + 1e-9
        assert len(bounds) < 1000
    assert len(bounds) > 2
    assert bounds == sorted(bounds)
    assert piece_tree(whole).tree.nodes == piece_tree(parts).tree.nodes
    assert parts.best().value == pytest.approx(whole.best().value, abs=1e-8)


def test_what_a_limit_interrupts_stays_open():
    problem = bilevel_lp(8, 0)
    run = new_run(problem, deadline=Deadline.after(0.02))
    with pytest.raises(StopRun):
        while True:
            piece_tree(run).go_on(run, 1)
    run.deadline = Deadline.after(60)
    assert piece_tree(run).go_on(run, np.inf)
    other = new_run(bilevel_lp(8, 0))
    piece_tree(other).go_on(other, np.inf)
    assert run.best().value == pytest.approx(other.best().value, abs=1e-8)


def test_points_of_others_cut_off():
    problem = bilevel_lp(8, 2)
    alone, helped = new_run(problem), new_run(bilevel_lp(8, 2))
    piece_tree(alone).go_on(alone, np.inf)
    best = alone.best()
    helped.propose(best.x, best.y, "elsewhere")
    piece_tree(helped).go_on(helped, np.inf)
    assert piece_tree(helped).tree.nodes <= piece_tree(alone).tree.nodes
    assert helped.bound == pytest.approx(best.value, abs=1e-7)
