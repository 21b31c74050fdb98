"""Factors solve forth and back, and tell singular systems and dependent rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.certification import factor as factor_module
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


def fixed_entries(n: int, n_fixed: int) -> sp.csr_array:
    """KKT conditions of a dense quadratic form whose first entries are fixed at zero."""
    r = np.random.default_rng(1)
    root = r.standard_normal((n, n))
    fixed = sp.csr_array(sp.diags_array(r.uniform(0.5, 2, n_fixed)) @ sp.eye_array(n_fixed, n))
    curved = sp.csr_array(root @ root.T / n + np.eye(n))
    return sp.csr_array(sp.block_array([[curved, fixed.T], [fixed, None]]))


@pytest.mark.parametrize("n_fixed", [0, 200, 299, 300])
def test_entries_that_are_fixed_need_no_factor(n_fixed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = fixed_entries(300, n_fixed)
    order = np.random.default_rng(2).permutation(matrix.shape[0])
    matrix = sp.csr_array(matrix[order])
    sizes, factorise = [], factor_module._factorise
    monkeypatch.setattr(
        factor_module, "_factorise", lambda m: (sizes.append(m.shape[0]), factorise(m))[1]
    )
    monkeypatch.setattr(limits, "DENSE_ACTIVE_SET", limits.Limit(20, "", ""))
    factor = Factor.of(matrix)
    assert factor is not None and sizes == ([300 - n_fixed] if n_fixed < 300 else [])
    rights = np.random.default_rng(3).standard_normal((matrix.shape[0], 3))
    dense = matrix.toarray()
    for right in (rights, rights[:, 0]):
        assert factor.solve(right) == pytest.approx(np.linalg.solve(dense, right), rel=1e-8, abs=1e-9)
        back = factor.solve_transposed(right)
        assert back == pytest.approx(np.linalg.solve(dense.T, right), rel=1e-8, abs=1e-9)


def test_an_entry_that_is_fixed_twice_leaves_no_factor() -> None:
    matrix = sp.lil_array(fixed_entries(300, 200))
    matrix[301] = matrix[[300]]
    assert Factor.of(sp.csr_array(matrix)) is None


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
