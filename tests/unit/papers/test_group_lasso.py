"""Problem (21) of the MEHA paper at small size: one weight for each group beats one for all."""

import importlib.util
from pathlib import Path

import cvxpy as cp
import numpy as np

_here = Path(__file__).parents[3] / "examples" / "reproduce" / "models.py"
_spec = importlib.util.spec_from_file_location("models", _here)
models = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(models)

SIZES = {"m": 60, "n_groups": 12, "n_samples": 40, "n_ones": 15}


def test_meha_finds_better_weights_than_a_grid_over_one_weight_and_a_true_lower_answer():
    problem, x, y, data = models.group_lasso(np.random.default_rng(0), **SIZES)
    x.value = np.full(x.size, 30.0)
    y.value = problem.model.solve_lower(x.value, np.zeros(0), np.zeros(y.size))[0].y
    problem.solve(method="meha", **models.meha_settings(data, max_steps=4000))
    assert problem.certificate.accepted

    (a, b), (c, d), _ = data
    z = cp.Variable(y.size)
    weighted = cp.norm(cp.reshape(z, (5, 12), order="F"), 2, axis=0) @ x.value
    fit = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(b - a @ z) + weighted))
    fit.solve(solver=cp.CLARABEL)
    reached = problem.lower.objective.args[0].value
    assert abs(reached - fit.value) <= 1e-6 * fit.value
    np.testing.assert_allclose(y.value, z.value, atol=1e-4)

    shared, _, _, _ = models.group_lasso(np.random.default_rng(0), **SIZES, is_shared=True)
    best_of_grid = shared.solve(method="grid-search", n_points=20, refinements=0)
    assert problem.value < 0.9 * best_of_grid
