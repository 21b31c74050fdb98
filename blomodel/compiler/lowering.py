"""From cvxpy expressions to tapes.

``rules.py`` walks the expressions, ``rules_affine.py`` and ``rules_nonlinear.py`` hold one rule
for each atom of cvxpy; ``atoms.py`` loads them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from blomodel.compiler import atoms  # noqa: F401 - loads the rules
from blomodel.compiler.batching import WORTH, batch_nodes
from blomodel.compiler.blocks import Block
from blomodel.compiler.inlining import inline
from blomodel.compiler.rules import Lowering
from blomodel.compiler.tape import Tape

# Tapes of long expressions, each with the expression and its blocks: several parts of a model ask for
# the same objective, alone or together with rows.
_LONG: dict[int, tuple[weakref.ref[Any], tuple[Block, ...], Tape]] = {}


def lower(expressions: Sequence[Any], blocks: Iterable[Block]) -> Tape:
    """Compile expressions of the blocks' leaves into one tape.

    Parameters
    ----------
    expressions : sequence of cvxpy expressions
        Their values, flattened column by column, follow one another in the tape's output.
    blocks : iterable of Block
        The tape's inputs, in this order.
    """
    blocks = tuple(blocks)
    known = [_known(each, blocks) for each in expressions]
    if len(known) == 1 and known[0] is not None:
        return known[0]
    lowering = Lowering(blocks)
    b = lowering.builder
    inputs = {block.name: b.input(block.name) for block in blocks} if any(known) else {}
    numbers, sizes = [], []
    for each, tape in zip(expressions, known, strict=True):
        if tape is not None:
            numbers.append(inline(b, tape, inputs))
            sizes.append(tape.n_outputs)
            continue
        part = lowering.lower(cp.Expression.cast_to_const(each))
        numbers.append(part.node)
        sizes.append(part.size)
    ends = np.cumsum(sizes, dtype=int)
    slices = [slice(int(end) - size, int(end)) for size, end in zip(sizes, ends, strict=True)]
    plain = b.finish(b.concatenate(numbers), slices)
    tape = batch_nodes(plain)
    if len(expressions) == 1 and len(plain.nodes) >= WORTH:
        _keep(expressions[0], blocks, tape)
    return tape


def _known(expression: Any, blocks: tuple[Block, ...]) -> Tape | None:
    """The tape of a long expression that was compiled before."""
    entry = _LONG.get(id(expression))
    if entry is None or entry[0]() is not expression or len(entry[1]) != len(blocks):
        return None
    return entry[2] if all(a is b for a, b in zip(entry[1], blocks, strict=True)) else None


def _keep(expression: Any, blocks: tuple[Block, ...], tape: Tape) -> None:
    number = id(expression)
    try:
        alive = weakref.ref(expression, lambda _: _LONG.pop(number, None))
    except TypeError:  # a plain number or array
        return
    _LONG[number] = (alive, blocks, tape)
