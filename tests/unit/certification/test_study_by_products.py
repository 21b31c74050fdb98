"""What the gradient of phi shows by products alone, beside the study with all second derivatives."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits

RANDOM = np.random.default_rng(0)
A, B = RANDOM.standard_normal((40, 12)), RANDOM.standard_normal((30, 12))
TRUE = np.where(np.arange(12) < 4, 2.0, 0.0)
DATA = A @ TRUE + 0.1 * RANDOM.standard_normal(40), B @ TRUE + 0.1 * RANDOM.standard_normal(30)


def _lasso(low: float, high: float) -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(12, name="y")
    g = cp.sum_squares(A @ y - DATA[0]) / 80 + x * cp.norm1(y)
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(B @ y - DATA[1])), [x >= low, x <= high], lower)


def _weighted() -> bm.BilevelProblem:
    x, y = cp.Variable(40, name="x"), cp.Variable(12, name="y")
    signs = np.sign(DATA[0])
    losses = cp.logistic(-cp.multiply(signs, A @ y))
    g = cp.sum(cp.multiply(x, losses)) / 40 + 0.05 * cp.sum_squares(y)
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    f = cp.sum(cp.logistic(-cp.multiply(np.sign(DATA[1]), B @ y))) / 30
    return bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 1], lower)


@pytest.fixture
def products_only(monkeypatch):
    monkeypatch.setattr(limits, "STUDIED_CURVATURES", limits.Limit(5, "", ""))
    monkeypatch.setattr(limits, "HESSIAN_PRODUCTS", limits.Limit(5, "", ""))
    monkeypatch.setattr(limits, "INTERIOR_POINT_PRODUCTS", limits.Limit(5, "", ""))


@pytest.mark.parametrize("x", [0.01, 0.05, 0.5])
def test_a_bound_that_presses_shows_a_local_optimum(x, products_only):
    """phi at the lower bound of [x, 1]: a local optimum where it rises to the right, by differences."""
    problem = _lasso(x, 1.0)
    assert problem.model.lower_program.is_for_products

    def phi(at):
        return float(problem.model.f([at], _solution(at), [])[0])

    def _solution(at):
        y = cp.Variable(12)
        g = cp.sum_squares(A @ y - DATA[0]) / 80 + at * cp.norm1(y)
        cp.Problem(cp.Minimize(g)).solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12)
        return y.value

    slope = (phi(x + 1e-4) - phi(x)) / 1e-4
    y = problem.model.lower_program.solve(np.array([x]), np.zeros(0), accuracy=1e-10).y
    found = bm.certify(problem, x=x, y=y)
    assert found.accepted
    assert (found.claim == "locally_optimal") == (slope > 1e-3)
    assert (found.claim == "feasible") == (slope < -1e-3)


def test_within_the_bounds_it_is_stationary_at_most(products_only):
    problem = _lasso(1e-3, 1.0)
    problem.solve()
    values = problem.solution.values
    assert 1e-3 < values["x"] < 1.0
    found = bm.certify(problem, x=values["x"], y=values["y"])  # without the bounds of the search
    assert found.claim in ("stationary", "feasible")
    # The optimum is a kink of phi; beside it there is a slope to measure.
    beside = 1.01 * values["x"]
    y = problem.model.lower_program.solve(np.array([beside]), np.zeros(0), accuracy=1e-10).y
    found = bm.certify(problem, x=beside, y=y)
    assert found.claim == "feasible" and found.stationarity is not None and found.stationarity > 1e-3


def test_the_measure_is_that_of_the_whole_study(monkeypatch):
    x = RANDOM.random(40)
    problem = _weighted()
    y = problem.model.lower_program.solve(x, np.zeros(0), accuracy=1e-10).y
    whole = bm.certify(problem, x=x, y=y)
    for name in ("STUDIED_CURVATURES", "HESSIAN_PRODUCTS", "INTERIOR_POINT_PRODUCTS"):
        monkeypatch.setattr(limits, name, limits.Limit(5, "", ""))
    again = bm.certify(_weighted(), x=x, y=y)
    assert again.claim == whole.claim == "feasible"
    assert again.stationarity == pytest.approx(whole.stationarity, rel=1e-3)


def test_more_rows_above_are_said_to_be_too_much(products_only):
    x, y = cp.Variable(2, name="x"), cp.Variable(12, name="y")
    g = cp.sum_squares(A @ y - DATA[0]) / 80 + x[0] * cp.norm1(y)
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    rows = [x >= 0.01, x <= 1, cp.sum(x) <= 1.5]
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(B @ y - DATA[1]) + x[1]), rows, lower)
    at = np.array([0.1, 0.01])
    found = bm.certify(problem, x=at, y=problem.model.lower_program.solve(at, np.zeros(0)).y)
    assert found.claim == "feasible" and "more constraints than bounds" in found.reasons[0]
