"""The bound by duality against cvxpy and Clarabel, and against a Lagrangian that was spoilt."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits
from blomodel.certification.below import dual_check
from blomodel.certification.below.lower_check import check_lower


@pytest.fixture(autouse=True)
def _every_size(monkeypatch):
    monkeypatch.setattr(limits, "INTERIOR_POINT_CHECK", limits.Limit(0, "variables", "a test"))


def _problem(sign=1.0):
    draw = np.random.default_rng(0)
    A, b, C = draw.standard_normal((9, 5)), draw.standard_normal(9), draw.standard_normal((3, 5))
    x, y = cp.Variable(2, name="x"), cp.Variable(5, name="y")
    g = cp.sum_squares(A @ y - b) + cp.exp(x[0]) * cp.sum_squares(y) + x[1] * y[2]
    rows = [C @ y >= 0.3 + x[1], y[:2] <= 0.1, cp.sum(y) == x[0]]
    lower = bm.Lower(cp.Minimize(g) if sign > 0 else cp.Maximize(-g), rows, variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(y)), [x >= -1, x <= 1], lower)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_same_value_and_multipliers_as_clarabel(sign, monkeypatch):
    problem, x = _problem(sign), np.array([0.2, -0.4])
    found = check_lower(problem.plain_model, np.zeros(0), x, np.zeros(5))
    monkeypatch.setattr(limits, "INTERIOR_POINT_CHECK", limits.Limit(10**9, "variables", "a test"))
    known = check_lower(problem.plain_model, np.zeros(0), x, np.zeros(5))
    assert "duality" in found.checked_by and "Clarabel" in known.checked_by
    assert found.value == pytest.approx(known.value, abs=1e-8)
    assert found.y == pytest.approx(known.y, abs=1e-6)
    for own, other in zip(found.duals, known.duals, strict=True):
        assert np.ravel(own) == pytest.approx(np.ravel(other), abs=1e-5)


@pytest.mark.parametrize("part", ["slope", "hessian"])
def test_derivatives_that_are_not_those_of_the_values_prove_nothing(part, monkeypatch):
    problem, x = _problem(), np.array([0.2, -0.4])
    agree = dual_check._agree

    def spoilt(lagrangian, y, at_y, slope, H):
        if part == "slope":
            return agree(lagrangian, y, at_y, slope + 1e-3, H)
        return agree(lagrangian, y, at_y, slope, 1.001 * H)

    monkeypatch.setattr(dual_check, "_agree", spoilt)
    assert "Clarabel" in check_lower(problem.plain_model, np.zeros(0), x, np.zeros(5)).checked_by


def test_a_flat_lower_level_is_left_to_clarabel():
    x, y = cp.Variable(name="x"), cp.Variable(3, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum(y) + y[0] ** 2), [y >= x, y <= 4], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y)), [x >= -1, x <= 1], lower)
    assert (
        "Clarabel" in check_lower(problem.plain_model, np.zeros(0), np.zeros(1), np.zeros(3)).checked_by
    )
