"""Wrong points must not hide behind the size of other numbers in the model."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.certification.below import lower_check


def tracking(scale=1.0, offset=0.0):
    """y = x below, whatever the scale and offset of the lower objective."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(scale * (y - x) ** 2 + offset), [y >= -5, y <= 5], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + (y - 2) ** 2), [-3 <= x, x <= 3], lower)
    return problem, x, y


@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e-12, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9])
def test_scale_and_offset_of_the_lower_objective_hide_nothing(scale, offset):
    problem, _, _ = tracking(scale, offset)
    assert not bm.certify(problem, 0.5, 1.0).accepted
    assert not bm.certify(problem, 0.5, 0.3).accepted
    assert bm.certify(problem, 0.5, 0.5).accepted


def test_a_large_upper_part_of_the_lower_objective_hides_nothing():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(1e6 * cp.exp(x) + (y - x) ** 2), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y), [-3 <= x, x <= 3], lower)
    assert not bm.certify(problem, 2.0, 1.0).accepted
    assert bm.certify(problem, 2.0, 2.0).accepted


def test_a_large_variable_does_not_excuse_the_violation_of_rows_without_it():
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    big = cp.Variable(name="big")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(x) + big), [big >= 1e6, x <= 2, x >= 0], lower)
    good = {x: np.array([0.5, 2.0]), big: np.array(1e6)}
    assert bm.certify(problem, good, np.array([0.5, 1.0])).accepted
    outside = {x: np.array([0.5, 2.5]), big: np.array(1e6)}
    refused = bm.certify(problem, outside, np.array([0.5, 1.0]))
    assert not refused.accepted and "infeasible above" in refused.reasons[0]
    refused = bm.certify(problem, good, np.array([0.5, 1.2]))
    assert not refused.accepted and any("infeasible below" in reason for reason in refused.reasons)


@pytest.mark.parametrize("scale", [1e-8, 1e6])
def test_solve_still_finds_the_answer(scale):
    problem, x, y = tracking(scale, offset=1e6)
    problem.solve()
    assert problem.status.has_point
    assert float(x.value) == pytest.approx(1.5, abs=1e-3)
    assert float(y.value) == pytest.approx(1.5, abs=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_random_wrong_points_are_refused(seed):
    """Points moved away from the answer by a visible amount, in x, in y or in both."""
    rng = np.random.default_rng(seed)
    n = 3
    factor, mixed = rng.standard_normal((n, n)), rng.standard_normal((n, n))
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = cp.quad_form(y, factor @ factor.T + np.eye(n)) + (mixed @ x) @ y
    lower = bm.Lower(cp.Minimize(g), [y >= -1, y <= 1, cp.sum(y) <= 1 + x[0]], variables=[y])
    upper = cp.sum_squares(x - 1) + cp.sum_squares(y - 1)
    problem = bm.BilevelProblem(cp.Minimize(upper), [x >= -1, x <= 1], lower)
    problem.solve()
    assert problem.certificate.accepted
    at, answer = x.value.copy(), y.value.copy()
    for _ in range(10):
        step = rng.standard_normal(n)
        wrong = answer + 0.05 * step / np.linalg.norm(step)
        assert not bm.certify(problem, at, wrong).accepted
    for _ in range(5):
        moved = np.clip(at + 0.1 * rng.standard_normal(n), -1, 1)
        certificate = bm.certify(problem, moved, answer)
        assert not certificate.accepted or certificate.lower_gap <= 1e-6
        assert certificate.claim != "optimal"


@pytest.mark.parametrize(
    ("tolerances", "checked_by"),
    [
        ((1e-30, 1e-8), "cvxpy and Clarabel"),
        ((1e-30,), "Clarabel, newton on the compiled lower level"),
    ],
)
def test_a_tolerance_out_of_reach_is_followed_by_the_next(monkeypatch, tolerances, checked_by):
    monkeypatch.setattr(lower_check, "TOLERANCES", tolerances)
    x, y = cp.Variable(name="x"), cp.Variable(3, name="y")
    lower = bm.Lower(cp.Minimize(cp.norm(y - [1, 2, 3]) + cp.sum_squares(y) + x * y[0]), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.square(x - 1) + y[1]), [0 <= x, x <= 2], lower)
    problem.solve("reduced-penalty")
    assert problem.certificate.accepted
    assert problem.certificate.checked_by == checked_by
