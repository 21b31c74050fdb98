"""The baselines against their twins, iterate by iterate."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import twins_baselines as twins
from twin_problems import logistic, quadratic, same, sine, steep

import blomodel as bm
from blomodel.reformulations.forms import convex_difference

N = 50


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize(("p", "tau"), [(0.0, 0.0), (0.1, 0.025)])
def test_bamm(make, p, tau):
    t = make()
    steps = {"alpha": 0.05, "beta": 0.3, "eta": 0.2}
    found = t.iterates("bamm", N, inner_steps=1, upper_share=0.4, share_power=p, step_power=tau, **steps)
    same(found, twins.bamm(t, N, 0.05, 0.3, 0.2, 0.4, p, tau))


@pytest.mark.parametrize(("make", "alpha", "beta"), [(sine, 0.05, 0.02), (steep, 1e-8, 2e4)])
@pytest.mark.parametrize("inner", [1, 3])
def test_brc(make, alpha, beta, inner):
    """Where g is a sum of squares of y - x, so that grad_x g vanishes with grad_y g.

    Steps that bring y to x would multiply what processors round differently (by thousands with twice
    the alpha of the second case; by less than five here).
    """
    t = make()
    found = t.iterates("brc", N, alpha=alpha, beta=beta, T=inner)
    same(found, twins.brc(t, N, alpha, beta, inner))


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize("inner", [1, 3])
def test_brc_with_a_floor(make, inner):
    """Elsewhere the quotient <g_y, f_y> / |g_y|^2 grows without limit as y nears its answer, and
    rounding with it: without a floor six iterations agree to 1e-12.
    """
    t = make()
    found = t.iterates("brc", N, alpha=0.01, beta=0.1, T=inner, floor=0.5)
    same(found, twins.brc(t, N, 0.01, 0.1, inner, 0.5))
    found = t.iterates("brc", 6, alpha=0.01, beta=0.1, T=inner)
    same(found, twins.brc(t, 6, 0.01, 0.1, inner))


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize("radius", [None, 0.6])
def test_alright(make, radius):
    t = make(radius)
    found = t.iterates("alright", N, step_size=0.1, step_power=0.5, lambda_=0.3, seed=7)
    same(found, twins.alright(t, N, 0.1, 0.5, 0.3, seed=7))


def test_igjo():
    """Until it stands still, which is after 16 iterations."""
    target, wish = np.array([3.0, -2.0, 0.5, 1.5]), np.array([2.2, -1.2, 0.1, 1.6])
    x, y = cp.Variable(4, name="x"), cp.Variable(4, name="y")
    g = cp.sum_squares(y - target) / 2 + x @ cp.abs(y)
    lower = bm.Lower(cp.Minimize(g), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - wish) / 2), [x >= 0], lower)
    x.value = np.full(4, 0.1)
    problem.solve(method="igjo", step_x=0.3, max_iterations=N, history_every=1, settled=0.0)
    path = problem.solution.history["x"]
    assert len(path) >= 12
    wanted = twins.igjo_lasso(target, wish, np.full(4, 0.1), len(path), 0.3, 0.5, 1e-3)
    np.testing.assert_allclose(path, wanted, atol=1e-12)


@pytest.mark.parametrize(("delta", "n"), [(3.0, N), (0.5, N)])
def test_vf_idca(delta, n, monkeypatch):
    """On a jointly convex quadratic: v(x) = (x - 1)^2 / 2 and its slope by pencil.

    The library leaves each convex program to an interior-point solver, whose tolerance for the
    objective is the square of that for the point; here it goes as far as it can.
    """
    monkeypatch.setattr(convex_difference, "ACCURACIES", (1e-16, 1e-12))
    x, y = cp.Variable(1, name="x"), cp.Variable(1, name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2 + (x - 1) ** 2 / 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x + 1) ** 2 + (y - 2) ** 2), [], lower)
    x.value, y.value = np.array([0.3]), np.array([2.0])
    problem.solve(method="vf-idca", max_steps=n, alpha=2.0, delta=delta, rho=0.5, stop_at=0.0)
    f = 2 * np.eye(2), np.array([2.0, -4.0]), 5.0
    g = np.array([[3.0, -2.0], [-2.0, 2.0]]), np.array([-1.0, 0.0]), 0.5
    wanted = twins.vf_idca(
        f, g, lambda x: (0.5 * (x - 1) ** 2, x - 1), np.array([0.3, 2.0]), n, 2.0, delta, 0.5
    )
    history = problem.solution.history
    np.testing.assert_array_equal(history["weight"], wanted[:, 1])
    np.testing.assert_allclose(np.ravel(history["x"]), wanted[:, 0], atol=2e-6)
