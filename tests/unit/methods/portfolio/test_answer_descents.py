"""The step of auto that descends on phi: starts, agreement, and who waits for it."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.portfolio.answer_descents import (
    AnswerDescents,
    Descents,
    are_confirmed,
    descents_of,
    may_wait,
)
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import diagonal, spread_by_scale


def _ridge(n):
    draw = np.random.default_rng(0)
    a, b = draw.standard_normal((2, 2 * n, n))
    c, d = a.sum(axis=1) + draw.standard_normal(2 * n), b.sum(axis=1)
    x, w = cp.Variable(name="x"), cp.Variable(n, name="w")
    g = cp.sum_squares(a @ w - c) + cp.exp(x) * cp.sum_squares(w)
    f = cp.sum_squares(b @ w - d)
    lower = bm.Lower(cp.Minimize(g), variables=[w])
    return bm.BilevelProblem(cp.Minimize(f), [x >= -8, x <= 8], lower)


def _run(problem):
    run = Run(problem.model, problem.parameter_values(), None, 1e-6, 0)
    step = AnswerDescents.consider(Situation(problem.model, run.p))
    step.run(run, 0)
    return run


def test_agreeing_descents_confirm_each_other_and_let_others_wait():
    run = _run(_ridge(40))
    found = descents_of(run)
    assert found.n_agreeing >= 3 and found.is_smooth
    assert are_confirmed(run)
    assert may_wait(run, 0) and not may_wait(run, 2)


def test_small_problems_run_everything():
    run = _run(_ridge(3))
    assert descents_of(run).n_agreeing >= 3
    assert not are_confirmed(run)
    assert not may_wait(run, 0)


def test_a_level_that_gains_next_to_nothing_has_stalled():
    descents = Descents(100, 50, True, ends=[1.0], all_ends=[1.0, 1.2, 1.4])
    descents.note_level(1.01)
    assert descents.has_stalled
    descents.note_level(1.15)
    assert not descents.has_stalled


def test_a_long_step_onto_a_plateau_is_looked_behind():
    price, amount = cp.Variable(name="price"), cp.Variable(name="amount")
    lower = bm.Lower(
        cp.Maximize(8 * cp.log(1 + amount) - price * amount), [amount >= 0], variables=[amount]
    )
    upper = cp.Maximize(price * amount - amount**2)
    problem = bm.BilevelProblem(upper, [price >= 0.5, price <= 1000], lower)
    run = _run(problem)
    prices = np.linspace(0.5, 8, 200001)
    amounts = np.maximum(8 / prices - 1, 0)
    assert -run.best().value == pytest.approx((prices * amounts - amounts**2).max(), rel=1e-8)


def test_starts_are_spread_over_decades():
    bounds = np.array([1e-4, -1.0, 0.0]), np.array([1e4, 1.0, 100.0])
    points = np.array(spread_by_scale(bounds, np.zeros(3), 32, 0))
    assert ((points >= bounds[0]) & (points <= bounds[1])).all()
    assert 0.3 < (points[:, 0] < 1).mean() < 0.7  # as many below one as above
    assert (points[:, 2] < 1).any()  # a range that begins at zero is also met near zero
    middle, *_ = diagonal(bounds, np.zeros(3), 5, 0)
    assert middle == pytest.approx([1.0, 0.0, 50.0])


def test_descents_that_were_broken_off_at_one_point_have_ended_there():
    descents, at_kink = Descents(100, 2), np.array([-5.6195, -9.0])
    assert not descents.note_broken_off(0.00717390, at_kink)
    assert not descents.note_broken_off(0.00717390, at_kink + 0.1)  # as good, but another point
    assert not descents.note_broken_off(0.00719, at_kink + 1e-6)  # at the point, but worse
    assert not descents.ends
    assert descents.note_broken_off(0.00717391, at_kink + 1e-6)
    assert descents.n_agreeing == 2
    assert descents.note_broken_off(0.00717391, at_kink)
    assert descents.n_agreeing == 3 and descents.are_unanimous
