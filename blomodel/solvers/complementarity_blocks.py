"""Complementarity problems whose matrices fall into blocks that never meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from blomodel.solvers.complementarity_pieces import ComplementarityQP

NOBODY = -1


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
