"""The smoothed lower level: its conditions, its slope, and where it leads."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits
from blomodel.reformulations.forms.smoothed_lower import SmoothedLower


def problem_with_both_kinds_of_rows(seed=0, n=4):
    """A lower QP with coupled inequalities and a coupled equality."""
    draw = np.random.default_rng(seed)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    A, B = draw.standard_normal((n, n)), 0.3 * draw.standard_normal((n, n))
    lower = bm.Lower(
        cp.Minimize(cp.sum_squares(y) / 2 + draw.standard_normal(n) @ y + x @ y),
        [A @ y <= 1 + B @ x, cp.sum(y) == 0.1 * x[0]],
        variables=[y],
    )
    upper = cp.Minimize(cp.sum_squares(x - 1) + cp.sum_squares(y + 1) + cp.nlp.sin(x[0]) * y[1])
    return bm.BilevelProblem(upper, [-2 <= x, x <= 2], lower), x, y


@pytest.fixture(params=["plain matrices", "sparse matrices"])
def smoothed(request, monkeypatch):
    if request.param == "sparse matrices":
        monkeypatch.setattr(limits, "DENSE_ACTIVE_SET", limits.Limit(0, "rows", "for this test"))
    problem, _, _ = problem_with_both_kinds_of_rows()
    return SmoothedLower(problem.model, problem.parameter_values()), problem.model


def test_the_products_are_mu_and_the_other_conditions_hold(smoothed):
    function, model = smoothed
    x, p = np.array([0.3, -0.2, 0.1, 0.5]), np.zeros(0)
    for mu in (1.0, 1e-2, 1e-5):
        at = function(x, mu)
        slack = -model.lower_in.values(x, at.y, p)
        pressure = at.multipliers[: slack.size]
        assert np.all(slack > 0) and np.all(pressure > 0)
        assert slack * pressure == pytest.approx(np.full(slack.size, mu), rel=1e-5)
        assert model.lower_stationarity(x, at.y, p, at.multipliers) == pytest.approx(0, abs=1e-7)
        assert model.lower_eq.values(x, at.y, p) == pytest.approx(0, abs=1e-7)


def test_the_slope_is_that_of_the_values(smoothed):
    function, _ = smoothed
    x, mu, step = np.array([0.3, -0.2, 0.1, 0.5]), 0.05, 1e-5
    slope = function(x, mu).gradient
    differences = [
        (function(x + step * unit, mu).value - function(x - step * unit, mu).value) / (2 * step)
        for unit in np.eye(4)
    ]
    assert slope == pytest.approx(differences, rel=1e-5, abs=1e-5)


def test_a_small_mu_gives_the_lower_answer(smoothed):
    function, model = smoothed
    x, p = np.array([0.3, -0.2, 0.1, 0.5]), np.zeros(0)
    exact = model.lower_program.solve(x, p)
    assert function(x, 1e-9).y == pytest.approx(exact.y, abs=1e-4)


def test_where_the_lower_level_has_no_answer_the_value_is_infinite():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2), [y >= x, y <= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x + y), [-3 <= x, x <= 3], lower)
    function = SmoothedLower(problem.model, np.zeros(0))
    assert not function(np.array([1.0]), 0.1).is_finite
    assert function(np.array([-1.0]), 0.1).is_finite  # and it recovers
