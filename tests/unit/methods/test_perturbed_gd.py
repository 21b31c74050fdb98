"""Perturbed gradient descent: the step (8), and the examples C.1.1 to C.1.3 of its paper."""

import numpy as np
import pytest
from smooth_problems import quadratic

from blomodel.errors import UnknownSettingError
from blomodel.problems.smooth_papers import coreset, rotated, waves

NONE = np.zeros(0)


def synthetic(n=20, condition=3.0, seed=0, nonconvex=False):
    """C.1.1 (strongly convex) and C.1.3 (cosine); returns the hypergradient's norm for the first."""
    h, (c, d, _) = rotated(n, condition, seed)
    problem = waves(n, condition, seed, is_nonconvex=nonconvex)
    (x,), (y,) = problem.levels.upper, problem.levels.lower

    def hypergradient(x):
        y = np.linalg.solve(h, x)
        outer, inner = np.cos(c @ x + d @ y), 2 * (x + y) / ((x + y) @ (x + y) + 1)
        return np.linalg.norm(outer * c + inner + np.linalg.solve(h.T, outer * d + inner))

    return problem, x, y, h, hypergradient


def theorem(rho, n_steps, curvature_h=30.0):
    """The parameters of Theorems 4.2 and 4.5 for a given number of iterations."""
    if rho == "root":
        return {"alpha": n_steps ** (-1 / 6), "step_size": min(n_steps ** (-2 / 3), 0.25)}
    alpha = n_steps ** (-1 / 3)
    return {"alpha": alpha, "step_size": min(alpha, 1 / (4 + alpha * curvature_h))}


@pytest.mark.parametrize("rho", ["square", "root"])
def test_more_iterations_give_a_more_accurate_solution_of_c11(rho):
    """For H of condition 3.

    At condition 10 h and the direction fall too, but the hypergradient need not: for seed 1 and "square"
    it rises from 2.4 to 3.1 between 1000 and 100000 iterations.
    """
    figures = []
    for n_steps in (1000, 100000):
        problem, x, _, _, hypergradient = synthetic()
        problem.solve(method="perturbed-gd", rho=rho, max_steps=n_steps, **theorem(rho, n_steps))
        history = problem.solution.history
        figures.append([hypergradient(x.value), history["h"][-1], history["direction"][-1]])
    assert np.all(2 * np.array(figures[1]) < figures[0])


@pytest.mark.parametrize("rho", ["square", "root"])
def test_c11_without_settings(rho):
    problem, x, _, _, hypergradient = synthetic()
    first = hypergradient(x.value)
    problem.solve(method="perturbed-gd", rho=rho)
    assert hypergradient(x.value) < 0.01 * first


@pytest.mark.parametrize("rho", ["square", "root"])
def test_c13_stays_at_lower_answers_while_the_direction_vanishes(rho):
    """The minima of the cosine lie on spheres |Hy - x|^2 = 2 pi (2k + 1); f can come near -1 there."""
    problem, x, y, h, _ = synthetic(nonconvex=True)
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


@pytest.mark.parametrize("condition", [10.0, 100.0])
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
