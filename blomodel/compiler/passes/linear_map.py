"""The matrix of a tape that is linear in some of its inputs, carried through the tape node by node.

Running a derivative tape once for each column costs the square of the size where the matrix is sparse;
this costs as much as the matrix has entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.tape import Node, Tape, unknown_instruction
from blomodel.kernels import machine as op

# Instructions that are not linear, or linear but not carried along here (a product of several columns).
_OTHERS = op.UNARY | op.BINARY | op.SEGMENTS | {op.MATMUL, op.SPARSE, op.FREEZE}


def linear_map(tape: Tape, names: Sequence[str], point: Sequence[np.ndarray]) -> sp.csr_array | None:
    """The Jacobian in the named inputs; None where an operation on them is not seen to be linear.

    Parameters
    ----------
    names : sequence of str
        The columns are their entries, one input after another.
    point : sequence of arrays
        Values of all inputs; those of the others may stand in the coefficients.
    """
    sizes = [tape.input_size(name) for name in names]
    begins = dict(zip(names, np.cumsum([0, *sizes]), strict=False))
    width = sum(sizes)
    maps: list[sp.csr_array | None] = []  # None: does not depend on the inputs
    for node in tape.nodes:
        if node.op == op.INPUT:
            name = tape.input_names[node.data]
            maps.append(_unit(node.size, int(begins[name]), width) if name in begins else None)
            continue
        inner = [maps[arg] for arg in node.args]
        if all(part is None for part in inner):
            maps.append(None)
            continue
        carried = _carried(tape, node, inner, width, point)
        if carried is None:
            return None
        maps.append(carried)
    found = maps[tape.output]
    return sp.csr_array((tape.n_outputs, width)) if found is None else found


def _unit(size: int, begin: int, width: int) -> sp.csr_array:
    where = np.arange(size)
    return sp.csr_array((np.ones(size), (where, begin + where)), shape=(size, width))


def _carried(
    tape: Tape, node: Node, inner: Sequence[sp.csr_array | None], width: int, point: Sequence[np.ndarray]
) -> sp.csr_array | None:
    """The node's own map from those of its operands."""
    first = inner[0]
    if node.op == op.NEG:
        return -_given(first, node.size, width)
    if node.op in (op.ADD, op.SUB):
        left, right = (_given(part, node.size, width) for part in inner)
        return left + right if node.op == op.ADD else left - right
    if node.op == op.MUL and None in inner:
        other, moving = (0, 1) if first is None else (1, 0)
        factors = _value(tape, node.args[other], point)
        return _scaled(_given(inner[moving], node.size, width), factors)
    if node.op == op.DIV and inner[1] is None:
        return _scaled(_given(first, node.size, width), 1.0 / _value(tape, node.args[1], point))
    if node.op == op.FILL:
        return _given(first, node.size, width)
    if node.op == op.SELECT:
        source, target = node.data
        sizes = [tape.nodes[arg].size for arg in node.args]
        parts = [_given(part, size, width) for part, size in zip(inner, sizes, strict=True)]
        chosen = sp.csr_array(parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr"))[source]
        if target is None:
            return chosen
        ones, columns = np.ones(len(target)), np.arange(len(target))
        return sp.csr_array((ones, (target, columns)), shape=(node.size, len(target))) @ chosen
    if node.op == op.SUM:
        count, length, _ = node.data
        starts, columns = length * np.arange(count + 1), np.arange(count * length)
        sums = sp.csr_array((np.ones(count * length), columns, starts), shape=(count, count * length))
        return sums @ _given(first, count * length, width)
    if node.op == op.SPARSE and node.data[1] == 1:
        return sp.csr_array(node.data[0].csr @ first)
    if node.op in _OTHERS:
        return None
    raise unknown_instruction(node.op, "the matrix of a linear tape")


def _given(part: sp.csr_array | None, size: int, width: int) -> sp.csr_array:
    """The map of an operand, repeated where it is one number for a longer vector."""
    if part is None:
        return sp.csr_array((size, width))
    return part if part.shape[0] == size else sp.csr_array(part[np.zeros(size, dtype=int)])


def _scaled(part: sp.csr_array, factors: np.ndarray) -> sp.csr_array:
    repeats = np.diff(part.indptr)
    scaled: Any = part.copy()
    scaled.data *= factors[0] if factors.size == 1 else np.repeat(factors, repeats)
    return scaled


def _value(tape: Tape, number: int, point: Sequence[np.ndarray]) -> np.ndarray:
    return Tape(tape.input_names, tape.input_sizes, tape.nodes, number)(*point)
