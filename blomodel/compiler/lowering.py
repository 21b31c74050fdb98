"""From cvxpy expressions to tapes.

``rules.py`` walks the expressions, ``rules_affine.py`` and ``rules_nonlinear.py`` hold one rule
for each atom of cvxpy; ``atoms.py`` loads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from blomodel.compiler import atoms  # noqa: F401 - loads the rules
from blomodel.compiler.blocks import Block
from blomodel.compiler.rules import Lowering
from blomodel.compiler.tape import Tape


def lower(expressions: Sequence[Any], blocks: Iterable[Block]) -> Tape:
    """Compile expressions of the blocks' leaves into one tape.

    Parameters
    ----------
    expressions : sequence of cvxpy expressions
        Their values, flattened column by column, follow one another in the tape's output.
    blocks : iterable of Block
        The tape's inputs, in this order.
    """
    lowering = Lowering(blocks)
    parts = [lowering.lower(cp.Expression.cast_to_const(each)) for each in expressions]
    ends = np.cumsum([part.size for part in parts], dtype=int)
    slices = [slice(int(end) - part.size, int(end)) for part, end in zip(parts, ends, strict=True)]
    output = lowering.builder.concatenate([part.node for part in parts])
    return lowering.builder.finish(output, slices)
