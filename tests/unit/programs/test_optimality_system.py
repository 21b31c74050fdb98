"""How minimisers of joined problems move, against each problem alone and against differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.programs.optimality_system import factor_system, is_thin, solve_sensitivity

RNG = np.random.default_rng(2)


def _system(n: int, k: int, n_x: int) -> tuple[np.ndarray, ...]:
    root = RNG.normal(size=(n, n))
    return (
        root @ root.T + np.eye(n),
        RNG.normal(size=(k, n)),
        RNG.normal(size=(n, n_x)),
        RNG.normal(size=(k, n_x)),
    )


@pytest.mark.parametrize(
    "sizes", [[(4, 2)], [(3, 1), (5, 0), (4, 3), (1, 0)], [(6, 2)] * 5, [(5, 2)] * 30]
)
def test_agrees_with_the_whole_system(sizes: list[tuple[int, int]]) -> None:
    parts = [_system(n, k, 3) for n, k in sizes]
    H, A = sp.csc_array(sp.block_diag([part[0] for part in parts])), [part[1] for part in parts]
    A = sp.csr_array(sp.block_diag(A)).reshape(sum(k for _, k in sizes), H.shape[0])
    R, B = (sp.csr_array(np.vstack([part[place] for part in parts])) for place in (2, 3))
    order = RNG.permutation(H.shape[0])
    H, A, R = sp.csc_array(H[order][:, order]), sp.csr_array(A[:, order]), sp.csr_array(R[order])
    n, k = H.shape[0], A.shape[0]
    K = np.block([[H.toarray(), A.toarray().T], [A.toarray(), np.zeros((k, k))]])
    right = -np.vstack([R.toarray(), B.toarray()])
    expected = np.linalg.solve(K, right)
    np.testing.assert_allclose(solve_sensitivity(H, A, R, B), expected[:n], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(factor_system(H, A)(right[:, 0]), expected[:, 0], rtol=1e-6, atol=1e-8)


def test_many_followers_are_a_thin_system_and_one_is_not() -> None:
    block, rows = np.ones((5, 5)), np.ones((2, 5))
    many = sp.csc_array(sp.block_diag([block] * 30)), sp.csr_array(sp.block_diag([rows] * 30))
    assert is_thin(*many)
    assert not is_thin(sp.csc_array(np.ones((150, 150))), sp.csr_array((0, 150)))
    assert not is_thin(
        sp.csc_array(block), sp.csr_array(rows)
    )  # small ones are dense whatever they hold


def test_a_flat_part_has_no_derivative() -> None:
    H, none = sp.csc_array(np.diag([1.0, 0.0])), sp.csr_array((0, 2))
    assert solve_sensitivity(H, none, sp.csc_array(np.ones((2, 1))), sp.csr_array((0, 1))) is None


def test_a_large_dense_hessian_takes_no_spectrum() -> None:
    H, _, R, _ = _system(200, 0, 200)
    none = sp.csr_array((0, 200))
    found = solve_sensitivity(sp.csc_array(H), none, sp.csc_array(R), none)
    np.testing.assert_allclose(found, -np.linalg.solve(H, R), rtol=1e-8, atol=1e-8)
