"""About how long an instruction takes, by which it is decided whether it is divided among threads."""

from __future__ import annotations

import numpy as np

from blomodel.basics import limits
from blomodel.kernels import machine as op

# Nanoseconds for an entry, an entry of a function such as exp, a multiplication of a product with a
# vector (the time of reading the matrix) or with a matrix, and one of a sparse product.
ENTRY, FUNCTION, READ, MULTIPLIED, SPARSE = 1.0, 6.0, 0.6, 0.2, 1.5
_CHEAP = frozenset((op.NEG, op.ABS, op.SIGN, op.SQRT))
_WITH_LOG = frozenset((op.POWER, op.REL_ENTR))


def estimated_work(row: np.ndarray, n_nonzeros: int) -> float:
    """Nanoseconds of an instruction, about; 0 for one that cannot be divided.

    Parameters
    ----------
    n_nonzeros : int
        Of the matrix, where it is a sparse product.
    """
    opcode, n = int(row[0]), int(row[1])
    if opcode in op.UNARY:
        return n * (ENTRY if opcode in _CHEAP else FUNCTION)
    if opcode in op.BINARY:
        return n * (FUNCTION if opcode in _WITH_LOG else ENTRY)
    if opcode in (op.FILL, op.GATHER):
        return n * ENTRY
    if opcode in op.SEGMENTS and opcode != op.LARGEST:
        is_sum = opcode == op.SUM
        return n * int(row[4]) * ENTRY if n > 1 or is_sum else 0.0
    if opcode == op.MATMUL:
        columns = int(row[6])
        return n * int(row[4]) * columns * (READ if columns == 1 else MULTIPLIED) if n > 1 else 0.0
    if opcode == op.SPARSE:
        return n_nonzeros * int(row[6]) * SPARSE
    return 0.0


def divisible(code: np.ndarray, integers: np.ndarray) -> np.ndarray:
    """The instructions, with a mark on those that are worth being divided."""
    least = 2 * limits.UNDIVIDED_WORK.value
    sizes = np.maximum(code[:, [1, 4, 6]].astype(float), 1.0)
    if not np.any(sizes.prod(axis=1) * FUNCTION >= least):  # so it is for most tapes
        return code
    marked = code
    for number, row in enumerate(code):
        n_nonzeros = 0
        if row[0] == op.SPARSE:
            end = int(row[4]) + int(row[1])
            # Lists that lie outside, see large_constants, are long.
            n_nonzeros = int(integers[end]) if end < len(integers) else least
        if estimated_work(row, n_nonzeros) >= least:
            if marked is code:
                marked = code.copy()
            marked[number, 0] += np.uint64(op.DIVISIBLE)
    return marked
