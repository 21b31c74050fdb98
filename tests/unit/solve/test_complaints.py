"""What users of other bilevel modelling tools complain about, one test or more for each complaint."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm

# Wrong sense: minimisation and maximisation mixed up at one of the levels


SENSES = {"min": cp.Minimize, "max": cp.Maximize}


@pytest.mark.parametrize(
    ("above", "below", "x_best", "y_best", "value"),
    [
        # The lower level takes y = x - 1 or y = x + 1, so that f is x + 2 or x - 2 on [0, 4].
        ("min", "min", 0.0, -1.0, 2.0),
        ("max", "min", 4.0, 3.0, 6.0),
        ("min", "max", 0.0, 1.0, -2.0),
        ("max", "max", 4.0, 5.0, 2.0),
    ],
)
def test_senses_of_both_levels(above, below, x_best, y_best, value):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    rows = [y >= x - 1, y <= x + 1]
    lower = bm.Lower(SENSES[below](y), rows, variables=[y])
    problem = bm.BilevelProblem(SENSES[above](3 * x - 2 * y), [0 <= x, x <= 4], lower)
    assert problem.solve() == pytest.approx(value, abs=1e-6)
    assert problem.status == "optimal"
    assert float(x.value) == pytest.approx(x_best, abs=1e-6)
    assert float(y.value) == pytest.approx(y_best, abs=1e-6)
    assert problem.certificate.lower_value == pytest.approx(y_best, abs=1e-6)
    # multipliers have cvxpy's signs: those of the lower level on its own at this x
    alone = cp.Variable()
    same = [alone >= x_best - 1, alone <= x_best + 1]
    cp.Problem(SENSES[below](alone), same).solve(solver=cp.CLARABEL)
    for row, expected in zip(rows, same, strict=True):
        assert float(row.dual_value) == pytest.approx(float(expected.dual_value), abs=1e-6)


@pytest.mark.parametrize("above", SENSES)
@pytest.mark.parametrize("below", SENSES)
def test_senses_with_curvature_and_another_method(above, below):
    # y = x/2 whether a convex quadratic is minimised or its negative maximised
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    sign = 1.0 if below == "min" else -1.0
    lower = bm.Lower(SENSES[below](sign * (y - x / 2) ** 2), [], variables=[y])
    f = (x - 1) ** 2 + (y - 2) ** 2
    f = f if above == "min" else -f
    problem = bm.BilevelProblem(SENSES[above](f), [-3 <= x, x <= 4], lower)
    best = 1.6  # of (x - 1)^2 + (x/2 - 2)^2
    for method in ("auto", "reduced-penalty"):
        problem.solve(method=method)
        assert float(x.value) == pytest.approx(best, abs=1e-3)
        value = (best - 1) ** 2 + (best / 2 - 2) ** 2
        assert problem.value == pytest.approx(value if above == "min" else -value, abs=1e-3)


# A point at which the follower would do something else


def stationary_trap():
    """The KKT point y = x/2 below is a maximum of the follower's objective; y = -1 or 1 is best."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(x * y - y * y), [-1 <= y, y <= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize(y**2 + (x - 1) ** 2), [-2 <= x, x <= 2], lower), x, y


def test_a_kkt_point_that_is_no_lower_minimum_is_refused():
    problem, _, _ = stationary_trap()
    certificate = bm.certify(problem, 0.8, 0.4)  # satisfies every KKT condition of the lower level
    assert not certificate.accepted
    assert certificate.lower_gap > 0.1
    assert "can do better" in certificate.reasons[0]


def test_the_answer_is_one_that_the_follower_would_give():
    problem, x, y = stationary_trap()
    problem.solve()
    assert float(y.value) == pytest.approx(-1.0, abs=1e-6)  # for x > 0
    assert float(x.value) == pytest.approx(1.0, abs=1e-4)
    assert problem.value == pytest.approx(1.0, abs=1e-4)


# Infeasible, and no word about why


def test_coupling_rows_that_cannot_hold_are_named():
    # A plant sets a price cap; the market answers with the cheapest supply, which is never clean.
    cap, dirty, clean = (cp.Variable(name=name) for name in ("cap", "dirty", "clean"))
    market = bm.Lower(
        cp.Minimize(2 * dirty + 3 * clean),
        [dirty + clean >= 5, dirty >= 0, clean >= 0, dirty <= cap],
        variables=[dirty, clean],
    )
    rows = [6 <= cap, cap <= 10, clean >= 2, dirty + clean <= 9]
    problem = bm.BilevelProblem(cp.Minimize(cap), rows, market)
    assert problem.solve() == np.inf
    assert problem.status == "infeasible"
    text = " ".join(problem.explain().split())
    assert "every lower answer violates an upper constraint" in text
    assert "upper constraint 2 <= clean, violated by 2 at best" in text
    # with a cap of at most 3 the market must buy clean supply, and all is well
    eased = bm.BilevelProblem(cp.Minimize(cap), [0 <= cap, cap <= 10, clean >= 2], market)
    assert eased.solve() == pytest.approx(0.0, abs=1e-6)


# The choice of a big M


def big_m_value(big_m):
    """The best value of the same problem by hand, with complementarity switched by a number M."""
    x, y, pressure = cp.Variable(), cp.Variable(), cp.Variable(2, nonneg=True)
    switch = cp.Variable(2, boolean=True)
    slack = cp.hstack([y - x, y - (1 - x)])
    rows = [0 <= x, x <= 1, y <= 2000, slack >= 0, cp.sum(pressure) == 1000]
    rows += [pressure <= big_m * switch, slack <= big_m * (1 - switch)]
    problem = cp.Problem(cp.Maximize(y - 3 * x), rows)
    problem.solve(solver=cp.HIGHS, presolve="off")  # which solves so small a problem by itself
    return float(problem.value)


def test_no_big_m_is_needed():
    # y = max(x, 1 - x), so y - 3 x is best at x = 0: 1. The multipliers add up to 1000.
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(1000 * y), [y >= x, y >= 1 - x], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(y - 3 * x), [0 <= x, x <= 1, y <= 2000], lower)
    assert problem.solve() == pytest.approx(1.0, abs=1e-6)
    assert problem.status == "optimal"
    assert big_m_value(500.0) == pytest.approx(-1.0, abs=1e-6)  # too small: the optimum is cut off
    assert big_m_value(1e4) == pytest.approx(1.0, abs=1e-3)  # a lucky choice
    # too large: a switch of 1e-7 counts as 0, and y is as large as the upper level likes
    assert big_m_value(1e9) == pytest.approx(2000.0, abs=1e-3)


# Several followers


def test_several_followers():
    # Each firm sells s_k <= 4 at price p - s_k; the state wants 5 sold in all at the least price.
    price = cp.Variable(name="price")
    sold = [cp.Variable(name=f"sold_{k}") for k in range(2)]
    firms = [
        bm.Lower(cp.Maximize(price * s - (k + 1) * s**2 / 2), [0 <= s, s <= 4], variables=[s])
        for k, s in enumerate(sold)
    ]
    problem = bm.BilevelProblem(
        cp.Minimize(price), [0 <= price, price <= 20, sold[0] + sold[1] >= 5], firms
    )
    # s_k = p / k: p + p/2 = 5
    assert problem.solve() == pytest.approx(10 / 3, abs=1e-5)
    assert float(sold[0].value) == pytest.approx(10 / 3, abs=1e-5)
    assert float(sold[1].value) == pytest.approx(5 / 3, abs=1e-5)
    assert problem.status == "optimal"


# A status that claims too much, or the wrong thing


def two_valleys():
    """f(x, y(x)) has its best point at x = 1 and a worse valley near x = -1; y = x."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
    f = (y**2 - 1) ** 2 - 0.3 * y
    return bm.BilevelProblem(cp.Minimize(f), [-2 <= x, x <= 2], lower), x, y


def test_a_worse_valley_is_not_called_optimal():
    problem, x, y = two_valleys()
    x.value, y.value = -0.96, -0.96
    problem.solve(method="alt-pbgd")
    assert float(x.value) < 0 and problem.value > 0
    assert problem.status in ("feasible", "stationary", "locally_optimal")
    problem.solve(method="auto")
    assert float(x.value) > 0 and problem.value < -0.25
    assert problem.status != "feasible"


def test_a_stop_is_not_called_optimal():
    problem, _, _ = two_valleys()
    problem.solve(method="auto", max_iterations=1)
    assert problem.solution.stopped_by == "iteration limit"
    assert problem.status != "optimal"


def test_infeasible_and_unbounded_are_told_apart():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 0], variables=[y])
    for rows, status in (([x >= 0], "unbounded"), ([x >= 0, y <= -1], "infeasible")):
        problem = bm.BilevelProblem(cp.Maximize(y), rows, lower)
        problem.solve()
        assert problem.status == status
