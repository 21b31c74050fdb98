"""Measures of the MEHA paper against NumPy and pencil."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.problems.meha_paper import lasso, nonconvex, strongly_convex
from blomodel.studies import diagnostics


def test_residual_and_merit_of_the_strongly_convex_problem():
    """(77) with A = I: theta* = (x + y / gamma) / (1 + 1 / gamma)."""
    problem, c, gamma = strongly_convex(3), 4.0, 2.0
    x, y, theta = np.array([0.2, 0.5, -1]), np.array([1.0, 0.3, 0.0]), np.zeros(3)
    best = (x + y / gamma) / (1 + 1 / gamma)
    found = diagnostics.moreau_measures(
        problem, x, y, c=c, gamma=gamma, theta=theta, floor=0.0, smoothness=2.0
    )
    in_x = (x - 1) + c * (-y + best)
    in_y = y + c * ((y - x) - (y - best) / gamma)
    assert found.residual == pytest.approx(np.linalg.norm(np.concatenate([in_x, in_y])))
    assert found.theta == pytest.approx(best)
    assert found.distance == pytest.approx(np.linalg.norm(best))

    def g(u):
        return 0.5 * u @ u - x @ u

    gap = g(y) - g(best) - np.sum((best - y) ** 2) / (2 * gamma)
    f = 0.5 * np.sum((x - 1) ** 2) + 0.5 * y @ y
    assert found.gap == pytest.approx(gap)
    assert found.merit == pytest.approx(f / c + gap + (4 + 1 / 4) * best @ best)


def test_merit_falls_along_the_iteration():
    """MEHA in NumPy with small steps; V_k falls (Lemma 3.6), the floor of f being found."""
    problem, c, gamma, step = strongly_convex(2), 5.0, 1.0, 0.05
    x, y, theta, merits = np.zeros(2), np.ones(2), -np.ones(2), []
    for _ in range(15):
        found = diagnostics.moreau_measures(problem, x, y, c=c, gamma=gamma, theta=theta)
        merits.append(found.merit)
        theta = theta - 0.2 * (theta - x + (theta - y) / gamma)
        x = x - step * ((x - 1) / c - y + theta)
        y = y - step * (y / c + y - x - (y - theta) / gamma)
    assert np.all(np.diff(merits) < 0)


def test_residual_chooses_slopes_of_norms_and_normals():
    """(20) with n = 2: y_1 = 0, x_2 = 0; at the solution R_k vanishes for a suitable c."""
    problem, c, gamma = lasso(2), 10.0, 1.0
    x, y = np.array([0.75, 0.0]), np.array([0.0, -0.5])
    found = diagnostics.moreau_measures(problem, x, y, c=c, gamma=gamma)
    # theta* = prox of the lasso: min (t - v)^2 / 2 + x |t| + (t - y)^2 / (2 gamma).
    pulled = (np.array([0.5, -0.5]) + y) / 2
    theta = np.sign(pulled) * np.maximum(np.abs(pulled) - x / 2, 0)
    assert found.theta == pytest.approx(theta, abs=1e-7)
    # In y_1 the slope may be chosen within c x_1 of 1 + c (y_1 - 1/2): it can be 0. In y_2 it is
    # 1 + c (y_2 + 1/2) + c x_2 sign(y_2) = 1. In x_2 the normal at 0 takes what pushes out.
    in_x = c * (np.abs(y) - np.abs(theta))
    in_x[1] = min(in_x[1], 0.0)
    assert found.residual == pytest.approx(np.linalg.norm([*in_x, 1.0]), abs=1e-6)
    inf = diagnostics.moreau_measures(problem, [2.0, 0.0], y, c=c, gamma=gamma)
    assert inf.residual == np.inf


def test_residual_where_norms_and_constraints_of_y_meet():
    """min of |slope + s + m e_1|, |s_i| <= w, m >= 0 for the bound y_1 <= 0: by a grid."""
    x, y = cp.Variable(name="x", nonneg=True), cp.Variable(2, name="y")
    g = 0.5 * cp.sum_squares(y - np.array([3.0, 2.0])) + x * cp.norm1(y)
    lower = bm.Lower(cp.Minimize(g), [y[0] + y[1] <= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y[0] - 2 * y[1]), [], lower)
    at, c, gamma = (0.5, np.zeros(2)), 2.0, 1.0
    found = diagnostics.moreau_measures(problem, *at, c=c, gamma=gamma)
    theta = found.theta
    slope = np.array([1.0, -2.0]) + c * (-np.array([3.0, 2.0]) + theta / gamma)
    s, m = np.linspace(-1, 1, 201), np.linspace(0, 12, 481)
    best = min(
        np.hypot(np.abs(slope[0] + s + k).min(), np.abs(slope[1] + s + k).min()) for k in m
    )  # fmt: skip
    in_x = 2 * 0.5 + c * (0 - np.abs(theta).sum())
    assert found.residual == pytest.approx(np.hypot(best, in_x), abs=0.02)


def test_nonconvex_lower_level_and_refusal():
    found = diagnostics.moreau_measures(nonconvex(1), 2.0, -1.5, c=1.0, gamma=0.4)
    theta = float(found.theta[0])
    assert np.cos(theta) + (theta + 1.5) / 0.4 == pytest.approx(0.0, abs=1e-6)
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= x], variables=[y])
    with pytest.raises(bm.errors.ModelError, match="sets of their own"):
        diagnostics.moreau_measures(bm.BilevelProblem(cp.Minimize(y), [], lower), 0, 0, c=1, gamma=1)
