"""Functions that may leave the range of numbers in which SCIP counts.

SCIP takes 1e20 for infinity, so that exp(t) has no values where t is above 46: points beyond would be
missing from a relaxation, and its minimum would be no bound. In an objective, log(t) and the like are no
better: they end at 46 for SCIP, and go on for ever. Angles of sines are stated by whole turns,
which SCIP counts in integers: where these have no end, it has called an unbounded problem solved. Here
such t are looked for, first by intervals, then by asking how large t can get under the simple rows of a
problem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.compiler.passes.intervals import node_intervals
from blomodel.compiler.passes.polynomial import AFFINE, NOT_POLYNOMIAL, polynomial
from blomodel.compiler.tape import Tape
from blomodel.kernels import machine as op
from blomodel.solvers.branching.scip import ScipProgram
from blomodel.solvers.branching.scip_expressions import (
    WAVES,
    Formula,
    UntranslatableError,
    formulas,
    is_number,
    node_formulas,
)

Array = np.ndarray
Box = Mapping[str, tuple[Array, Array]]

TOP = 40.0  # exp of it is 2e17, and products with it stay below SCIP's infinity
RISING = frozenset((op.EXP,))
BOTH_WAYS = frozenset((op.SINH, op.COSH, op.TANH, op.SIGMOID, op.SOFTPLUS))
FARTHEST = 1e15  # arguments of slow functions up to which SCIP sees all of them
SLOW = frozenset((op.LOG, op.LOG1P, op.SQRT, op.ASINH))
FARTHEST_ANGLE = 1e6  # up to which SCIP's tolerances leave a turn as it is
NODES = 200  # for one question


def steep_places(tape: Tape, box: Box) -> list[tuple[int, int, float]]:
    """Arguments of exponentials that intervals cannot keep below the top: node, entry and sign."""
    if not any(node.op in RISING or node.op in BOTH_WAYS for node in tape.nodes):
        return []
    ranges = node_intervals(tape, box)
    found = []
    for node in tape.nodes:
        if node.op in RISING or node.op in BOTH_WAYS:
            low, high = ranges[node.args[0]]
            found += [(node.args[0], int(k), 1.0) for k in np.flatnonzero(~(high <= TOP))]
            if node.op in BOTH_WAYS:
                found += [(node.args[0], int(k), -1.0) for k in np.flatnonzero(~(low >= -TOP))]
    return found


def slow_places(tape: Tape, box: Box) -> list[tuple[int, int, float]]:
    """Arguments of logarithms and roots that intervals cannot show to end: node, entry and sign."""
    if not any(node.op in SLOW for node in tape.nodes):
        return []
    ranges = node_intervals(tape, box)
    found = []
    for node in tape.nodes:
        if node.op in SLOW:
            low, high = ranges[node.args[0]]
            found += [(node.args[0], int(k), 1.0) for k in np.flatnonzero(~(high <= FARTHEST))]
            if node.op == op.ASINH:
                found += [(node.args[0], int(k), -1.0) for k in np.flatnonzero(~(low >= -FARTHEST))]
    return found


def endless_angles(tape: Tape, box: Box) -> list[tuple[int, int, float]]:
    """Arguments of sines and the like that intervals cannot show to end: node, entry and sign."""
    if not any(node.op in WAVES for node in tape.nodes):
        return []
    ranges = node_intervals(tape, box)
    found = []
    for node in tape.nodes:
        if node.op in WAVES:
            low, high = ranges[node.args[0]]
            found += [(node.args[0], int(k), 1.0) for k in np.flatnonzero(~(high <= FARTHEST_ANGLE))]
            found += [(node.args[0], int(k), -1.0) for k in np.flatnonzero(~(low >= -FARTHEST_ANGLE))]
    return found


def stays_in_range(
    tapes: Sequence[Tape],
    box: Box,
    rows: Sequence[tuple[Tape, bool]] = (),
    level: tuple[Tape, float] | None = None,
    objective: Tape | None = None,
    deadline: Deadline = NEVER,
) -> bool:
    """Whether exponentials and angles in tapes stay within what SCIP can count, wherever some rows hold.

    Parameters
    ----------
    tapes : sequence of Tape
    box : mapping
        Ranges of x, y and p.
    rows : sequence of (Tape, bool)
        Constraints, and whether they are equations; the quadratic ones among them are used.
    level : (Tape, float), optional
        A function and a value above which points are of no interest.
    objective : Tape, optional
        What is minimised, in which slow functions count too.
    deadline : Deadline
        After it the answer is that they may not.
    """
    places = [(tape, place, TOP) for tape in tapes for place in steep_places(tape, box)]
    places += [(tape, place, FARTHEST_ANGLE) for tape in tapes for place in endless_angles(tape, box)]
    if objective is not None:
        places += [(objective, place, FARTHEST) for place in slow_places(objective, box)]
    try:
        return all(
            not deadline.is_over and _is_low(tape, place, top, box, rows, level, deadline)
            for tape, place, top in places
        )
    except UntranslatableError:
        return False


def _is_low(
    tape: Tape,
    place: tuple[int, int, float],
    top: float,
    box: Box,
    rows: Sequence[tuple[Tape, bool]],
    level: tuple[Tape, float] | None,
    deadline: Deadline,
) -> bool:
    program, inputs = ScipProgram(finds_points=False), {}

    def turn(angle: Formula, low: float, high: float) -> Formula:
        """An angle within a turn; any angle at all where there may be turns without end."""
        if -FARTHEST_ANGLE <= low and high <= FARTHEST_ANGLE:
            return program.within_a_turn(angle, low, high)
        return program.variables(np.zeros(1), np.full(1, 2 * np.pi))[0]

    for name, (low, high) in box.items():
        inputs[name] = [float(value) for value in low] if name == "p" else program.variables(low, high)
    for part, is_equality in rows:
        facts = polynomial(part)
        plain = (facts.degree != NOT_POLYNOMIAL) & (facts.coefficient_class.max(axis=1) <= AFFINE)
        kept = [
            row
            for row, is_plain in zip(formulas(part, inputs, program.named, turn), plain, strict=True)
            if is_plain
        ]
        (program.equal_zero if is_equality else program.at_most_zero)(kept)
    if level is not None and not steep_places(level[0], box):
        (value,) = formulas(level[0], inputs, program.named, turn)
        program.at_most_zero([value - level[1]])
    node, entry, sign = place
    argument: Any = node_formulas(tape, inputs, program.named, turn)[node][entry]
    if is_number(argument):
        return bool(sign * argument <= top)
    program.minimise(-sign * argument)
    found = program.solve(0, max_nodes=NODES, max_programs=NODES, enough=-top, deadline=deadline)
    return bool(-found.bound <= top)
