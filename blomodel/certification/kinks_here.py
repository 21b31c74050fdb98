"""Whether a function of the model has a kink at a point, where its derivatives say nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blomodel.compiler.tape import Node, Tape
from blomodel.kernels import machine as op
from blomodel.model.model import Model

AT_KINK = 1e-8  # relative distance from a kink

_KINKED = {op.ABS, op.MAXIMUM, op.MINIMUM, op.SEGMENT_MAX, op.NORM}


def is_at_a_kink(model: Model, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> bool:
    """Whether an absolute value, maximum or norm of the model is at its kink."""
    rows = (model.lower_in, model.lower_eq, model.upper_in, model.upper_eq)
    tapes = [model.f, model.g, *(each.tape for each in rows)]
    return any(tape is not None and _has_kink(tape, (x, y, p)) for tape in tapes)


def _has_kink(tape: Tape, point: Sequence[np.ndarray]) -> bool:
    return any(node.op in _KINKED and _touches(tape, node, point) for node in tape.nodes)


def _touches(tape: Tape, node: Node, point: Sequence[np.ndarray]) -> bool:
    values = [Tape(tape.input_names, tape.input_sizes, tape.nodes, arg)(*point) for arg in node.args]
    first = values[0]
    if node.op == op.ABS:
        return _is_small(first, first)
    if node.op in (op.MAXIMUM, op.MINIMUM):
        return _is_small(first - values[1], np.concatenate([first, values[1]]))
    length = node.data[1]
    runs = first.reshape(-1, length)
    if node.op == op.NORM:
        return _is_small(np.linalg.norm(runs, axis=1), first)
    if length < 2:
        return False
    two = np.sort(runs, axis=1)[:, -2:]
    return _is_small(two[:, 1] - two[:, 0], first)


def _is_small(distance: np.ndarray, size: np.ndarray) -> bool:
    unit = 1 + np.abs(size).max(initial=0.0)
    return bool(np.abs(distance).min(initial=np.inf) <= AT_KINK * unit)
