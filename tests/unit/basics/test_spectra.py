"""Eigenvalues block by block are those of the whole matrix."""

import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.basics.spectra import diagonal_blocks, extreme_eigenvalues


def test_the_same_as_of_the_dense_matrix():
    random = np.random.default_rng(0)
    parts = [m + m.T for m in (random.standard_normal((k, k)) for k in (1, 3, 4, 1, 2))]
    order = random.permutation(12)
    whole = sp.csr_array(sp.block_diag([*parts, np.zeros((1, 1))]))[order][:, order]
    values = np.linalg.eigvalsh(whole.toarray())
    assert extreme_eigenvalues(whole) == pytest.approx((values[0], values[-1]))
    alone, blocks = diagonal_blocks(whole)
    assert alone.size == 3 and sorted(block.shape[0] for block in blocks) == [2, 3, 4]


def test_nothing():
    assert extreme_eigenvalues(sp.csr_array((0, 0))) == (np.inf, -np.inf)
    assert extreme_eigenvalues(sp.csr_array((3, 3))) == (0.0, 0.0)
