"""How long the formulas of a tape are when they are written out, entry by entry.

A formula for SCIP is a tree, so that what is used several times is written several times. The largest of
ten numbers, each of which stands in two places of the next step, doubles nine times.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from blomodel.compiler.kinds import Rules, first_operand
from blomodel.compiler.tape import Node, Tape
from blomodel.kernels import machine as op

Lengths = np.ndarray  # of the entries of a node; 0 for a number


def lengths(tape: Tape, numbers: Collection[str]) -> list[Lengths]:
    """Lengths of the formulas of every node, where the blocks ``numbers`` hold no variables."""
    found: list[Lengths] = []
    for node in tape.nodes:
        if node.op == op.INPUT:
            is_variable = tape.input_names[node.data] not in numbers
            found.append(np.full(node.size, float(is_variable)))
        elif node.op == op.CONSTANT:
            found.append(np.zeros(node.size))
        else:
            found.append(length_after(node, [found[arg] for arg in node.args]))
    return found


def length_after(node: Node, args: list[Lengths]) -> Lengths:
    """Lengths after an instruction that is neither input nor constant, from those of its operands."""
    return np.broadcast_to(_LENGTHS(node, args), node.size)


def _longer(value: Lengths) -> Lengths:
    return np.where(value > 0, value + 1, 0.0)


def _of_two(node: Node, args: list[Lengths]) -> Lengths:
    twice = 2.0 if node.op in (op.MAXIMUM, op.MINIMUM, op.REL_ENTR) else 1.0
    return _longer(twice * (args[0] + args[1]))


def _of_selected(node: Node, args: list[Lengths]) -> Lengths:
    source, target = node.data
    chosen = np.concatenate(args)[source]
    return chosen if target is None else np.bincount(target, chosen, minlength=node.size)


def _of_products(node: Node, args: list[Lengths]) -> Lengths:
    m, k, n, transposed = node.data
    left = args[0].reshape((m, k) if transposed % 2 else (k, m))
    right = args[1].reshape((k, n) if (transposed >> 1) % 2 else (n, k))
    rows = left.sum(axis=1) if transposed % 2 else left.sum(axis=0)
    columns = right.sum(axis=0) if (transposed >> 1) % 2 else right.sum(axis=1)
    return (rows[None, :] + columns[:, None]).ravel()


def _of_sparse(node: Node, args: list[Lengths]) -> Lengths:
    matrix, columns = node.data
    return np.concatenate([(matrix.csr != 0) @ part for part in args[0].reshape(columns, -1)])


def _of_runs(node: Node, args: list[Lengths]) -> Lengths:
    count, length, _ = node.data
    runs = args[0].reshape(count, length)
    if node.op == op.CUMSUM:
        return np.cumsum(runs, axis=1).ravel()
    if node.op == op.SEGMENT_MAX:
        largest = runs[:, 0]
        with np.errstate(over="ignore"):
            for column in runs.T[1:]:
                largest = _longer(2.0 * (largest + column))
        return largest
    return np.repeat(_longer(runs.sum(axis=1)), node.size // count)


_LENGTHS = Rules[Lengths](
    purpose="the length of formulas",
    unary=lambda _node, args: _longer(args[0]),
    binary=_of_two,
    fill=first_operand,
    freeze=first_operand,
    select=_of_selected,
    matmul=_of_products,
    sparse=_of_sparse,
    segments=_of_runs,
)
