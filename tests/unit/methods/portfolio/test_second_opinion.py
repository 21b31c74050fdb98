"""Descents that agree are doubted: by a path of the penalty, under a time limit by more descents."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.portfolio.answer_descents import AnswerDescents, Descents, descents_of
from blomodel.methods.portfolio.searches import SecondOpinion
from blomodel.methods.portfolio.situation import Situation


def inverse_portfolio(n=15, n_investors=30, seed=3):
    """Expected returns from what investors hold; around most starts nobody's holdings change."""
    draw = np.random.default_rng(seed)
    factors = draw.standard_normal((n, 4)) * 0.15
    covariance = factors @ factors.T + np.diag(draw.uniform(0.02, 0.06, n))
    returns = draw.uniform(0.02, 0.12, n)
    caps, care = draw.uniform(0.15, 0.4, (n_investors, n)), draw.uniform(1, 4, n_investors)
    mean = cp.Variable(n, name="mean")
    followers, misfit, w = [], 0, cp.Variable(n)
    for k in range(n_investors):
        risk = care[k] / 2 * cp.quad_form(w, covariance)
        cp.Problem(cp.Minimize(risk - returns @ w), [w >= 0, w <= caps[k], cp.sum(w) == 1]).solve(
            cp.CLARABEL
        )
        seen = w.value + 0.01 * draw.standard_normal(n)
        own = cp.Variable(n, name=f"w{k}", nonneg=True)
        risk = care[k] / 2 * cp.quad_form(own, cp.psd_wrap(covariance))
        rows = [own <= caps[k], cp.sum(own) == 1]
        followers.append(bm.Lower(cp.Minimize(risk - mean @ own), rows, variables=[own]))
        misfit += cp.sum_squares(own - seen)
    problem = bm.BilevelProblem(
        cp.Minimize(100 * misfit / n_investors), [mean >= 0, mean <= 0.3], followers
    )
    return problem, returns


def test_descents_that_agree_on_a_plateau_are_not_believed():
    problem, returns = inverse_portfolio()
    value = problem.solve(time_limit=30)
    assert value < problem.value_at(returns)  # it was three times as large
    assert problem.status == "locally_optimal"


def poisoned_ridge(n=60, m=15, seed=5):
    """A convex function of x is maximised over a box: local maxima at very many corners."""
    draw = np.random.default_rng(seed)
    A, true = draw.standard_normal((n + 40, m)), draw.standard_normal(m)
    target = A @ true + 0.5 * draw.standard_normal(n + 40)
    a, b, c, d = A[:n], A[n:], target[:n], target[n:]
    x, w = cp.Variable(n, name="shift"), cp.Variable(m, name="w")
    lower = bm.Lower(
        cp.Minimize(cp.sum_squares(a @ w - c - x) / n + 0.05 * cp.sum_squares(w)), variables=[w]
    )
    problem = bm.BilevelProblem(cp.Maximize(cp.sum_squares(b @ w - d) / 40), [x >= -1, x <= 1], lower)
    answers = b @ np.linalg.solve(a.T @ a / n + 0.05 * np.eye(m), a.T / n)
    return problem, lambda corner: answers @ (c + corner) - d, answers


def best_corner(missed, answers, n, n_starts=300):
    """By steps to the corner that the slope points to."""
    draw, best = np.random.default_rng(0), 0.0
    for _ in range(n_starts):
        corner = draw.choice([-1.0, 1.0], n)
        while True:
            further = np.where(answers.T @ missed(corner) >= 0, 1.0, -1.0)
            if np.array_equal(corner, further):
                break
            corner = further
        best = max(best, float((missed(corner) ** 2).sum() / 40))
    return best


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 11, 13])
def test_a_second_look_finds_the_better_corner(seed):
    problem, missed, answers = poisoned_ridge(seed=seed)
    assert problem.solve(time_limit=60) >= best_corner(missed, answers, 60) * (1 - 1e-3)


def test_a_second_look_has_other_starts_each_time(monkeypatch):
    problem, _, _ = poisoned_ridge(n=20, m=4)
    looks = []
    look_again = AnswerDescents.look_again

    def noted(step, run):
        before = run.best().value
        look_again(step, run)
        looks.append((descents_of(run).n_looks, before - run.best().value))

    monkeypatch.setattr(AnswerDescents, "look_again", noted)
    problem.solve()
    assert not looks  # without a limit effort is counted in levels
    problem.solve(time_limit=20)
    assert [number for number, _ in looks] == list(range(1, len(looks) + 1))


def test_when_a_second_opinion_is_asked():
    few = inverse_portfolio(n=4, n_investors=1)[0].model
    assert SecondOpinion.consider(Situation(few, np.empty(0))) is None
    free = poisoned_ridge()[0].model
    assert SecondOpinion.consider(Situation(free, np.empty(0))) is None
    many = inverse_portfolio()[0].model
    assert isinstance(SecondOpinion.consider(Situation(many, np.empty(0))), SecondOpinion)
    assert not Descents(1000, 15).are_enough
