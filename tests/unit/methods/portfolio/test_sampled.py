"""First-week models that searches by derivatives miss: phi is flat, jumps or has kinks."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def log_price(high):
    t, e = cp.Variable(), cp.Variable()
    lower = bm.Lower(cp.Maximize(8 * cp.log(1 + e) - t * e), [e >= 0], variables=[e])
    return bm.BilevelProblem(cp.Maximize(t * e - e**2), [t >= 0.5, t <= high], lower)


@pytest.mark.parametrize("high", [10, 50, 1000])
def test_a_price_over_a_range_in_which_nothing_is_sold_almost_everywhere(high):
    problem = log_price(high)
    assert problem.solve() == pytest.approx(3.0, abs=1e-6)  # e = 8 / t - 1


def test_a_price_without_an_upper_bound():
    t, e = cp.Variable(), cp.Variable()
    lower = bm.Lower(cp.Maximize(8 * cp.log(1 + e) - t * e), [e >= 0], variables=[e])
    problem = bm.BilevelProblem(cp.Maximize(t * e - e**2), [t >= 0.5], lower)
    assert problem.solve() == pytest.approx(3.0, abs=1e-6)


def test_two_goods_with_a_shared_capacity():
    t, e = cp.Variable(2), cp.Variable(2)
    gain = 8.51 * cp.log(1 + e[0]) + 6.47 * cp.log(1 + e[1]) - t @ e
    lower = bm.Lower(cp.Maximize(gain), [e >= 0, cp.sum(e) <= 1.12], variables=[e])
    f = t @ e - 0.15 * cp.square(cp.sum(e))
    problem = bm.BilevelProblem(cp.Maximize(f), [t >= 0.2, t <= 40], lower)
    # The capacity binds at any optimum, where the seller takes prices up to marginal utility.
    first = np.linspace(0, 1.12, 200001)
    second = 1.12 - first
    best = (8.51 * first / (1 + first) + 6.47 * second / (1 + second)).max() - 0.15 * 1.12**2
    assert problem.solve() == pytest.approx(best, abs=1e-6)


def test_a_tie_between_two_wells():
    x, y = cp.Variable(), cp.Variable()
    g = y**4 / 4 - y**2 / 2 + (x - 0.3) * y
    lower = bm.Lower(cp.Minimize(g), [y >= -3, y <= 3], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 0.5) ** 2 + (y - 1) ** 2), [x >= -2, x <= 2], lower)
    assert problem.solve() == pytest.approx(0.04, abs=1e-8)
    assert x.value == pytest.approx(0.3, abs=1e-9)


def test_shares_of_a_logit_demand_written_as_products():
    price, share = cp.Variable(), cp.Variable(3)
    entropy = sum(share[k] * cp.log(share[k]) for k in range(3))
    utility = np.array([0.3, 0.7, 0.5])
    lower = bm.Lower(
        cp.Minimize(entropy - utility @ share + price * share[0]),
        [share >= 1e-9, cp.sum(share) == 1],
        variables=[share],
    )
    problem = bm.BilevelProblem(cp.Maximize((price - 0.1) * share[0]), [price >= 0, price <= 20], lower)
    grid = np.linspace(0, 20, 200001)
    weight = np.exp(utility[0] - grid)
    best = ((grid - 0.1) * weight / (weight + np.exp(utility[1:]).sum())).max()
    assert problem.model.is_convex_below
    assert problem.solve() == pytest.approx(best, abs=1e-7)


def test_the_plan_says_where_a_sample_is_taken():
    names = [step.name for step in log_price(10).plan().steps]
    assert "sample of phi" in names
    x, y = cp.Variable(4), cp.Variable()
    lower = bm.Lower(cp.Minimize(cp.exp(y) - cp.sum(x) * y), [], variables=[y])
    plan = bm.BilevelProblem(cp.Minimize(cp.sum_squares(x) - y), [x >= 0.1, x <= 1], lower).plan()
    assert "sample of phi" in [omission.step for omission in plan.omitted]


def test_a_good_that_is_not_sold_far_from_the_best_price():
    t, e = cp.Variable(3), cp.Variable(3)
    worth, cost = np.array([3.89, 2.29, 2.12]), 0.42
    lower = bm.Lower(cp.Maximize(worth @ cp.log(1 + e) - t @ e), [e >= 0], variables=[e])
    f = t @ e - cost * cp.square(cp.sum(e))
    problem = bm.BilevelProblem(cp.Maximize(f), [t >= 0.2, t <= 200], lower)
    # In terms of what is sold: a concave program by hand, with t = worth / (1 + e).
    sold = cp.Variable(3, nonneg=True)
    by_hand = cp.sum(worth - cp.multiply(worth, cp.inv_pos(1 + sold))) - cost * cp.square(cp.sum(sold))
    assert problem.solve() == pytest.approx(cp.Problem(cp.Maximize(by_hand)).solve(), abs=1e-5)
