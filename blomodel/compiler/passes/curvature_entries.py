"""How many second derivatives a tape's matrices may bring about, without finding any of them."""

from __future__ import annotations

import numpy as np

from blomodel.compiler.tape import Tape
from blomodel.kernels import machine as op


def curvature_entries(tape: Tape) -> int:
    """Roughly how many entries the second derivative in y, and in y and x, may have.

    A product A Y may connect all entries of Y that stand in one of its rows with each other, and with as
    many entries of x as there are rows. Where there are no matrices, the entries are few.
    """
    total, n_x = 0, tape.input_size("x")
    for node in tape.nodes:
        if node.op == op.MATMUL:
            m, k, n, _ = node.data
            if m > 1 and k > 1:
                total += k * n * (k * n + min(n_x, m))
        elif node.op == op.SPARSE:
            matrix, columns = node.data
            lengths = np.diff(matrix.csr.indptr).astype(np.int64)
            total += columns * int(lengths @ lengths)
    return total
