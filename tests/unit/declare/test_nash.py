"""Games below, with closed forms."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel import errors


def oligopoly(costs, intercept=10.0):
    """Firms that sell at the price ``intercept - sum(q)``; the regulator wants the most tax."""
    tax = cp.Variable(name="tax")
    q = [cp.Variable(name=f"q{k}") for k in range(len(costs))]
    firms = [
        bm.Lower(
            cp.Maximize((intercept - sum(q) - cost - tax) * own),
            [own >= 0],
            variables=[own],
            name=f"firm {k}",
        )
        for k, (own, cost) in enumerate(zip(q, costs, strict=True))
    ]
    problem = bm.BilevelProblem(cp.Maximize(tax * sum(q)), [0 <= tax, tax <= intercept], bm.Nash(firms))
    return problem, tax, q


@pytest.mark.parametrize("n", [2, 5])
def test_cournot_under_a_tax(n):
    # q_i = (a - c - t) / (n + 1), so that t n (a - c - t) / (n + 1) is largest at t = (a - c) / 2.
    problem, tax, q = oligopoly([2.0] * n)
    assert problem.solve() == pytest.approx(n * 64 / (4 * (n + 1)), abs=1e-5)
    assert problem.status == "optimal"
    assert float(tax.value) == pytest.approx(4.0, abs=1e-4)
    assert [float(own.value) for own in q] == pytest.approx([4 / (n + 1)] * n, abs=1e-4)
    assert "potential" in str(problem.chain)
    gaps = problem.certificate.follower_gaps
    assert list(gaps) == [f"'firm {k}'" for k in range(n)]
    assert max(gaps.values()) <= 1e-8


def test_a_dear_firm_leaves_the_market():
    # With costs 1 and 6 the second sells only while 10 + 1 + t - 2 (6 + t) > 0, that is for no t >= 0.
    problem, tax, q = oligopoly([1.0, 6.0])
    assert problem.solve() == pytest.approx(4.5 * 4.5 / 2, abs=1e-5)
    assert float(tax.value) == pytest.approx(4.5, abs=1e-4)
    assert float(q[1].value) == pytest.approx(0.0, abs=1e-6)
    assert problem.status == "optimal"


def crossed(first=1.0, second=-1.0):
    """Cross derivatives that do not agree: a = (x - first b)+ / 2, b = (1 - second a)+ / 2."""
    x, a, b = cp.Variable(name="x"), cp.Variable(name="a"), cp.Variable(name="b")
    one = bm.Lower(cp.Minimize(a**2 + first * a * b - x * a), [a >= 0], variables=[a], name="one")
    two = bm.Lower(cp.Minimize(b**2 + second * a * b - b), [b >= 0], variables=[b], name="two")
    return (
        bm.BilevelProblem(cp.Minimize((a - 1) ** 2 + b), [0 <= x, x <= 5], bm.Nash([one, two])),
        x,
        a,
        b,
    )


def test_a_game_without_a_potential():
    # b = (1 + a) / 2 at a > 0, so f = (a - 1)^2 + (1 + a) / 2, least at a = 3 / 4; x = 2 a + b.
    problem, x, a, b = crossed()
    assert problem.solve() == pytest.approx(0.0625 + 0.875, abs=1e-6)
    assert problem.status == "optimal"
    assert float(a.value) == pytest.approx(0.75, abs=1e-4)
    assert float(x.value) == pytest.approx(2.375, abs=1e-3)
    assert "conditions of a game" in str(problem.chain)
    assert max(problem.certificate.follower_gaps.values()) <= 1e-7
    assert problem.levels.lower[:2] == (a, b)


def test_the_certificate_sees_who_would_leave():
    problem, x, a, b = crossed()
    refused = bm.certify(problem, {x: 2.375}, {a: 0.75, b: 0.5})
    assert not refused.accepted
    assert any("'two' can do better" in reason for reason in refused.reasons)
    assert refused.follower_gaps["'two'"] > 1e-2
    assert bm.certify(problem, {x: 2.375}, {a: 0.75, b: 0.875}).accepted


def test_shared_rows_are_each_followers_own():
    # Both share a capacity of 2 and want 2 each: every split with a + b = 2 is an equilibrium.
    x, a, b = cp.Variable(name="x"), cp.Variable(name="a"), cp.Variable(name="b")
    one = bm.Lower(cp.Minimize((a - 2) ** 2), [a + b <= 2, a >= 0], variables=[a], name="one")
    two = bm.Lower(cp.Minimize((b - 2) ** 2), [a + b <= 2, b >= 0], variables=[b], name="two")
    problem = bm.BilevelProblem(
        cp.Minimize((x - 1) ** 2 + (a - 0.5) ** 2), [0 <= x, x <= 3], bm.Nash([one, two])
    )
    assert problem.solve() == pytest.approx(0.0, abs=1e-6)
    assert float(a.value) == pytest.approx(0.5, abs=1e-3)
    assert float(a.value + b.value) == pytest.approx(2.0, abs=1e-5)


def test_a_potential_that_is_not_quadratic():
    # exp(a) - a b + b^2 ... : slopes exp(a) - b - x and 2 b - a agree crosswise.
    x, a, b = cp.Variable(name="x"), cp.Variable(name="a"), cp.Variable(name="b")
    one = bm.Lower(cp.Minimize(cp.exp(a) - x * a + cp.square(a)), [], variables=[a])
    two = bm.Lower(cp.Minimize(cp.square(b - 1)), [], variables=[b])
    problem = bm.BilevelProblem(cp.Minimize((a - 1) ** 2 + b), [0 <= x, x <= 9], bm.Nash([one, two]))
    assert problem.solve() == pytest.approx(1.0, abs=1e-6)
    assert float(x.value) == pytest.approx(np.e + 2, abs=1e-3)


def test_what_a_game_refuses():
    a, b, x = cp.Variable(name="a"), cp.Variable(name="b"), cp.Variable(name="x")
    one = bm.Lower(cp.Minimize(-(a**2) + a * b + x * a), [a >= 0, a <= 1], variables=[a])
    two = bm.Lower(cp.Minimize(b**2 - 2 * a * b), [b >= 0], variables=[b])
    with pytest.raises(errors.ModelError, match="not convex in its own variables"):
        bm.BilevelProblem(cp.Minimize(x**2 + a), [], bm.Nash([one, two]))
    whole = cp.Variable(name="whole", integer=True)
    three = bm.Lower(cp.Minimize(whole * b), [], variables=[whole])
    with pytest.raises(errors.ModelError, match="'whole' is declared integer"):
        bm.Nash([three, two])
    with pytest.raises(errors.ModelError, match="list of followers"):
        bm.Nash(two)
    with pytest.raises(errors.ModelError, match="bm.Nash"):
        bm.BilevelProblem(cp.Minimize(x + b), [], [one, two])
    rough = bm.Lower(cp.Minimize(cp.exp(a) + a * cp.square(b)), [], variables=[a])
    with pytest.raises(errors.ModelError, match="not quadratic"):
        bm.BilevelProblem(cp.Minimize(x**2 + a), [], bm.Nash([rough, two]))
