"""Measures of the GALET paper by pencil."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.studies import diagnostics


def quadratic():
    """y*(x) = x; phi(x) = (x - 1)^2 + (x - 3)^2, so x = 2 solves it."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(2 * (y - x) ** 2), variables=[y])
    return bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + (y - 3) ** 2), [], lower)


def test_galet_measures_vanish_at_the_solution_alone():
    problem = quadratic()
    there = diagnostics.galet_measures(problem, 2.0, 2.0)
    assert max(there.r_x, there.r_w, there.r_y) < 1e-12
    away = diagnostics.galet_measures(problem, 1.0, 1.0)
    # The gradient of phi at 1 is -4.
    assert away.r_x == pytest.approx(16.0)
    assert away.r_w < 1e-12
    assert diagnostics.galet_measures(problem, 2.0, 2.5).r_y == pytest.approx(0.5)
    assert "R_x" in str(away)


def test_galet_measures_with_a_singular_hessian():
    """g = (y_1 + y_2 - x)^2 has a line of minimisers; w of least norm still tells the measure."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize((y[0] + y[1] - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + cp.sum_squares(y - 1)), [], lower)
    # With y = x/2 each by symmetry: x^2 + 2 (x/2 - 1)^2 is least where 2x + 2 (x/2 - 1) = 0.
    best = 2 / 3
    found = diagnostics.galet_measures(problem, best, [best / 2, best / 2])
    assert max(found.r_x, found.r_w, found.r_y) < 1e-10


def test_galet_measures_with_a_given_w():
    found = diagnostics.galet_measures(quadratic(), 1.0, 1.0, w=np.zeros(1))
    assert found.r_x == pytest.approx(0.0)
    assert found.r_w == pytest.approx((4 * -4) ** 2)


def test_galet_measures_along_a_run():
    problem = quadratic()
    problem.solve(method="galet")
    history = problem.solution.history
    for name in ("R_x", "R_w", "R_y"):
        assert history[name][-1] < 1e-10


def test_value_function_kkt_stays_away_from_zero_at_a_solution():
    """At the solution x = y = 2 grad f is (2, -2): no multiplier acts there."""
    problem = quadratic()
    there = diagnostics.value_function_kkt(problem, 2.0, 2.0)
    assert there.score == pytest.approx(8.0)
    assert there.residual == pytest.approx(8.0)
    assert "KKT score" in str(there)
    # At (2, 2.5): gap 0.5, grad f = (2, -1), grad g - (grad v, 0) = (-2, 2), s = 6 / 8.
    off = diagnostics.value_function_kkt(problem, 2.0, 2.5)
    assert off.score == pytest.approx(5.5)
    assert off.multiplier == pytest.approx(0.75)
    assert off.residual == pytest.approx(0.5**2 + 0.5**2 + 0.5)


def test_value_function_kkt_refuses_constraints():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 0], variables=[y])
    with pytest.raises(bm.errors.ModelError, match="without constraints"):
        diagnostics.value_function_kkt(bm.BilevelProblem(cp.Minimize(y), [], lower), 0.0, 0.0)


def test_lyapunov_function_by_pencil_and_along_a_run():
    """f = (x - 1)^2 + (y - 3)^2, g = 2 (y - x)^2: w = -(y - 3) / 2 and grad_y g = 4 (y - x)."""
    problem, x, y = quadratic(), 1.0, 1.5
    by_hand = (x - 1) ** 2 + (y - 3) ** 2 + (-(y - 3) / 2) * 4 * (y - x) + 7 * 2 * (y - x) ** 2
    assert diagnostics.lyapunov(problem, x, y, c=7.0) == pytest.approx(by_hand)
    points, (u, v) = [], (0.0, 2.0)
    for _ in range(20):  # GALET in NumPy: y by (10), the exact w, x by (13)
        v -= 0.2 * 4 * (v - u)
        w = -(v - 3) / 2
        u -= 0.02 * (2 * (u - 1) - 4 * w)
        points.append(diagnostics.lyapunov(problem, u, v, c=10.0))
    assert np.all(np.diff(points) < 1e-12)
