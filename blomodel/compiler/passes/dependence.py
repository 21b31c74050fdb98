"""Which input elements the outputs of a tape depend on, and which variables do not meet anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse.csgraph import connected_components

from blomodel.basics import limits
from blomodel.compiler.kinds import Rules, first_operand
from blomodel.compiler.tape import Node, Tape
from blomodel.kernels import machine as op


def dependence(tape: Tape, name: str) -> np.ndarray:
    """Whether output element i can depend on element k of a block, as a matrix of booleans.

    A dependence that cancels out counts as one.
    """
    width = tape.input_size(name)
    known: list[np.ndarray] = []
    for node in tape.nodes:
        if node.op == op.INPUT and tape.input_names[node.data] == name:
            known.append(np.eye(width, dtype=bool))
        elif node.op in (op.INPUT, op.CONSTANT):
            known.append(np.zeros((node.size, width), dtype=bool))
        else:
            found = _RULES(node, [known[arg] for arg in node.args])
            known.append(np.broadcast_to(found, (node.size, width)))
    return known[tape.output].copy()


def independent_groups(slope: Tape, rows: Sequence[Tape], name: str = "y") -> list[np.ndarray]:
    """Variables of a block, in groups that no second derivative and no row connects.

    Parameters
    ----------
    slope : Tape
        The gradient of the objective in the block.
    rows : sequence of Tape
        The constraints.
    """
    n = slope.input_size(name)
    work = n * sum(node.size for tape in (slope, *rows) for node in tape.nodes)
    if n <= 1 or not limits.DEPENDENCE_WORK.allows(work):
        return [np.arange(n)]
    meets = dependence(slope, name)
    for tape in rows:
        together = dependence(tape, name).astype(float)
        meets = meets | (together.T @ together > 0)
    count, label = connected_components(meets, directed=False)
    return [np.flatnonzero(label == number) for number in range(count)]


def _select(node: Node, args: list[np.ndarray]) -> np.ndarray:
    source, target = node.data
    taken = np.concatenate(args)[source]
    if target is None:
        return taken
    result = np.zeros((node.size, taken.shape[1]), dtype=bool)
    np.logical_or.at(result, target, taken)
    return result


def _sparse(node: Node, args: list[np.ndarray]) -> np.ndarray:
    matrix, columns = node.data
    pattern = (matrix.csr != 0).astype(float)
    parts = np.split(args[0].astype(float), columns)
    return np.concatenate([pattern @ part > 0 for part in parts])


def _runs(node: Node, args: list[np.ndarray]) -> np.ndarray:
    count, length, _ = node.data
    of_run = args[0].reshape(count, length, -1).any(axis=1)
    return np.repeat(of_run, node.size // count, axis=0)


_RULES = Rules[np.ndarray](
    purpose="the dependence on inputs",
    unary=first_operand,
    binary=lambda node, args: args[0] | args[1],
    fill=first_operand,
    freeze=first_operand,
    select=_select,
    # Any entry of the product may hold any of the factors' entries.
    matmul=lambda node, args: np.any(np.concatenate(args), axis=0)[None, :],
    sparse=_sparse,
    segments=_runs,
)
