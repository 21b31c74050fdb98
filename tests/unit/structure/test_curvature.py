"""Extreme eigenvalues block by block, against NumPy on the whole matrix."""

import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.structure.curvature import _extreme_eigenvalues


@pytest.mark.parametrize("sizes", [(1,), (1, 1, 1), (3, 1, 4), (6,)])
def test_blocks_have_the_eigenvalues_of_the_whole(sizes):
    draw = np.random.default_rng(sum(sizes))
    blocks = [draw.normal(size=(n, n)) for n in sizes]
    whole = sp.block_diag([block + block.T for block in blocks]).toarray()
    order = draw.permutation(len(whole))
    shuffled = whole[np.ix_(order, order)]
    wanted = np.linalg.eigvalsh(shuffled)[[0, -1]]
    assert _extreme_eigenvalues(sp.csr_array(shuffled)) == pytest.approx(tuple(wanted))
