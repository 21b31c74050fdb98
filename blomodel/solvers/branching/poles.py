"""Denominators that may vanish: SCIP sees nothing within 1e-9 of their zeros.

Where an objective falls without limit towards such a place, SCIP's minimum lies at the edge of what it
leaves out, and is no bound. Elsewhere nothing better is left out.
"""

from __future__ import annotations

import numpy as np

from blomodel.compiler.passes.intervals import node_intervals
from blomodel.compiler.tape import Tape
from blomodel.kernels import machine as op
from blomodel.solvers.branching.steep import Box

NEAREST = 1e-8  # a little more than SCIP's "expr/pow/minzerodistance"
HIGHEST = 1e6  # a bound of a function with poles that is farther from zero may rest on one

Poles = list[tuple[Tape, list[int]]]  # nodes whose zeros are poles, by tape


def find_poles(tapes: list[Tape], box: Box) -> Poles:
    """Denominators and bases of negative powers that intervals cannot keep away from zero."""
    found = []
    for tape in tapes:
        nodes = _below(tape)
        if nodes:
            ranges = node_intervals(tape, box)
            nodes = [
                k for k in nodes if not np.all((ranges[k][0] > NEAREST) | (ranges[k][1] < -NEAREST))
            ]
        if nodes:
            found.append((tape, nodes))
    return found


def is_at_a_pole(poles: Poles, at: Box) -> bool:
    """Whether a denominator is next to zero at a point (ranges without a width)."""
    for tape, nodes in poles:
        values = node_intervals(tape, at)
        if any(np.any(np.abs(values[k][0]) <= NEAREST) for k in nodes):
            return True
    return False


def _below(tape: Tape) -> list[int]:
    """Nodes below a fraction stroke."""
    found = set()
    for node in tape.nodes:
        if node.op == op.DIV:
            found.add(node.args[1])
        elif node.op == op.POWER:
            exponent = tape.nodes[node.args[1]]
            if exponent.op != op.CONSTANT or np.any(exponent.data < 0):
                found.add(node.args[0])
    return sorted(k for k in found if tape.nodes[k].op != op.CONSTANT)
