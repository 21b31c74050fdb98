"""Numbers as plain arrays, however they came."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def dense(value: Any) -> np.ndarray:
    """A number, an array or a sparse matrix as a plain array."""
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value)


def is_on_disk(values: Any) -> bool:
    """Whether an array is a part of a file, so that looking at all of it takes long."""
    while isinstance(values, np.ndarray):
        if isinstance(values, np.memmap):
            return True
        values = values.base
    return False


def largest_in_rows(matrix: Any, weights: np.ndarray | None = None) -> np.ndarray:
    """The largest entry of each row by its size, columns counted by their weights; 0 in empty rows."""
    rows = sp.csr_array(matrix)
    rows.sum_duplicates()
    sizes = np.abs(rows.data)
    if weights is not None:
        sizes = sizes * weights[rows.indices]
    return largest_at(np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), sizes, rows.shape[0])


def largest_at(places: np.ndarray, sizes: np.ndarray, count: int) -> np.ndarray:
    """The largest of the sizes that belong to each of so many places; 0 where none does."""
    largest = np.zeros(count)
    with np.errstate(invalid="ignore"):  # entries that are no numbers make their place no number
        np.maximum.at(largest, places, sizes)
    return largest
