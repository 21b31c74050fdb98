"""Convex quadratic programs with complementarity constraints, solved globally or locally.

    minimise   1/2 z'Pz + q'z
    subject to A_eq z = b_eq,  A_in z <= b_in,
               row rows[k] of A_in tight  or  z[columns[k]] = 0,   z[columns[k]] >= 0.

This is what the KKT conditions make of a bilevel problem with a quadratic lower level.

Examples
--------
The point of {z >= 0, z1 <= 1} with z1 = 1 or z2 = 0 that is nearest to (0.8, 2):

>>> import numpy as np
>>> problem = ComplementarityQP(
...     P=np.eye(2), q=[-0.8, -2.0], A_eq=None, b_eq=None,
...     A_in=[[1.0, 0.0]], b_in=[1.0], rows=[0], columns=[1])
>>> result = solve_globally(problem)
>>> result.status.name, result.z.round(6).tolist()
('OPTIMAL', [1.0, 2.0])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.complementarity_pieces import (
    DECREASE,
    FREE,
    ComplementarityQP,
    ComplementarityResult,
    ComplementarityStatus,
    Pieces,
    Sides,
)
from blomodel.solvers.complementarity_tree import Tree
from blomodel.solvers.convex_qp import Vector

__all__ = [
    "Block",
    "ComplementarityQP",
    "ComplementarityResult",
    "ComplementarityStatus",
    "affordable_nodes",
    "blocks_of",
    "piece_multipliers",
    "solve_globally",
    "solve_locally",
]

NODE_ENTRIES = 5e5  # nonzeros of all nodes together in a tree that is only a step of something else
NODES_AT_LEAST = 30
NOBODY = -1  # to whom an unknown belongs that meets no owner's
ACCEPTED_VIOLATION = 1e-6  # relative; an incumbent that violates more is not taken


def affordable_nodes(problem: ComplementarityQP, most: int) -> int:
    """Nodes of a tree that is only a step of something else: fewer where each takes longer.

    Counted, not timed, so that answers do not depend on the machine.
    """
    size = len(problem.q) + problem.A_eq.nnz + problem.A_in.nnz
    return int(np.clip(NODE_ENTRIES / max(size, 1), NODES_AT_LEAST, most))


def solve_globally(
    problem: ComplementarityQP,
    *,
    incumbent: Any = None,
    node_limit: float = 2000,
    deadline: Deadline = NEVER,
    gap: float = 1e-8,
    stop: Callable[[], bool] | None = None,
) -> ComplementarityResult:
    """Find the global minimum by branch and bound on the pairs.

    Parameters
    ----------
    incumbent
        A known feasible point; its piece is solved first and prunes from the start.
    node_limit, deadline
        Relaxations to solve, and when to end, before the best point so far is returned.
    gap
        Relative difference of value and bound at which the point counts as optimal.
    stop
        Called before every node; the search ends when it returns True.
    """
    pieces = problem.pieces
    tree = Tree(pieces, node_limit=node_limit, deadline=deadline, gap=gap, stop=stop)
    solved_before = pieces.solved
    if incumbent is not None:
        z = np.array(incumbent, dtype=float).ravel()
        scale = 1.0 + np.abs(z).max(initial=0.0)
        if np.all(np.isfinite(z)) and problem.violation(z) <= ACCEPTED_VIOLATION * scale:
            sides = pieces.round(z, pieces.free_sides)
            answer = pieces.solve(sides, refine=True, deadline=deadline)
            if answer.status is InnerStatus.OPTIMAL:
                tree.offer(answer.y, answer.value)
            elif answer.status is not InnerStatus.UNBOUNDED:
                tree.offer(z, problem.objective(z))
    result = tree.search(pieces.free_sides)
    result.nodes = pieces.solved - solved_before
    return result


def solve_locally(
    problem: ComplementarityQP,
    z0: Any,
    *,
    max_moves: int = 50,
    deadline: Deadline = NEVER,
    looks_further: bool = True,
) -> ComplementarityResult:
    """Walk from piece to adjacent piece, from the one ``z0`` lies in, while the objective falls.

    Where that piece is empty another one is searched, if ``looks_further``, which may take long.
    ``LOCAL`` means proved: all pieces that meet at the last point were searched, or its multipliers
    show that none of them is better. ``bound`` stays ``-inf``, since nothing global is known.
    """
    pieces = problem.pieces
    solved_before = pieces.solved

    def report(
        status: ComplementarityStatus, z: Vector | None = None, value: float = np.inf
    ) -> ComplementarityResult:
        return ComplementarityResult(z, value, -np.inf, status, pieces.solved - solved_before)

    start = np.array(z0, dtype=float).ravel()
    sides, answer, status = _first_piece(pieces, start, deadline, looks_further)
    if answer is None:
        return report(status, value=-np.inf if status.name == "UNBOUNDED" else np.inf)
    status = ComplementarityStatus.LIMIT
    for _ in range(max_moves):
        sides, answer = pieces.descend(sides, answer, max_moves, deadline)
        if answer.status is InnerStatus.UNBOUNDED:
            return report(ComplementarityStatus.UNBOUNDED, value=-np.inf)
        if deadline.is_over:
            break
        if not pieces.wrong_pairs(sides, answer).any():
            # With these signs the point also minimises over the union of the biactive pairs'
            # pieces with complementarity dropped, hence over each of them.
            status = ComplementarityStatus.LOCAL
            break
        around = np.where(pieces.biactive(answer.y), FREE, sides).astype(np.int8)
        tree = Tree(
            pieces,
            node_limit=float(np.clip(20_000 / max(1, pieces.program.n), 30, 500)),
            deadline=deadline,
            gap=DECREASE,
            first_improvement=True,
        )
        tree.offer(answer.y, answer.value)
        found = tree.search(around)
        if found.status is ComplementarityStatus.UNBOUNDED:
            return report(ComplementarityStatus.UNBOUNDED, value=-np.inf)
        if not tree.has_improved:
            if found.status is ComplementarityStatus.OPTIMAL:
                status = ComplementarityStatus.LOCAL
            break
        assert found.z is not None
        sides = pieces.round(found.z, pieces.free_sides)
        moved = pieces.solve(sides, refine=True, deadline=deadline)
        if moved.status is not InnerStatus.OPTIMAL or moved.value > answer.value:
            return report(ComplementarityStatus.LIMIT, found.z, found.value)
        answer = moved
    return report(status, answer.y, answer.value)


def piece_multipliers(problem: ComplementarityQP, z: Any) -> tuple[Vector | None, Vector | None]:
    """Multipliers of the equality and inequality rows at the solution of the piece ``z`` lies in.

    On a row that the piece holds tight the multiplier may have either sign.
    """
    pieces = problem.pieces
    answer = pieces.solve(pieces.round(np.asarray(z, dtype=float), pieces.free_sides))
    if answer.multipliers is None:
        return None, None
    return pieces.program.split(answer.multipliers)[:2]


def _first_piece(
    pieces: Pieces, start: Vector, deadline: Deadline, looks_further: bool
) -> tuple[Sides, Answer | None, ComplementarityStatus]:
    """Solve the piece ``start`` lies in or, if it is empty, search for one that is not."""
    sides = pieces.round(start, pieces.free_sides)
    answer = pieces.solve(sides, refine=True, deadline=deadline)
    status = ComplementarityStatus.LIMIT
    if answer.status is InnerStatus.UNBOUNDED:
        return sides, None, ComplementarityStatus.UNBOUNDED
    if answer.status is InnerStatus.OPTIMAL:
        return sides, answer, status
    doubtful = np.where(pieces.biactive(start, 1e-3), FREE, sides).astype(np.int8)
    for choice in (doubtful, pieces.free_sides) if looks_further else ():
        tree = Tree(pieces, node_limit=2 * pieces.n_pairs + 20, deadline=deadline)
        tree.first_improvement = True
        found = tree.search(choice)
        status = found.status
        if found.z is not None:
            sides = pieces.round(found.z, pieces.free_sides)
            answer = pieces.solve(sides, refine=True, deadline=deadline)
            if answer.status is InnerStatus.OPTIMAL:
                return sides, answer, status
        if status is ComplementarityStatus.UNBOUNDED:
            break
    return sides, None, status


@dataclass(frozen=True)
class Block:
    """One of several problems that a problem consists of.

    Attributes
    ----------
    qp : ComplementarityQP
    entries : array of int
        Where its unknowns lie among those of the whole problem.
    """

    qp: ComplementarityQP
    entries: np.ndarray


def blocks_of(qp: ComplementarityQP, owner: np.ndarray) -> list[Block] | None:
    """The problem taken apart by owners; None where unknowns of two owners meet.

    Parameters
    ----------
    owner : array of int
        To whom the first unknowns belong, counted from 0; the others go with those that they meet, or
        to the first owner if they meet none.
    """
    P, A_eq, A_in = (sp.csr_array(matrix) for matrix in (qp.P, qp.A_eq, qp.A_in))
    n, n_eq = len(qp.q), A_eq.shape[0]
    pairs = sp.csr_array((np.ones(len(qp.rows)), (qp.rows, qp.columns)), shape=A_in.shape)
    label = _components(P, sp.vstack([A_eq, abs(A_in) + pairs]))
    of_label = np.full(int(label.max(initial=-1)) + 1, NOBODY)
    known = label[: len(owner)]
    of_label[known] = owner
    if not np.array_equal(of_label[known], owner):
        return None
    of_label[of_label == NOBODY] = 0
    owner, of_row = of_label[label[:n]], of_label[label[n:]]
    blocks = []
    for number in range(int(owner.max(initial=-1)) + 1):
        own, equal, inside = (
            np.flatnonzero(of == number) for of in (owner, of_row[:n_eq], of_row[n_eq:])
        )
        paired = np.flatnonzero(of_row[n_eq:][qp.rows] == number)
        part = ComplementarityQP(
            P=sp.csc_array(P[own][:, own]),
            q=qp.q[own],
            A_eq=sp.csc_array(A_eq[equal][:, own]),
            b_eq=qp.b_eq[equal],
            A_in=sp.csc_array(A_in[inside][:, own]),
            b_in=qp.b_in[inside],
            rows=np.searchsorted(inside, qp.rows[paired]),
            columns=np.searchsorted(own, qp.columns[paired]),
        )
        blocks.append(Block(part, own))
    return blocks


def _components(P: sp.csr_array, rows: sp.sparray) -> np.ndarray:
    """To which component each unknown and then each row belongs."""
    entries = sp.coo_array(sp.vstack([P, rows]))
    counts = entries.data != 0  # P's own rows stand for its unknowns
    ends = entries.row[counts], entries.col[counts]
    size = P.shape[0] + rows.shape[0]
    graph = sp.csr_array((np.ones(len(ends[0])), ends), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1])
