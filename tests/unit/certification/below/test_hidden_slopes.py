"""A slope of g that no tolerance sees still has one answer, and no claim is made for another one."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.certification.below.free_directions import summands
from blomodel.certification.below.hidden_slopes import find_hidden_slope
from blomodel.certification.below.lower_check import check_lower
from blomodel.certification.judged import Judged
from blomodel.declare.point import Point

STRONG = ("optimal", "locally_optimal")


def flat(kind, s):
    """Lower levels that are indifferent along one direction but for a slope; f wants the other end."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    total = cp.sum(y)
    if kind == "square":
        g, wish = cp.pos(y[0] - x) ** 2 + y[1] ** 2, y[0]
    elif kind == "kinks":
        g, wish = cp.abs(y[0] - x) + cp.abs(y[0] + 5) + cp.abs(y[1]), y[0]
    elif kind == "difference":
        g, wish = cp.square(y[0] - y[1] - x), total
    elif kind == "logistic":
        g, wish = cp.logistic(y[0] - y[1] - x) - 0.5 * (y[0] - y[1]), total
    else:  # linear, with a row that holds the large part
        g, wish = y[1] - y[0], total
    rows = [y >= -5, y <= 5] + ([y[1] >= y[0] + x] if kind == "linear" else [])
    lower = bm.Lower(cp.Minimize(g + s * wish), rows, variables=[y])
    return bm.BilevelProblem(cp.Maximize(wish - x), [0 <= x, x <= 1], lower)


def slope_at(problem, x, y):
    """In the units that were stated."""
    judged = Judged.of(problem)
    at = judged.forward(Point.read(problem.levels, x, np.array(y), "test"))
    found = find_hidden_slope(judged, at.x, at.y, check_lower(judged.model, judged.p, at.x, at.y), 1e-6)
    return None if found is None else replace(found, y=judged.invert_y(at, found.y))


SLOW = pytest.mark.slow
ENDS = {
    "square": ([0.0, 0.0], [-5.0, 0.0]),
    "kinks": ([0.0, 0.0], [-5.0, 0.0]),
    "difference": ([5.0, 5.0], [-5.0, -5.0]),
    "logistic": ([5.0, 5.0], [-5.0, -5.0]),
    "linear": ([5.0, 5.0], [-5.0, -5.0]),
}


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("s", [1e-9, 1e-13, 1e-18])
def test_the_slope_leads_to_the_other_end(kind, s):
    there, end = ENDS[kind]
    found = slope_at(flat(kind, s), 0.0, there)
    assert found is not None and found.slope < 0
    assert found.y == pytest.approx(end, abs=1e-6)
    assert slope_at(flat(kind, s), 0.0, end) is None


@pytest.mark.parametrize("kind", ENDS)
def test_without_the_slope_all_answers_are_answers(kind):
    problem = flat(kind, 0.0)
    for y in ENDS[kind]:
        assert slope_at(problem, 0.0, y) is None
    assert bm.certify(problem, x=0, y=ENDS[kind][0]).claim in STRONG


@pytest.mark.parametrize("kind", [pytest.param(k, marks=SLOW if k == "square" else ()) for k in ENDS])
@pytest.mark.parametrize("s", [1e-12, pytest.param(1e-15, marks=pytest.mark.slow)])
def test_no_strong_claim_for_the_wrong_end(kind, s):
    problem = flat(kind, s)
    claim = bm.certify(problem, x=0, y=ENDS[kind][0]).claim
    assert claim not in STRONG
    value, truth = problem.solve(), flat(kind, 1.0).solve()
    assert problem.status not in STRONG or value == pytest.approx(truth, abs=1e-3)


@pytest.mark.slow
def test_a_tie_is_undone_by_a_step_of_x_but_not_beyond_its_bound():
    x, y = cp.Variable(), cp.Variable()
    lower = bm.Lower(cp.Minimize((x - 2) * y), [y >= 0, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(x * y), [x >= 0, x <= 5], lower)
    assert slope_at(problem, 2 + 1e-10, [1.0]) is None
    tie = bm.Lower(cp.Minimize((1e-15 + x) * y), [y >= 0, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(-y), [x >= 0, x <= 1], tie)
    assert slope_at(problem, 4e-11, [1.0]) is not None
    assert problem.solve() == pytest.approx(0.0, abs=1e-6) or problem.status not in STRONG


def several_ties(n_followers, further=0.0):
    """Customers who are all indifferent at one pair of prices; they buy one of three at the most."""
    rng = np.random.default_rng(0)
    price, at = cp.Variable(2, name="price"), np.array([1.3, 2.7])
    followers, sales = [], 0
    for number in range(n_followers):
        weights = rng.uniform(0.5, 2.0, (3, 2))
        buys = cp.Variable(3, name=f"buys{number}", nonneg=True)
        cost = (weights @ price - weights @ at) @ buys + further * buys[0]
        followers.append(bm.Lower(cp.Minimize(cost), [cp.sum(buys) <= 1], variables=[buys]))
        sales = sales + cp.sum(weights @ price) / 6 * cp.sum(buys)
    return bm.BilevelProblem(cp.Maximize(sales), [price >= 0, price <= 9], followers), at


@pytest.mark.parametrize("error", [0.0, 1e-13, 1e-10, 1e-8])
def test_several_ties_at_one_x_are_undone_by_one_step(error):
    problem, at = several_ties(8)
    x = at + error * np.array([1.0, -0.6])
    y = np.tile([0.2, 0.5, 0.3], 8)
    assert slope_at(problem, x, y) is None


@pytest.mark.parametrize("further", [1e-9, 1e-12])
def test_a_slope_beside_several_ties_is_found(further):
    problem, at = several_ties(8, further)
    found = slope_at(problem, at, np.tile([1.0, 0.0, 0.0], 8))
    assert found is not None and found.slope < 0


def testsummands_add_up():
    y = cp.Variable(3)
    g = 2.0 * (cp.sum_squares(y) - 0.5 * (cp.sum(y - 1.0) + 3 * cp.sum(y + y))) + 1e-9 * y[0]
    parts = summands(g)
    y.value = np.array([0.3, -1.2, 2.5])
    assert len(parts) >= 4
    assert sum(float(part.value) for part in parts) == pytest.approx(float(g.value), rel=1e-12)
