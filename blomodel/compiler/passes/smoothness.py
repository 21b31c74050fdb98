"""Where a tape may fail to have a gradient, found by interval arithmetic on its instructions.

Optimality conditions are necessary only where the functions have gradients. A square root has none at
the end of its domain, and yet a minimiser may lie there: what such conditions exclude would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from blomodel.compiler.passes.intervals import Interval, node_intervals
from blomodel.compiler.tape import Node, Tape
from blomodel.kernels import machine as op

_MASKS = frozenset((op.SIGN, op.GREATER_EQUAL, op.SEGMENT_MAX, op.FIRST_MAX, op.LARGEST))
# Functions whose domain has an end that belongs to it, without a gradient there.
_NEEDS_POSITIVE = frozenset((op.SQRT, op.ENTR))


def is_smooth(tape: Tape, name: str, bounds: Mapping[str, tuple[Any, Any]]) -> bool:
    """Whether the outputs have a gradient in a block at every point of their domain in a box.

    Parameters
    ----------
    tape : Tape
    name : str
        The block in which the gradient is taken.
    bounds : mapping
        Block name to (lower, upper). These must follow from rows of the problem: a function that is
        not defined beyond them then has no end of its own.
    """
    ranges = node_intervals(tape, bounds)
    held: list[bool] = []
    for node in tape.nodes:
        if node.op == op.INPUT:
            held.append(tape.input_names[node.data] == name)
            continue
        held.append(any(held[arg] for arg in node.args))
        if held[-1] and not _has_gradient(node, [ranges[arg] for arg in node.args], ranges):
            return False
    return True


def _has_gradient(node: Node, args: list[Interval], ranges: list[Interval]) -> bool:
    """Whether an instruction has a gradient everywhere in the ranges of its operands."""
    if node.op in _MASKS:
        return False
    if node.op in _NEEDS_POSITIVE:
        return bool(np.all(args[0][0] > 0.0))
    if node.op == op.ABS:
        return bool(np.all((args[0][0] > 0.0) | (args[0][1] < 0.0)))
    if node.op in (op.MAXIMUM, op.MINIMUM):
        (low_a, high_a), (low_b, high_b) = args
        return bool(np.all((low_a > high_b) | (low_b > high_a)))
    if node.op == op.NORM:
        count, length, _ = node.data
        low, high = (end.reshape(count, length) for end in args[0])
        return bool(np.all(np.any((low > 0.0) | (high < 0.0), axis=1)))
    if node.op == op.SAFE_DIV:
        return bool(np.all((args[1][0] > 0.0) | (args[1][1] < 0.0)))
    if node.op == op.REL_ENTR:
        return bool(np.all(args[0][0] > 0.0))
    if node.op == op.POWER:
        return _power_has_gradient(*args)
    return True


def _power_has_gradient(base: Interval, exponent: Interval) -> bool:
    if not np.array_equal(exponent[0], exponent[1]):
        return bool(np.all(base[0] > 0.0))
    number = exponent[0]
    is_whole = number == np.round(number)
    smooth_at_zero = (number >= 1.0) & (base[0] >= 0.0)
    has_a_pole = number < 0.0  # zero is not in its domain
    return bool(np.all(is_whole | (base[0] > 0.0) | smooth_at_zero | has_a_pole))
