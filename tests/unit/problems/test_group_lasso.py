"""Problem (21) of the MEHA paper at small size: one weight for each group beats one for all."""

import cvxpy as cp
import numpy as np
import pytest
from reproduce import measures

import blomodel as bm
from blomodel.problems.meha_paper import group_lasso

SIZES = {"m": 60, "n_groups": 12, "n_samples": 40, "n_ones": 15}
SMALL = {"m": 30, "n_groups": 6, "n_samples": 20, "n_ones": 8}


def fit_by_cvxpy(data, x, m):
    """Lower value and lower answer at x by a solver that knows nothing of the iteration."""
    a, b = data[0]
    z = cp.Variable(m)
    weighted = cp.norm(cp.reshape(z, (m // x.size, x.size), order="F"), 2, axis=0) @ x
    fit = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(b - a @ z) + weighted))
    fit.solve(solver=cp.CLARABEL)
    return fit.value, z.value


def test_meha_finds_better_weights_than_a_grid_over_one_weight_and_a_true_lower_answer():
    problem, x, y, data = group_lasso(np.random.default_rng(0), **SIZES)
    x.value = np.full(x.size, 30.0)
    y.value = problem.model.solve_lower(x.value, np.zeros(0), np.zeros(y.size))[0].y
    problem.solve(method="meha", **measures.meha_settings(data, max_steps=4000))
    assert problem.certificate.accepted

    best, answer = fit_by_cvxpy(data, x.value, y.size)
    reached = problem.lower.objective.args[0].value
    assert abs(reached - best) <= 1e-6 * best
    np.testing.assert_allclose(y.value, answer, atol=1e-4)

    shared, _, _, _ = group_lasso(np.random.default_rng(0), **SIZES, is_shared=True)
    best_of_grid = shared.solve(method="grid-search", n_points=20, refinements=0)
    assert problem.value < 0.9 * best_of_grid


@pytest.mark.parametrize("is_open", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_meha_needs_no_settings(is_open):
    """From the middle of the box, or, without upper bounds, from weights of zero."""
    problem, x, y, data = group_lasso(np.random.default_rng(0), **SMALL)
    if is_open:
        problem = bm.BilevelProblem(problem.objective, [x >= 0], problem.lower)
    problem.solve(method="meha")
    assert problem.certificate.accepted
    assert problem.solution.source.startswith("meha")

    _, answer = fit_by_cvxpy(data, x.value, y.size)
    error = np.linalg.norm(y.value - answer) / np.linalg.norm(answer)
    assert error <= 1e-3

    def validation_error(weights):
        return measures.loss(data[1], fit_by_cvxpy(data, weights, y.size)[1])

    # No change of one weight improves the validation error.
    reached = validation_error(x.value)
    assert reached < 0.6 * measures.loss(data[1], np.zeros(y.size))
    for i in range(x.size):
        for change in (-3.0, -0.3, 0.3, 3.0):
            moved = x.value.copy()
            moved[i] = max(0.0, moved[i] + change)
            assert validation_error(moved) > (1 - 1e-3) * reached
