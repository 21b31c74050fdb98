"""Whether SCIP has a word for every function of a tape, without stating a formula for each entry."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from blomodel.compiler.kinds import Rules, first_operand
from blomodel.compiler.tape import Node, Tape
from blomodel.kernels import machine as op
from blomodel.solvers.branching.scip_expressions import UNARY, refuse

# Functions of two operands and of runs that have a counterpart.
_WORDS_FOR_TWO = frozenset(
    (op.ADD, op.SUB, op.MUL, op.DIV, op.POWER, op.MAXIMUM, op.MINIMUM, op.REL_ENTR)
)
_WORDS_FOR_RUNS = frozenset((op.SUM, op.NORM, op.SEGMENT_MAX, op.CUMSUM))


def check_words(tape: Tape, numbers: Collection[str] = ("p",)) -> None:
    """Raise what ``formulas`` would raise, without a formula for each entry.

    Parameters
    ----------
    tape : Tape
    numbers : collection of str
        The blocks that are numbers; the entries of all others are variables.

    Raises
    ------
    UntranslatableError
        Where a function has no counterpart.
    """
    moves: list[np.ndarray] = []  # of each node: which entries hold a variable
    for node in tape.nodes:
        if node.op == op.INPUT:
            moves.append(np.full(node.size, tape.input_names[node.data] not in numbers))
        elif node.op == op.CONSTANT:
            moves.append(np.zeros(node.size, dtype=bool))
        else:
            args = [moves[arg] for arg in node.args]
            if np.any(np.concatenate(args)) and not _has_word(node.op):
                raise refuse(node.op)
            moves.append(np.broadcast_to(_MOVES(node, args), node.size))


def _has_word(opcode: int) -> bool:
    """Whether an instruction can be a formula where it holds variables."""
    known = (op.FILL, op.FREEZE, op.SELECT, op.MATMUL, op.SPARSE)
    return opcode in known or opcode in UNARY or opcode in _WORDS_FOR_TWO or opcode in _WORDS_FOR_RUNS


def _move_selected(node: Node, args: list[np.ndarray]) -> np.ndarray:
    source, target = node.data
    chosen = np.concatenate(args)[source]
    return chosen if target is None else np.bincount(target, chosen, minlength=node.size) > 0


def _move_products(node: Node, args: list[np.ndarray]) -> np.ndarray:
    matrix, columns = node.data
    parts = args[0].reshape(columns, -1).astype(float)
    return np.concatenate([(matrix.csr != 0) @ part > 0 for part in parts])


def _move_runs(node: Node, args: list[np.ndarray]) -> np.ndarray:
    count, length, _ = node.data
    return np.repeat(args[0].reshape(count, length).any(axis=1), node.size // count)


_MOVES = Rules[np.ndarray](
    purpose="the check of words for SCIP",
    unary=first_operand,
    binary=lambda node, args: args[0] | args[1],
    fill=first_operand,
    freeze=first_operand,
    select=_move_selected,
    matmul=lambda node, args: np.array([np.concatenate(args).any()]),
    sparse=_move_products,
    segments=_move_runs,
)
