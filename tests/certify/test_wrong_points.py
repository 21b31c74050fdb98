"""Wrong points must be refused, each with its reason; right ones must pass."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import DataError


@pytest.fixture
def problem():
    """min x^2 + (y-1)^2 over x in [0, 2], y = argmin (y - 2x)^2 s.t. y <= x: y = x, x = 1/2."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= x], variables=[y])
    return bm.BilevelProblem(cp.Minimize(x**2 + (y - 1) ** 2), [0 <= x, x <= 2, x + y <= 3], lower)


def test_right_point_passes(problem):
    certificate = bm.certify(problem, 0.5, 0.5)
    assert certificate.accepted
    assert certificate.claim in ("locally_optimal", "optimal")
    assert certificate.lower_gap <= 1e-8
    assert certificate.objective == pytest.approx(0.5)


def test_infeasible_above(problem):
    certificate = bm.certify(problem, 1.8, 1.8)
    assert not certificate.accepted
    assert certificate.claim == "failed"
    assert any("infeasible above" in r and "x + y <= 3" in r for r in certificate.reasons)


def test_infeasible_below(problem):
    certificate = bm.certify(problem, 0.5, 0.9)
    assert not certificate.accepted
    assert any("infeasible below" in reason for reason in certificate.reasons)


def test_lower_suboptimal(problem):
    certificate = bm.certify(problem, 0.5, 0.25)
    assert not certificate.accepted
    # g(0.5, 0.25) = 0.5625, v(0.5) = 0.25
    assert any("can do better by 0.3125" in reason for reason in certificate.reasons)
    assert certificate.lower_gap == pytest.approx(0.3125 / 1.25, rel=1e-6)


def test_feasible_but_not_stationary(problem):
    certificate = bm.certify(problem, 1.0, 1.0)
    assert certificate.accepted
    assert certificate.claim == "feasible"
    assert certificate.stationarity > 0.1


def test_stationary_maximum_is_not_called_optimal():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(-x * y), [-1 <= x, x <= 1], lower)
    certificate = bm.certify(problem, 0.0, 0.0)
    assert certificate.accepted
    assert certificate.claim == "stationary"
    assert bm.certify(problem, 1.0, 1.0).claim in ("locally_optimal", "optimal")


def test_kink_that_is_a_minimum():
    """y = max(x, 0) and f = y - x/2 has its minimum at the kink x = 0."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y - x / 2), [-1 <= x, x <= 1], lower)
    assert bm.certify(problem, 0.0, 0.0).claim in ("locally_optimal", "optimal")
    assert bm.certify(problem, 0.5, 0.5).claim == "feasible"
    falling = bm.BilevelProblem(cp.Minimize(y - 2 * x), [-1 <= x, x <= 1], lower)
    assert bm.certify(falling, 0.0, 0.0).claim == "feasible"


def test_lower_infeasible_at_x():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2), [y >= x, y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x), [], lower)
    certificate = bm.certify(problem, 2.0, 1.0)
    assert not certificate.accepted
    assert any("no feasible answer" in reason for reason in certificate.reasons)


def test_lower_maximisation_is_reported_in_the_users_sense():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Maximize(-((y - x) ** 2) + 3), [y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(-(x**2) - (y - 1) ** 2), [], lower)
    certificate = bm.certify(problem, 0.5, 0.5)
    assert certificate.accepted
    assert certificate.lower_value == pytest.approx(3.0)
    assert certificate.objective == pytest.approx(-0.5)
    refused = bm.certify(problem, 0.5, 0.0)
    assert any("it reaches 3" in reason and "not 2.75" in reason for reason in refused.reasons)


def test_not_unique_lower_answer_is_noticed():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum(y)), [y >= 0, cp.sum(y) >= x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y[0]), [0 <= x], lower)
    certificate = bm.certify(problem, 1.0, [0.0, 1.0])
    assert certificate.accepted
    assert certificate.lower_is_unique is False


def test_wrong_shapes_and_values(problem):
    with pytest.raises(DataError, match="upper variables have 1 entry, but 2 numbers"):
        bm.certify(problem, [1.0, 2.0], 0.5)
    with pytest.raises(DataError, match="NaN"):
        bm.certify(problem, np.nan, 0.5)
    x, y = problem.variables
    with pytest.raises(DataError, match="no value for the lower variables y"):
        bm.certify(problem, {x: 1.0}, {x: 1.0})
    assert bm.certify(problem, {x: 0.5}, {y: 0.5}).accepted


def test_certify_leaves_the_variables_alone(problem):
    x, y = problem.variables
    x.value = 0.125
    bm.certify(problem, 0.5, 0.5)
    assert x.value == 0.125
    assert y.value is None


def test_text_names_claim_and_reason(problem):
    text = str(bm.certify(problem, 0.5, 0.25))
    assert "failed" in text
    assert "refused because" in text
    assert "can do better" in text
