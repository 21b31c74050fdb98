"""Bounds on single variables, read off the rows that hold nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    block = blocks[0] if variable == "x" else blocks[1]
    lower_bound, upper_bound = np.full(block.size, -np.inf), np.full(block.size, np.inf)
    for rows, is_equality in ((inequalities, False), (equalities, True)):
        found = single_bounds(rows, blocks, variable, p)
        bound = -found.constants / found.slopes
        above, below = (found.slopes > 0) | is_equality, (found.slopes < 0) | is_equality
        np.minimum.at(upper_bound, found.columns[above], bound[above])
        np.maximum.at(lower_bound, found.columns[below], bound[below])
    return lower_bound, upper_bound


@dataclass(frozen=True)
class SingleBounds:
    """Rows of the kind slope * variable + constant, in a single entry of a block."""

    rows: np.ndarray
    columns: np.ndarray
    slopes: np.ndarray
    constants: np.ndarray


def single_bounds(
    rows: Rows, blocks: Sequence[Block], variable: str, p: np.ndarray | None
) -> SingleBounds:
    """The affine rows in a single entry of "x" or "y"; without ``p`` only those without parameters."""
    x, y, parameters = blocks
    other = "y" if variable == "x" else "x"
    nothing = np.empty(0)
    none = SingleBounds(np.empty(0, int), np.empty(0, int), nothing, nothing)
    if rows.tape is None:
        return none
    origin = (np.zeros(x.size), np.zeros(y.size), np.zeros(parameters.size) if p is None else p)
    own = polynomial(rows.tape, variable=variable, coefficient=other)
    usable = (own.degree == 1) & (own.coefficient_class[:, 1] <= CONSTANT)
    usable &= polynomial(rows.tape, variable=other, coefficient=variable).degree == 0
    if p is None and parameters.size:
        usable &= polynomial(rows.tape, variable="p", coefficient=variable).degree == 0
    if not np.any(usable):
        return none
    constants = rows.tape(*origin)
    matrix = sp.csr_array(jacobian(rows.tape, (variable,), origin))
    matrix.eliminate_zeros()
    single = np.flatnonzero(usable & (np.diff(matrix.indptr) == 1))
    entries = matrix.indptr[single]
    return SingleBounds(single, matrix.indices[entries], matrix.data[entries], constants[single])
