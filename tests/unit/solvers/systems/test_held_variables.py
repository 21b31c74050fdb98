"""KKT systems by their free variables, beside a dense solve of the whole system."""

import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.solvers.systems.held_variables import solver_of_free_variables


def kinked_system(n: int, n_zero: int, n_further: int, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
    """min of a quadratic function of y plus sizes t of its entries, some zero, with further rows."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(n, n))
    P = sp.csr_array(sp.block_diag([data.T @ data + np.eye(n), sp.csr_array((n, n))]))
    one = sp.eye_array(n)
    signs = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    tied = sp.hstack([sp.diags_array(signs), -one])
    zero = np.sort(rng.permutation(n)[:n_zero])
    held = sp.hstack([-sp.diags_array(signs), -one]).tocsr()[zero]
    further = sp.hstack([sp.csr_array(rng.normal(size=(n_further, n))), sp.csr_array((n_further, n))])
    return P, sp.csr_array(sp.vstack([tied, held, further]))


@pytest.mark.parametrize(("n_zero", "n_further"), [(0, 0), (12, 0), (12, 3), (20, 0)])
@pytest.mark.parametrize("seed", range(3))
def test_the_solution_is_that_of_the_whole_system(n_zero: int, n_further: int, seed: int) -> None:
    P, A = kinked_system(20, n_zero, n_further, seed)
    solve = solver_of_free_variables(P, A)
    if n_zero == 0:
        assert solve is None  # nothing is held, so that nothing is gained
        return
    assert solve is not None
    n, k = P.shape[0], A.shape[0]
    K = np.block([[P.toarray(), A.T.toarray()], [A.toarray(), np.zeros((k, k))]])
    right = np.random.default_rng(seed + 100).normal(size=(n + k, 2))
    expected = np.linalg.solve(K, right)
    for column in (right[:, 0], right):
        y, multipliers = solve(column[:n], column[n:])
        wanted = expected[:, 0] if column.ndim == 1 else expected
        assert np.allclose(np.concatenate([y, multipliers]), wanted, rtol=1e-5, atol=1e-5)


def test_variables_may_be_held_one_by_one_and_tied_in_chains() -> None:
    rng = np.random.default_rng(1)
    data = rng.normal(size=(12, 12))
    P = sp.csr_array(data.T @ data + np.eye(12))
    rows = np.zeros((8, 12))
    rows[0, 3], rows[1, 4] = 2.0, -1.0  # held
    for row, (first, second) in enumerate([(0, 1), (1, 2), (5, 6), (7, 6), (8, 9), (4, 10)], start=2):
        rows[row, first], rows[row, second] = 1.0, rng.normal()
    A = sp.csr_array(rows)
    solve = solver_of_free_variables(P, A)
    assert solve is not None
    K = np.block([[P.toarray(), rows.T], [rows, np.zeros((8, 8))]])
    right = rng.normal(size=20)
    assert np.allclose(
        np.concatenate(solve(right[:12], right[12:])), np.linalg.solve(K, right), atol=1e-6
    )


def test_rows_that_depend_on_others_are_left_to_another_solver() -> None:
    P, A = kinked_system(20, 12, 0, 0)
    twice = sp.csr_array(sp.vstack([A, 2 * A[:1]]))
    assert solver_of_free_variables(P, twice) is None


def test_a_sparse_hessian_is_left_to_a_sparse_factor() -> None:
    _, A = kinked_system(40, 30, 0, 0)
    P = sp.csr_array(sp.block_diag([sp.eye_array(40), sp.csr_array((40, 40))]))
    assert solver_of_free_variables(P, A) is None
