"""Largest entries of sparse rows, beside dense arithmetic."""

import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.basics.arrays import largest_at, largest_in_rows


@pytest.mark.parametrize("shape", [(7, 5), (3, 0), (0, 4), (1, 1)])
def test_the_largest_entries_are_those_of_the_dense_matrix(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    plain = rng.normal(size=shape) * (rng.random(shape) < 0.4)
    weights = rng.random(shape[1]) * 10
    expected = np.abs(plain).max(axis=1, initial=0.0)
    assert np.array_equal(largest_in_rows(sp.csc_array(plain)), expected)
    weighted = (np.abs(plain) * weights).max(axis=1, initial=0.0)
    assert np.allclose(largest_in_rows(sp.coo_array(plain), weights), weighted, rtol=1e-15)


def test_entries_that_are_stored_in_parts_are_added_first() -> None:
    parts = sp.csr_array(
        (np.array([3.0, -5.0, 1.0]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2)
    )
    assert largest_in_rows(parts) == pytest.approx([2.0])


def test_places_without_an_entry_have_nothing() -> None:
    assert np.array_equal(largest_at(np.array([2, 0, 2]), np.array([1.0, 4.0, 3.0]), 4), [4, 0, 3, 0])
