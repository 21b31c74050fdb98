"""Lower levels that hardly care: a loss counts in units of what is at stake, at that x and part of y."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def variables() -> tuple[cp.Variable, cp.Variable]:
    return cp.Variable(name="x"), cp.Variable(name="y")


def test_a_tie_that_only_a_violation_reaches() -> None:
    """The slope 1e-9 + x is positive at every x >= 0, so that the answer is y = 0."""
    x, y = variables()
    lower = bm.Lower(cp.Minimize((1e-9 + x) * y), [y >= 0, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(-y), [x >= 0, x <= 1], lower)
    assert bm.certify(problem, 0.0, 0.0).accepted
    wrong = bm.certify(problem, 0.0, 1.0)
    assert not wrong.accepted and "prefers" in wrong.reasons[0]
    assert problem.solve() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("error", [0.0, 1e-10, -1e-10])
def test_a_tie_that_rounding_has_left_is_kept(error: float) -> None:
    """At the price x = 2 the customer is indifferent; x is known up to rounding only."""
    x, y = variables()
    lower = bm.Lower(cp.Minimize((x - 2) * y), [y >= 0, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(x * y), [x >= 0, x <= 5], lower)
    assert bm.certify(problem, 2.0 + error, 1.0).accepted
    assert not bm.certify(problem, 2.001, 1.0).accepted


def test_a_jump_where_the_slope_is_a_cube() -> None:
    """y = 1 up to x = 0.3, where the lower level is indifferent, and 0 beyond; it was failed."""
    x, y = variables()
    lower = bm.Lower(cp.Minimize((x - 0.3) ** 3 * y), [y >= 0, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(-y + 3 * (x - 0.5) ** 2), [x >= 0, x <= 1], lower)
    assert problem.solve() == pytest.approx(-0.88, abs=1e-4)
    assert problem.status.has_point
    assert not bm.certify(problem, 0.301, 1.0).accepted


def test_a_slope_beside_a_square() -> None:
    """Beyond x nothing but a slope of 1e-9 moves y, which goes to its end all the same."""
    x, y = variables()
    g = cp.pos(y - x) ** 2 + 1e-9 * y
    lower = bm.Lower(cp.Minimize(g), [y >= -5, y <= 5], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(y - x), [0 <= x, x <= 1], lower)
    value = problem.solve()
    assert problem.status != "optimal" or value == pytest.approx(-5, abs=1e-3)
    assert problem.certificate.bound >= -5


def test_a_fourth_power_is_no_reason_to_claim() -> None:
    """y = x, but a lower gap of 1e-9 lets y be 0.0056 away; that was optimal."""
    x, y = variables()
    lower = bm.Lower(cp.Minimize((y - x) ** 4), [y >= -5, y <= 5], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(y - x), [0 <= x, x <= 1], lower)
    value = problem.solve()
    assert value == pytest.approx(0.0, abs=1e-3) or problem.status == "feasible"
    assert bm.certify(problem, 0.0, 0.03).claim == "feasible"


@pytest.mark.parametrize("small", [1e-7, 1e-9])
def test_a_part_of_y_that_nothing_connects(small: float) -> None:
    """A large part of g must not hide what another part of y loses."""
    x, y = variables()
    z = cp.Variable(name="z")
    g = (z - 1000) ** 2 + small * y
    lower = bm.Lower(cp.Minimize(g), [y >= x, y <= 5], variables=[y, z])
    problem = bm.BilevelProblem(cp.Minimize(x - y), [0 <= x, x <= 1], lower)
    assert not bm.certify(problem, 0.0, {y: 5.0, z: 1000.0}).accepted
    assert bm.certify(problem, 0.0, {y: 0.0, z: 1000.0}).accepted


def test_a_value_that_the_tolerance_buys() -> None:
    """Mitsos and Barton's example 3.13: -1 at x = 0; at x = -0.0017 y = 1 loses 1e-8 against y = -1."""
    x, y = variables()
    lower = bm.Lower(cp.Minimize(x * y * (y / 2 - x**2)), [y >= -1, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x - y), [-1 <= x, x <= 1], lower)
    assert not bm.certify(problem, -0.0017, 1.0).accepted
    bought = bm.certify(problem, -0.0005, 1.0)
    assert "with this tolerance" in bought.reasons[-1]
    assert np.allclose(bought.tolerated_objective, (-1.0005, 0.9995))
    assert problem.solve() == pytest.approx(-1, abs=1e-4)
    assert problem.certificate.bound <= -1
