"""Banded systems against SciPy's general sparse LU."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from blomodel.solvers.systems.banded import factorised_band


def _shuffled_band(n, width, seed):
    draw = np.random.default_rng(seed)
    diagonals = [draw.standard_normal(n - abs(k)) for k in range(-width, width + 1)]
    band = sp.diags_array(diagonals, offsets=list(range(-width, width + 1)))
    order = draw.permutation(n)
    return sp.csc_array(sp.csr_array(band)[order][:, order])


@pytest.mark.parametrize("columns", [None, 3])
def test_same_solutions_as_superlu(columns):
    matrix = _shuffled_band(300, 4, 0)
    right = np.random.default_rng(1).standard_normal(300 if columns is None else (300, columns))
    found = factorised_band(matrix)
    assert found is not None
    known = spl.splu(matrix)
    assert found[0](right) == pytest.approx(known.solve(right), rel=1e-6, abs=1e-6)
    assert found[1](right) == pytest.approx(known.solve(right, trans="T"), rel=1e-6, abs=1e-6)


def test_independent_systems_stand_one_after_another():
    matrix = sp.csc_array(sp.block_diag([_shuffled_band(40, 3, k) for k in range(20)]))
    right = np.ones(800)
    found = factorised_band(matrix)
    assert found is not None and matrix @ found[0](right) == pytest.approx(right, abs=1e-6)


def test_wide_and_singular_ones_are_left_to_others():
    wide = sp.csc_array(sp.random_array((300, 300), density=0.05, rng=0) + sp.eye_array(300))
    assert factorised_band(sp.csc_array(wide + wide.T)) is None
    assert factorised_band(sp.csc_array((5, 5))) is None
