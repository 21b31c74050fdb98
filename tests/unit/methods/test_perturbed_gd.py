"""Perturbed gradient descent: the step (8), and the examples C.1.1 to C.1.3 of its paper."""

import numpy as np
import pytest
from smooth_problems import quadratic

from blomodel.errors import UnknownSettingError
from blomodel.problems.smooth_papers import coreset, rotated, waves
from blomodel.studies import diagnostics

NONE = np.zeros(0)


def synthetic(n=20, condition=10.0, seed=0, nonconvex=False):
    """C.1.1 (strongly convex) and C.1.3 (cosine), with the paper's metric for the first.

    The paper measures F(x, y) of (1) at the iterate, here by NumPy.
    """
    h, (c, d, _) = rotated(n, condition, seed)
    problem = waves(n, condition, seed, is_nonconvex=nonconvex)
    (x,), (y,) = problem.levels.upper, problem.levels.lower

    def metric(x, y):
        outer, inner = np.cos(c @ x + d @ y), 2 * (x + y) / ((x + y) @ (x + y) + 1)
        v = np.linalg.solve(h.T @ h, outer * d + inner)
        return np.linalg.norm(outer * c + inner + h @ v)

    return problem, x, y, h, metric


def theorem(rho, n_steps, matrix):
    """The parameters of Theorems 4.2 and 4.5 for a given number of iterations; L_f is about 4.

    The curvature of h = |H'(Hy - x)|^2 is exact.
    """
    curvature_h = 2 * np.linalg.norm(np.hstack([matrix.T, matrix.T @ matrix]), 2) ** 2
    if rho == "root":
        return {"alpha": n_steps ** (-1 / 6), "step_size": min(n_steps ** (-2 / 3), 0.25)}
    alpha = n_steps ** (-1 / 3)
    return {"alpha": alpha, "step_size": min(alpha, 1 / (4 + alpha * curvature_h))}


@pytest.mark.parametrize("rho", ["square", "root"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_more_iterations_give_a_more_accurate_solution_of_c11(rho, seed):
    """The first two plots of Figure 4: condition 10, the theorems' parameters, ||F(x_k, y_k)||."""
    figures = []
    for n_steps in (1000, 100000):
        problem, _, _, h, metric = synthetic(seed=seed)
        problem.solve(method="perturbed-gd", rho=rho, max_steps=n_steps, **theorem(rho, n_steps, h))
        end = problem.solution.iterate
        figures.append(metric(end["x"], end["y"]))
        assert np.linalg.norm(diagnostics.hypergradient(problem, end["x"], end["y"])) == pytest.approx(
            figures[-1], rel=1e-6
        )
    assert 8 * figures[1] < figures[0]


@pytest.mark.slow
@pytest.mark.parametrize("rho", ["square", "root"])
def test_c11_without_settings(rho):
    problem, x, y, h, metric = synthetic(condition=3.0)
    first = metric(np.zeros(20), np.zeros(20))
    problem.solve(method="perturbed-gd", rho=rho)
    # The root's steps end in a band around the solution; rounding moves the end in it (0.8 to 1.1 %).
    band = {"square": 0.01, "root": 0.015}[rho]
    assert metric(x.value, np.linalg.solve(h, x.value)) < band * first


@pytest.mark.parametrize("rho", ["square", "root"])
def test_c13_stays_at_lower_answers_while_the_direction_vanishes(rho):
    """The minima of the cosine lie on spheres |Hy - x|^2 = 2 pi (2k + 1); f can come near -1 there."""
    problem, x, y, h, _ = synthetic(condition=3.0, nonconvex=True)
    problem.solve(method="perturbed-gd", rho=rho, max_steps=200000)
    assert np.cos(0.5 * np.sum((h @ y.value - x.value) ** 2)) == pytest.approx(-1, abs=1e-8)
    assert problem.value < -0.95
    assert problem.solution.history["h"][-1] < 1e-6


@pytest.mark.parametrize("rho", ["square", "root"])
def test_c12_coreset_selection(rho):
    problem = coreset()
    problem.solve(method="perturbed-gd", rho=rho)
    assert problem.value < 1e-6


@pytest.mark.parametrize("rho", ["square", "root"])
def test_one_iteration_is_the_paper_s(rho):
    problem, x, y, *_ = quadratic()
    model, x0, y0 = problem.model, np.ones(5), np.full(6, 0.5)
    x.value, y.value = x0, y0
    alpha, gamma = 0.02, 0.01
    # C_0 so large that the start counts as warm
    problem.solve(
        method="perturbed-gd", rho=rho, alpha=alpha, step_size=gamma, start_accuracy=1e12, max_steps=1
    )
    slope = model.g_grad(x0, y0, NONE)[5:]
    h_grad = 2 * model.g_hessian(x0, y0, NONE)[:, 5:] @ slope
    f_grad = model.f_grad(x0, y0, NONE)
    square = h_grad @ h_grad
    target = square if rho == "square" else np.sqrt(square) * np.linalg.norm(slope)
    weight = max(0.0, alpha * target - h_grad @ f_grad) / square  # (8b)
    wanted = np.concatenate([x0, y0]) - gamma * (f_grad + weight * h_grad)  # (8a)
    np.testing.assert_allclose(x.value, wanted[:5], rtol=1e-10)
    assert problem.solution.history["lambda"][-1] == pytest.approx(weight)


@pytest.mark.parametrize("condition", [pytest.param(10.0, marks=pytest.mark.slow), 100.0])
@pytest.mark.parametrize("rho", ["square", "root"])
def test_converges_without_settings(rho, condition):
    problem, x, y, x_best, y_best = quadratic(condition=condition)
    problem.solve(method="perturbed-gd", rho=rho)
    np.testing.assert_allclose(x.value, x_best, atol=1e-3)
    np.testing.assert_allclose(y.value, y_best, atol=1e-3)


def test_an_unknown_choice_of_rho_is_named():
    problem, *_ = quadratic()
    with pytest.raises(UnknownSettingError, match="rho = 'cube'"):
        problem.solve(method="perturbed-gd", rho="cube")


@pytest.mark.parametrize("rho", ["square", "root"])
def test_the_paper_s_variant_takes_its_parameters_from_the_corollaries(rho):
    """One step and one alpha for all iterations, from their number; only L_f and L_h are estimated."""
    n_steps = 1000
    problem, *_ = synthetic(condition=3.0)
    problem.solve(
        method="perturbed-gd", variant="paper", rho=rho, max_iterations=n_steps, history_every=1
    )
    steps = np.unique(problem.solution.history["step"])
    assert len(steps) == 1
    assert len(problem.solution.history["h"]) == n_steps
    assert 0 < steps[0] <= n_steps ** (-1 / 3 if rho == "square" else -2 / 3)
    assert "extrapolated" not in problem.solution.source
