"""The baselines against their twins, iterate by iterate."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import twins_baselines as twins
from twin_problems import logistic, quadratic, same

import blomodel as bm

N = 50


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize(("p", "tau"), [(0.0, 0.0), (0.1, 0.025)])
def test_bamm(make, p, tau):
    t = make()
    steps = {"alpha": 0.05, "beta": 0.3, "eta": 0.2}
    found = t.iterates("bamm", N, inner_steps=1, upper_share=0.4, share_power=p, step_power=tau, **steps)
    same(found, twins.bamm(t, N, 0.05, 0.3, 0.2, 0.4, p, tau))


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize("inner", [1, 3])
def test_brc(make, inner):
    """Until y comes so near the lower answer that the quotient of two zeros is rounding."""
    t, n = make(), 6
    found = t.iterates("brc", n, alpha=0.01, beta=0.1, T=inner)
    same(found, twins.brc(t, n, 0.01, 0.1, inner))


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize("radius", [None, 0.6])
def test_alright(make, radius):
    t = make(radius)
    found = t.iterates("alright", N, step_size=0.1, step_power=0.5, lambda_=0.3, seed=7)
    same(found, twins.alright(t, N, 0.1, 0.5, 0.3, seed=7))


def test_igjo():
    target, wish = np.array([3.0, -2.0, 0.5, 1.5]), np.array([2.2, -1.2, 0.1, 1.6])
    x, y = cp.Variable(4, name="x"), cp.Variable(4, name="y")
    g = cp.sum_squares(y - target) / 2 + x @ cp.abs(y)
    lower = bm.Lower(cp.Minimize(g), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - wish) / 2), [x >= 0], lower)
    x.value = np.full(4, 0.1)
    problem.solve(method="igjo", step_x=0.3, max_iterations=6, history_every=1, settled=0.0)
    path = problem.solution.history["x"]
    wanted = twins.igjo_lasso(target, wish, np.full(4, 0.1), len(path), 0.3, 0.5, 1e-3)
    np.testing.assert_allclose(path, wanted, atol=1e-6)  # the lower level is solved to 1e-8


def test_vf_idca():
    """On a jointly convex quadratic: v(x) = (x - 1)^2 / 2 and its slope by pencil."""
    x, y = cp.Variable(1, name="x"), cp.Variable(1, name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2 + (x - 1) ** 2 / 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x + 1) ** 2 + (y - 2) ** 2), [], lower)
    x.value, y.value = np.array([0.3]), np.array([2.0])
    problem.solve(method="vf-idca", max_steps=6, alpha=2.0, delta=3.0, rho=0.5, stop_at=0.0)
    u, w, weight = np.array([0.3]), np.array([2.0]), 2.0
    for k in range(6):
        assert problem.solution.history["x"][k] == pytest.approx(
            u, abs=2e-3
        )  # each program is solved to 1e-7
        assert problem.solution.history["weight"][k] == weight
        value, slope = 0.5 * (u[0] - 1) ** 2, u - 1
        ahead = twins.vf_idca_step(
            u,
            w,
            value,
            slope,
            weight,
            0.5,
            lambda a, b: cp.sum_squares(a + 1) + cp.sum_squares(b - 2),
            lambda a, b: cp.sum_squares(b - a) + cp.sum_squares(a - 1) / 2,
        )
        excess = (ahead[1] - ahead[0])[0] ** 2 + 0.5 * (ahead[0][0] - 1) ** 2
        excess = max(0.0, excess - value - slope[0] * (ahead[0][0] - u[0]))
        moved = np.linalg.norm(np.concatenate([ahead[0] - u, ahead[1] - w]))
        moved /= np.sqrt(1 + ahead[0] @ ahead[0] + ahead[1] @ ahead[1])
        u, w = ahead
        if moved * max(weight, 1 / max(excess, 1e-300)) <= 1.0:
            weight += 3.0
