"""Factors solve forth and back, and tell singular systems and dependent rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.certification.factor import Factor, independent_rows, rows_are_independent


@pytest.mark.parametrize("n", [5, 600])
def test_solves_agree_with_numpy(n: int) -> None:
    r = np.random.default_rng(0)
    matrix = sp.csr_array(sp.random_array((n, n), density=3 / n, rng=r) + 5 * sp.eye_array(n))
    matrix = sp.csr_array(sp.diags_array(10.0 ** r.uniform(-4, 4, n)) @ matrix)
    factor, right = Factor.of(matrix), r.standard_normal(n)
    assert factor is not None
    dense = matrix.toarray()
    assert factor.solve(right) == pytest.approx(np.linalg.solve(dense, right), rel=1e-6)
    assert factor.solve_transposed(right) == pytest.approx(np.linalg.solve(dense.T, right), rel=1e-6)


@pytest.mark.parametrize("n", [4, 600])
def test_a_singular_matrix_has_no_factor(n: int) -> None:
    matrix = sp.lil_array(sp.eye_array(n))
    matrix[1] = matrix[[0]]
    matrix[1, 0] = 1.0
    assert Factor.of(sp.csr_array(matrix)) is None


@pytest.mark.parametrize("n", [3, 500])
def test_dependent_rows_are_seen_and_dropped(n: int) -> None:
    balance = sp.csr_array(sp.eye_array(n, n + 1) - sp.eye_array(n, n + 1, k=1))
    last = sp.csr_array(balance.sum(axis=0).reshape(1, -1))
    assert rows_are_independent(balance)
    with_last = sp.csr_array(sp.vstack([balance, last]))
    assert not rows_are_independent(with_last)
    assert len(independent_rows(with_last)) == n
