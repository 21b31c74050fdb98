"""GALET, perturbed gradient descent and the differentiating baselines against their twins."""

from __future__ import annotations

import numpy as np
import pytest
import twins_curvature as twins
from twin_problems import curve, logistic, quadratic, same

N = 50


@pytest.mark.parametrize("make", [curve, logistic])
@pytest.mark.parametrize(("inner", "shadow", "rho"), [(1, 1, 0.1), (5, 50, 0.1)])
def test_galet(make, inner, shadow, rho):
    t = make()
    found = t.iterates("galet", N, alpha=0.1, beta=0.5, rho=rho, N=inner, T=shadow, variant="paper")
    wanted, measures = twins.galet(t, N, 0.1, 0.5, rho, inner, shadow)
    same(found, wanted)
    history = t.problem.solution.history
    np.testing.assert_allclose(history["R_x"], measures[:, 0], atol=1e-12)
    np.testing.assert_allclose(history["R_w"], measures[:, 1], atol=1e-12)


def test_galet_with_the_numbers_of_appendix_g():
    t = curve()
    found = t.iterates("galet", N, variant="paper")
    same(found, twins.galet(t, N, 0.3, 1.0, 0.1, 1, 1)[0])


@pytest.mark.parametrize("make", [quadratic, logistic])
def test_galet_with_the_shortcut(make):
    """On strongly convex lower levels; on its own example it diverges, as the paper says it must."""
    t = make()
    found = t.iterates(
        "galet", N, alpha=0.1, beta=0.3, rho=0.3, N=2, T=5, variant="paper", shortcut=True
    )
    same(found, twins.galet(t, N, 0.1, 0.3, 0.3, 2, 5, is_shortcut=True)[0])


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize("rho", ["square", "root"])
def test_perturbed_gd(make, rho):
    """C_0 is so large that the start counts as warm, and the step so small that the zigzag, which is
    chaotic, is not reached within these iterations.
    """
    t = make()
    found = t.iterates(
        "perturbed-gd", N, variant="paper", rho=rho, alpha=0.02, gamma=0.004, start_accuracy=1e12
    )
    wanted, figures = twins.perturbed_gd(t, N, 0.004, 0.02, rho)
    same(found, wanted)
    history = t.problem.solution.history
    for column, name in enumerate(("h", "direction", "lambda")):
        np.testing.assert_allclose(history[name], figures[:, column], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("make", [quadratic, logistic])
def test_perturbed_gd_with_a_rho_of_one_s_own(make):
    t = make()

    def rho(x, y):
        return float(np.sum(t.g_y(x, y) ** 2))  # h itself: exponential decay

    found = t.iterates("perturbed-gd", N, alpha=0.5, gamma=0.004, start_accuracy=1e12, rate_function=rho)
    same(found, twins.perturbed_gd(t, N, 0.004, 0.5, rho)[0])


@pytest.mark.parametrize("make", [quadratic, logistic])
def test_implicit_cg(make):
    """Two steps of conjugate gradients: more would solve these systems to rounding."""
    t = make()
    found = t.iterates(
        "implicit-cg", N, step_x=0.05, step_y=0.3, inner_steps=3, linear_steps=2, linear_tolerance=0.0
    )
    same(found, twins.aid_cg(t, N, 0.05, 0.3, 3, 2))


@pytest.mark.parametrize("make", [quadratic, logistic])
def test_implicit_neumann(make):
    t = make()
    found = t.iterates(
        "implicit-neumann", N, step_x=0.05, step_y=0.3, inner_steps=3, eta=0.3, linear_steps=6
    )
    same(found, twins.aid_neumann(t, N, 0.05, 0.3, 3, 0.3, 6))


@pytest.mark.parametrize("make", [quadratic, logistic])
@pytest.mark.parametrize("restart", [False, True])
def test_unrolled(make, restart):
    t = make()
    found = t.iterates("unrolled", N, step_x=0.05, step_y=0.3, inner_steps=6, restart=restart)
    same(found, twins.rhg(t, N, 0.05, 0.3, 6, restart))


@pytest.mark.parametrize("make", [quadratic, logistic])
def test_iaptt(make):
    t = make()
    found = t.iterates("iaptt", N, step_x=0.05, step_start=0.04, step_y=0.3, inner_steps=6)
    same(found, twins.iaptt(t, N, 0.05, 0.04, 0.3, 6))


@pytest.mark.parametrize("make", [quadratic, logistic])
def test_bda(make):
    t = make()
    found = t.iterates(
        "bda", N, step_x=0.05, step_y=0.3, step_y_upper=0.4, upper_share=0.5, inner_steps=6
    )
    same(found, twins.bda(t, N, 0.05, 0.4, 0.3, 0.5, 6))
