"""Calling tapes from compiled loops.

A loop receives a tape as the tuple ``(code, integers, workspace, layout)``; ``layout`` holds
start, number of instructions, output offset, output size, then offset and size of each input, and at
its end the first instruction that depends on the last input, and how often the tape has been run.
"""

from __future__ import annotations

from .jit import compiled
from .machine import run

START, LENGTH, OUTPUT, OUTPUT_SIZE, INPUTS = 0, 1, 2, 3, 4


@compiled
def put(tape, position, values):
    """Copy values into one input of the tape."""
    workspace, layout = tape[2], tape[3]
    offset = layout[INPUTS + 2 * position]
    for i in range(layout[INPUTS + 2 * position + 1]):
        workspace[offset + i] = values[i]


@compiled
def call(tape, out):
    """Run the tape on the inputs put before and copy its output."""
    _run_from(tape, tape[3][START], out)


@compiled
def _run_from(tape, first, out):
    code, integers, workspace, layout = tape
    run(code, integers, workspace, first, layout[LENGTH])
    layout[len(layout) - 1] += 1
    offset = layout[OUTPUT]
    for i in range(layout[OUTPUT_SIZE]):
        out[i] = workspace[offset + i]


@compiled
def call_at(tape, x, y, out):
    """Run a tape whose first two inputs are x and y."""
    put(tape, 0, x)
    put(tape, 1, y)
    call(tape, out)


@compiled
def call_along(tape, x, y, direction, out):
    """Run a derivative tape with the inputs x, y, (parameters, already put), direction."""
    put(tape, 0, x)
    put(tape, 1, y)
    put(tape, 3, direction)
    call(tape, out)


@compiled
def call_further(tape, direction, out):
    """Run a derivative tape in another direction, at the point of its last call_along."""
    put(tape, 3, direction)
    _run_from(tape, tape[3][len(tape[3]) - 2], out)
