"""Sparse linear systems whose entries lie near the diagonal once the unknowns are well ordered.

Systems of things that follow one another, such as the steps of a trajectory, have a narrow band; many
independent ones stand one after another. LAPACK's banded LU with pivoting then costs as much as there
are unknowns, where a general sparse LU spends its time on orderings and on the fill of its pivots.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg.lapack as lapack
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from blomodel.basics import limits

Solve = Callable[[np.ndarray], np.ndarray]


def factorised_band(matrix: sp.csc_array) -> tuple[Solve, Solve] | None:
    """Solvers of the system and of its transpose; None where the band is wide or the matrix singular.

    Parameters
    ----------
    matrix : sparse array
        Square, with a symmetric pattern.
    """
    n = matrix.shape[0]
    if not limits.ENTRIES_IN_A_BAND.allows(matrix.nnz / max(n, 1)):
        return None
    order = reverse_cuthill_mckee(sp.csr_matrix(matrix), symmetric_mode=True)
    place = np.empty(n, dtype=np.intp)
    place[order] = np.arange(n)
    rows = place[matrix.indices]
    columns = np.repeat(place, np.diff(matrix.indptr))
    width = int(np.abs(rows - columns).max(initial=0))
    if not limits.BAND_WIDTH.allows(width):
        return None
    band = np.zeros((3 * width + 1, n), order="F")
    band[2 * width + rows - columns, columns] = matrix.data
    factor, pivots, info = lapack.dgbtrf(band, width, width, overwrite_ab=1)
    if info != 0:
        return None

    def solve(right: np.ndarray, trans: int = 0) -> np.ndarray:
        found, _ = lapack.dgbtrs(factor, width, width, right[order], pivots, trans=trans)
        return np.asarray(found[place])

    return solve, lambda right: solve(right, 1)
