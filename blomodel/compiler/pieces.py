"""Tapes whose data lie in a file, run a few rows at a time.

A file may have so many rows that vectors with a number for each of them would fill the memory, and a
tape has several of these in its workspace. Its rows are taken piece by piece: a piece and all that is
computed from it stay in the processor's cache, and the file is read once in a run.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blomodel.basics import limits
from blomodel.basics.arrays import is_on_disk
from blomodel.compiler.row_parts import DATA, ENTRIES, PRODUCTS, NotASumError, RowParts, take_apart
from blomodel.compiler.tape import Node, Tape
from blomodel.kernels import machine as op

PIECE = 1 << 17  # numbers of a piece, with all that is computed from it
FAR_LESS = 16  # numbers of a file for each that is computed, where rows are long


class Pieces:
    """A tape as a sum over pieces of the rows."""

    def __init__(self, tape: Tape, parts: list[RowParts]) -> None:
        self.n_rows = parts[0].n_rows
        self._x = tape.input_names.index("x") if "x" in tape.input_names else None
        self._kinds = [(part, _rows_first(part.tape), _room(part)) for part in parts]

    def __call__(self, *inputs: np.ndarray) -> np.ndarray:
        """What the whole tape would give."""
        return np.sum([share * tape(*at) for share, tape, at in self._each(inputs)], axis=0)

    def sweep(self, inputs: tuple[np.ndarray, ...], first: int, block: np.ndarray) -> None:
        """Fill a block with results at unit vectors, from the first one on, as the last input."""
        block[:] = 0.0
        own = np.empty_like(block)
        for share, tape, at in self._each(inputs):
            tape(*at)  # also runs what does not depend on the last input
            m = tape.machinery
            run = m.code, m.integers, m.workspace, m.prefix, m.inputs[-1], tape.input_sizes[-1]
            op.sweep(*run, m.output, tape.n_outputs, first, own)
            block += share * own

    def _each(
        self, inputs: tuple[np.ndarray, ...]
    ) -> Iterator[tuple[float, Tape, tuple[np.ndarray, ...]]]:
        """The share of each piece in all rows, its tape, and the inputs of it."""
        x = np.empty(0) if self._x is None else np.asarray(inputs[self._x])
        begin = 0
        for part, tape, data in self._kinds:
            while begin + part.size <= self.n_rows:
                rows = slice(begin, begin + part.size)
                part.fill(data, rows)
                yield part.size / self.n_rows, tape, (data, x[part.places(rows)], *inputs)
                begin += part.size


def pieces_of(tape: Tape) -> Pieces | None:
    """The tape in pieces; None where it is run as a whole: without a file, with few or joined rows."""
    computed = sum(node.size for node in tape.nodes if node.op not in (op.CONSTANT, op.INPUT))
    stored = sum(node.size for node in tape.nodes if node.op == op.CONSTANT and is_on_disk(node.data))
    is_wide = FAR_LESS * computed < stored and limits.WIDE_FILE.allows(computed)
    if not stored or is_wide or limits.WHOLE_FILE.allows(computed):
        return None
    try:
        whole = take_apart(tape, 1, "a tape")
        size = max(1, PIECE // sum(node.size for node in whole.tape.nodes))
        parts = [take_apart(tape, size, "a tape")]
        rest = whole.n_rows % parts[0].size
        parts += [take_apart(tape, rest, "a tape")] if rest else []
    except NotASumError:
        return None
    return None if whole.products else Pieces(tape, parts)


def _room(part: RowParts) -> np.ndarray:
    return np.zeros(part.tape.input_size(DATA))


def _rows_first(tape: Tape) -> Tape:
    """The tape with its further inputs before its own, so that the last one is the last one still."""
    names = [name for name in tape.input_names if name not in (DATA, ENTRIES, PRODUCTS)]
    names = [DATA, ENTRIES, *names]
    nodes = [
        Node(node.op, node.args, node.size, names.index(tape.input_names[node.data]))
        if node.op == op.INPUT
        else node
        for node in tape.nodes
    ]
    return Tape(names, [tape.input_size(name) for name in names], nodes, tape.output)
