"""Variables that are counted from a place near the answers, and the way back."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.declare.point import Point
from blomodel.transformations.origin import APART, FittingOrigin

NOTHING = np.zeros(0)


def names(problem: bm.BilevelProblem) -> list[str]:
    return [step.name for step in problem.chain]


def follower(s: float, t: float, a: float = 0.8) -> tuple[bm.BilevelProblem, cp.Variable, cp.Variable]:
    """The optimum is x = s - 1, y = t - 0.7, with value 2.89 - 1.7."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    rows = [y >= t - 2, y <= t + 3]
    lower = bm.Lower(cp.Minimize(cp.square((y - t) - a * (x - s) - 0.1)), rows, variables=[y])
    upper = cp.Minimize(cp.square(y - t - 1) + (y - t) + cp.square(x - s))
    return bm.BilevelProblem(upper, [x >= s - 1, x <= s + 2], lower), x, y


@pytest.mark.parametrize(("s", "t"), [(1e6, 1e6), (0.0, -1e7), (3.3e6, 2.0), (1e8, 1e8)])
def test_points_come_back(s, t):
    problem, *_ = follower(s, t)
    assert names(problem) == ["origin"]
    rng = np.random.default_rng(0)
    point = Point(problem.levels, s + rng.normal(size=1), t + rng.normal(size=1))
    forth = problem.chain.forward(point, NOTHING)
    assert max(np.abs(forth.x).max(), np.abs(forth.y).max()) < 5
    back = problem.chain.invert(forth)
    np.testing.assert_array_equal(back.x, point.x)
    np.testing.assert_array_equal(back.y, point.y)


@pytest.mark.parametrize(("s", "t"), [(1e6, 1e6), (0.0, -1e7), (3.3e6, 2.0), (1e8, 1e8)])
def test_the_same_answer_with_the_same_proof(s, t):
    """Against a fine grid of the model at zero."""
    grid = np.linspace(-1, 2, 300_001)
    answers = np.clip(0.8 * grid + 0.1, -2, 3)
    values = (answers - 1) ** 2 + answers + grid**2
    best = int(values.argmin())
    problem, x, y = follower(s, t)
    assert problem.solve() == pytest.approx(values[best], abs=1e-6)
    assert problem.status == bm.Status.OPTIMAL
    assert problem.certificate.bound <= values[best] + 1e-9
    assert x.value - s == pytest.approx(grid[best], abs=1e-4)
    assert y.value - t == pytest.approx(answers[best], abs=1e-4)


def test_a_bound_broken_by_one_is_broken_wherever_zero_is():
    problem, *_ = follower(1e7, 1e7)
    certificate = bm.certify(problem, x=1e7 + 3, y=1e7 + 2.5)
    assert not certificate.accepted and certificate.upper_violation > 0.1


def test_an_answer_that_the_lower_level_would_leave_is_refused_wherever_zero_is():
    problem, *_ = follower(1e7, 1e7)
    assert not bm.certify(problem, x=1e7 + 1, y=1e7 + 1).accepted


def test_origins_cancel_what_was_stated():
    problem, *_ = follower(1e6, -5e6)
    origin = FittingOrigin(problem.plain_model, NOTHING).origin
    assert np.all(origin == np.round(origin))
    np.testing.assert_allclose(origin, [1e6, -5e6], atol=4)


def test_whole_numbers_stay_whole():
    x, y = cp.Variable(integer=True, name="x"), cp.Variable(integer=True, name="y")
    lower = bm.Lower(cp.Minimize(cp.square(y - x - 0.3)), [y >= 0, y <= 3_000_000], variables=[y])
    problem = bm.BilevelProblem(
        cp.Minimize(cp.square(x - 2_000_001.4)), [x >= 2_000_000, x <= 2_000_003], lower
    )
    assert problem.solve() == pytest.approx(0.16)
    assert (x.value, y.value) == (2_000_001, 2_000_001)


@pytest.mark.parametrize("high", [1.0, 1e4, 1e9])
def test_what_varies_as_much_as_it_is_large_stays(high):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.square(y - x)), [y >= 0, y <= high], variables=[y])
    problem = bm.BilevelProblem(
        cp.Minimize(cp.square(x - high / 2)), [x >= high / APART, x <= high], lower
    )
    assert "origin" not in names(problem)


def test_a_small_constant_is_no_origin():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.square(y - x)), [y >= -5, y <= 5], variables=[y])
    assert names(bm.BilevelProblem(cp.Minimize(y), [x == 3], lower)) == []


def test_a_large_constant_is_an_origin():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    rows = [y >= 1e6 - 2, y <= 1e6 + 3]
    lower = bm.Lower(cp.Minimize(cp.square(y - x)), rows, variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y), [x == 1e6 + 1 / 3], lower)
    assert problem.solve() - 1e6 == pytest.approx(1 / 3, abs=1e-8)
    assert problem.status == bm.Status.OPTIMAL


def test_parameters_move_the_origin():
    """Each value of a parameter gives the answer that a new problem gives."""
    s, x, y = cp.Parameter(name="s"), cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.square(y - x - 1)), [y <= s + 2.5], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.square(x - s) - (y - s)), [x >= s - 1, x <= s + 2], lower)
    for s.value in (0.0, 1e6, 1e6 + 1, -3e7, 0.0):
        assert problem.solve() == pytest.approx(-1.25, abs=1e-6)
        assert x.value - s.value == pytest.approx(0.5, abs=1e-4)
        assert problem.status == bm.Status.OPTIMAL


def test_it_is_told():
    problem, *_ = follower(1e6, 0.0)
    assert "'x' is counted from 1000000" in str(problem.chain)
