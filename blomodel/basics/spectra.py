"""Eigenvalues of sparse symmetric matrices, block by block where variables never meet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components


def diagonal_blocks(matrix: sp.sparray) -> tuple[np.ndarray, Iterator[sp.csr_array]]:
    """The diagonal entries that stand alone, and the blocks of those that do not.

    Parameters
    ----------
    matrix : sparse array
        Symmetric, up to rounding.
    """
    rows = sp.csr_array(matrix)
    rows.eliminate_zeros()
    count, of_variable = connected_components(rows, directed=False)
    order = np.argsort(of_variable, kind="stable")
    groups = np.split(order, np.searchsorted(of_variable[order], np.arange(1, count)))
    alone = [group[0] for group in groups if len(group) == 1]
    diagonal = rows.diagonal()[np.array(alone, dtype=int)]
    together = (group for group in groups if len(group) > 1)
    return diagonal, (rows if len(g) == rows.shape[0] else rows[g][:, g] for g in together)


def extreme_eigenvalues(matrix: sp.sparray) -> tuple[float, float]:
    """The smallest and the largest eigenvalue; inf and -inf of a matrix without rows."""
    alone, blocks = diagonal_blocks(matrix)
    lowest, largest = float(alone.min(initial=np.inf)), float(alone.max(initial=-np.inf))
    for block in blocks:
        dense = block.toarray()
        values = np.linalg.eigvalsh((dense + dense.T) / 2)
        lowest, largest = min(lowest, float(values[0])), max(largest, float(values[-1]))
    return lowest, largest
