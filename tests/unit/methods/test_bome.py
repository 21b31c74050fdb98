"""BOME: the dynamic barrier on the value-function gap."""

import cvxpy as cp
import numpy as np
import pytest
from smooth_problems import logistic, quadratic, true_gradient

import blomodel as bm

NONE = np.zeros(0)


@pytest.mark.parametrize("condition", [10.0, pytest.param(100.0, marks=pytest.mark.slow)])
def test_converges_without_settings(condition):
    problem, x, y, x_best, y_best = quadratic(condition=condition)
    problem.solve(method="bome")
    np.testing.assert_allclose(x.value, x_best, atol=1e-3)
    np.testing.assert_allclose(y.value, y_best, atol=1e-3)


def test_converges_where_the_lower_hessian_changes():
    problem, x, _ = logistic()
    problem.solve(method="bome")
    assert np.abs(true_gradient(problem.model, x.value)).max() < 2e-3


def test_one_iteration_is_the_paper_s():
    problem, x, y, *_ = quadratic()
    model, x0, y0 = problem.model, np.ones(5), np.full(6, 0.5)
    x.value, y.value = x0, y0
    problem.solve(method="bome", step_size=0.01, lower_step=0.05, lower_steps=3, eta=0.5, max_steps=1)
    inner = y0.copy()
    for _ in range(3):
        inner = inner - 0.05 * model.g_grad(x0, inner, NONE)[5:]
    q_grad = model.g_grad(x0, y0, NONE).copy()
    q_grad[:5] -= model.g_grad(x0, inner, NONE)[:5]
    f_grad = model.f_grad(x0, y0, NONE)
    weight = max(0.0, 0.5 - f_grad @ q_grad / (q_grad @ q_grad))
    wanted = x0 - 0.01 * (f_grad + weight * q_grad)[:5]
    np.testing.assert_allclose(x.value, wanted, rtol=1e-10)
    assert problem.solution.history["lambda"][-1] == pytest.approx(weight)


def test_a_smaller_step_leaves_a_smaller_gap():
    gaps = []
    for step in (0.02, 0.002):
        problem, *_ = quadratic()
        problem.solve(method="bome", step_size=step, max_steps=50000)
        gaps.append(problem.solution.history["barrier"][-1])
    assert gaps[1] < 0.1 * gaps[0]


def test_a_lower_level_with_many_answers():
    """Rank one: g sees the sum of y only, and f chooses among the answers."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(0.5 * (cp.sum(y) - x) ** 2), [], variables=[y])
    upper = cp.Minimize((x - 2) ** 2 + cp.sum_squares(y - np.array([1.0, 0.0])))
    problem = bm.BilevelProblem(upper, [], lower)
    problem.solve(method="bome")
    # y = (1 + t, t) with 1 + 2 t = x: minimise (2 t - 1)^2 + 2 t^2
    assert x.value == pytest.approx(1 + 2 / 3, abs=1e-3)
    np.testing.assert_allclose(y.value, [4 / 3, 1 / 3], atol=1e-3)


def test_y_may_live_in_a_box():
    x, y = cp.Variable(name="x"), cp.Variable(name="y", bounds=[0, 1])
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 0.2) ** 2 + (y - 0.6) ** 2), [], lower)
    problem.solve(method="bome")
    assert x.value == pytest.approx(0.4, abs=1e-3)
