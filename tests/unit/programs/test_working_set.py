"""Few entries that differ from zero, found one set after the other, beside a cone solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from blomodel.programs.working_set import WorkingSet, minimise_small

M, N = 30, 200


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    A = random.standard_normal((M, N))
    true = np.where(random.random(N) < 0.1, 3 * random.standard_normal(N), 0.0)
    return A, A @ true + 0.1 * random.standard_normal(M)


def by_cvxpy(A: np.ndarray, b: np.ndarray, sizes: np.ndarray, ridge: float = 0.0) -> float:
    y = cp.Variable(N)
    g = cp.sum_squares(A @ y - b) / 2 + ridge * cp.sum_squares(y) / 2 + sizes @ cp.abs(y)
    return cp.Problem(cp.Minimize(g)).solve(solver=cp.CLARABEL)


def solved(kept: WorkingSet, A: np.ndarray, b: np.ndarray, sizes: np.ndarray, ridge: float = 0.0):
    products = [0]

    def product(vector: np.ndarray) -> np.ndarray:
        products[0] += 1
        return A.T @ (A @ vector) + ridge * vector

    def is_exact(y: np.ndarray, slope: np.ndarray) -> bool:
        off = np.maximum(np.abs(slope) - sizes, 0.0)
        return bool(np.where(y != 0, np.abs(slope + sizes * np.sign(y)), off).max() <= 1e-9)

    y = kept.minimise(lambda z: product(z) - A.T @ b, product, sizes, np.zeros(N), is_exact)
    assert y is not None
    value = np.sum((A @ y - b) ** 2) / 2 + ridge * y @ y / 2 + sizes @ np.abs(y)
    return float(value), products[0]


@pytest.mark.parametrize("weight", [10.0, 0.1, 1e-4])
def test_the_value_of_a_cone_solver(weight: float) -> None:
    A, b = data()
    sizes = np.full(N, weight)
    assert solved(WorkingSet(), A, b, sizes)[0] == pytest.approx(by_cvxpy(A, b, sizes), rel=1e-6)


def test_entries_without_a_size_are_always_in_the_set() -> None:
    A, b = data(1)
    sizes = np.where(np.arange(N) < 3, 0.0, 1.0)
    assert solved(WorkingSet(), A, b, sizes)[0] == pytest.approx(by_cvxpy(A, b, sizes), rel=1e-6)


def test_columns_are_kept_from_one_weight_to_the_next() -> None:
    A, b = data(2)
    kept = WorkingSet()
    _, first = solved(kept, A, b, np.full(N, 0.5))
    value, again = solved(kept, A, b, np.full(N, 0.45))
    assert again < first / 2
    assert value == pytest.approx(by_cvxpy(A, b, np.full(N, 0.45)), rel=1e-6)
    # Another diagonal is added to what is kept, another matrix replaces it.
    value, more = solved(kept, A, b, np.full(N, 0.45), ridge=0.3)
    assert value == pytest.approx(by_cvxpy(A, b, np.full(N, 0.45), 0.3), rel=1e-6) and more < first
    value, _ = solved(kept, 2 * A, b, np.full(N, 0.45))
    assert value == pytest.approx(by_cvxpy(2 * A, b, np.full(N, 0.45)), rel=1e-6)


def test_a_small_problem_with_a_singular_matrix() -> None:
    random = np.random.default_rng(3)
    A = random.standard_normal((5, 12))
    linear, sizes = A.T @ random.standard_normal(5), np.full(12, 0.01)
    z = minimise_small(A.T @ A, linear, sizes, np.zeros(12))
    slope = A.T @ A @ z + linear
    assert np.abs(slope[z == 0]).max() <= 0.01 * (1 + 1e-9)
    assert slope[z != 0] == pytest.approx(-0.01 * np.sign(z[z != 0]), abs=1e-9)
