"""Measures of perturbed gradient descent against NumPy."""

import cvxpy as cp
import numpy as np
import pytest
from smooth_problems import logistic

import blomodel as bm
from blomodel.problems.smooth_papers import rotated, waves
from blomodel.studies import diagnostics


def waves_by_hand(n=5, condition=10.0, seed=0):
    """C.1.1: gradients of f, and those of g = |Hy - x|^2 / 2."""
    h, (c, d, _) = rotated(n, condition, seed)

    def slopes(x, y):
        outer, inner = np.cos(c @ x + d @ y), 2 * (x + y) / ((x + y) @ (x + y) + 1)
        return outer * c + inner, outer * d + inner

    return waves(n, condition, seed), h, slopes


def test_hypergradient_is_f_of_1():
    problem, h, slopes = waves_by_hand()
    x, y = np.linspace(-1, 1, 5), np.linspace(0.5, 2, 5)
    f_x, f_y = slopes(x, y)
    v = np.linalg.solve(h.T @ h, f_y)  # (1b)
    assert diagnostics.hypergradient(problem, x, y) == pytest.approx(f_x + h @ v, abs=1e-9)  # g_yx = -H'


def test_hypergradient_at_the_lower_answer_is_that_of_phi():
    problem, *_ = logistic()
    model, x = problem.model, np.array([0.3, -0.4, 0.2])
    none, near = np.zeros(0), np.zeros(4)

    def phi(at):
        y = model.lower_program.solve(at, none, accuracy=1e-11).y
        return model.f(at, y, none)[0]

    numeric = [(phi(x + 1e-5 * e) - phi(x - 1e-5 * e)) / 2e-5 for e in np.eye(3)]
    y = model.solve_lower(x, none, near, accuracy=1e-11)[0].y
    assert diagnostics.hypergradient(problem, x, y) == pytest.approx(numeric, abs=1e-5)


def test_hypergradient_says_where_1b_has_no_solution():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize((y[0] - x) ** 2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y[1]), [], lower)
    with pytest.raises(bm.errors.ModelError, match="singular"):
        diagnostics.hypergradient(problem, 0.0, [0.0, 0.0])


@pytest.mark.parametrize("rho", ["square", "root"])
def test_perturbation_is_the_solution_of_its_qp(rho):
    problem, h, slopes = waves_by_hand()
    x, y, alpha, first = np.linspace(-1, 1, 5), np.linspace(0.5, 2, 5), 0.7, 3.0
    found = diagnostics.perturbation(problem, x, y, alpha=alpha, rho=rho, first_h=first)
    g_y = h.T @ (h @ y - x)
    grad_h = np.concatenate([-2 * h @ g_y, 2 * h.T @ h @ g_y])
    size = np.linalg.norm(grad_h)
    wish = size**2 if rho == "square" else size * np.sqrt(first)
    direction, f_slope = cp.Variable(10), np.concatenate(slopes(x, y))
    qp = cp.Problem(
        cp.Minimize(cp.sum_squares(direction + f_slope) / 2), [grad_h @ direction + alpha * wish <= 0]
    )
    qp.solve(solver=cp.CLARABEL)
    assert np.concatenate([found.in_x, found.in_y]) == pytest.approx(direction.value, abs=1e-5)
    assert found.norm == pytest.approx(np.linalg.norm(direction.value), abs=1e-5)
    assert found.h == pytest.approx(g_y @ g_y)
    assert found.weight == pytest.approx(float(qp.constraints[0].dual_value), abs=1e-5)
    # The residuals of Definition 2.4 are those of the direction for twice lambda: grad h holds a 2.
    residual = diagnostics.kkt_residual(problem, x, y, weight=2 * found.weight)
    assert residual.in_x + residual.in_y == pytest.approx(found.norm**2, rel=1e-9)


def test_kkt_residual_with_the_best_multiplier():
    problem, h, slopes = waves_by_hand()
    x = np.linspace(-1, 1, 5)
    y = np.linalg.solve(h, x)
    found = diagnostics.kkt_residual(problem, x, y)
    both, f_slope = np.vstack([-h, h.T @ h]), np.concatenate(slopes(x, y))
    least = np.linalg.lstsq(both, -f_slope, rcond=None)
    assert found.in_x + found.in_y == pytest.approx(np.sum((f_slope + both @ least[0]) ** 2))
    assert found.lower == pytest.approx(0.0, abs=1e-20)
    assert found.epsilon == max(found.in_x, found.in_y)
    with pytest.raises(bm.errors.ModelError, match="not both"):
        diagnostics.kkt_residual(problem, x, y, nu=np.zeros(5), weight=1.0)
