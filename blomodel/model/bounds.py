"""Bounds on single variables, read off the rows that hold nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.blocks import Block
from blomodel.compiler.passes.derivatives import jacobian
from blomodel.compiler.passes.polynomial import CONSTANT, polynomial
from blomodel.model.rows import Rows


def bounds_from_rows(
    inequalities: Rows,
    equalities: Rows,
    blocks: Sequence[Block],
    variable: str,
    p: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds that affine rows in a single entry of "x" or "y" imply.

    Without ``p`` only rows without parameters count.
    """
    x, y, parameters = blocks
    block, other = (x, "y") if variable == "x" else (y, "x")
    lower_bound, upper_bound = np.full(block.size, -np.inf), np.full(block.size, np.inf)
    origin = (np.zeros(x.size), np.zeros(y.size), np.zeros(parameters.size) if p is None else p)
    for rows, is_equality in ((inequalities, False), (equalities, True)):
        if rows.tape is None:
            continue
        own = polynomial(rows.tape, variable=variable, coefficient=other)
        usable = (own.degree == 1) & (own.coefficient_class[:, 1] <= CONSTANT)
        usable &= polynomial(rows.tape, variable=other, coefficient=variable).degree == 0
        if p is None and parameters.size:
            usable &= polynomial(rows.tape, variable="p", coefficient=variable).degree == 0
        if not np.any(usable):
            continue
        constants = rows.tape(*origin)
        matrix = sp.csr_array(jacobian(rows.tape, (variable,), origin))
        matrix.eliminate_zeros()
        single = np.flatnonzero(usable & (np.diff(matrix.indptr) == 1))
        entries = matrix.indptr[single]
        columns, slopes = matrix.indices[entries], matrix.data[entries]
        bound = -constants[single] / slopes
        above, below = (slopes > 0) | is_equality, (slopes < 0) | is_equality
        np.minimum.at(upper_bound, columns[above], bound[above])
        np.maximum.at(lower_bound, columns[below], bound[below])
    return lower_bound, upper_bound
