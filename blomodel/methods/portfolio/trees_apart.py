"""Independent problems with linear KKT conditions: a tree over the pieces of each, by matrices alone.

The KKT conditions of the whole problem are there as matrices, and these fall apart as the problem does.
A tree over the pieces of each block needs no model, no lower solver and no plan of its own, which is
what small problems spend their time on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blomodel.methods.portfolio.trees import nodes_of_a_level
from blomodel.methods.run.run import Run
from blomodel.methods.search.piece_tree import GAP
from blomodel.methods.search.pieces import exact_pieces
from blomodel.reformulations.forms.pieces import convex_objective
from blomodel.solvers.complementarity import ComplementarityStatus, solve_globally
from blomodel.solvers.complementarity_blocks import blocks_of
from blomodel.transformations.independent import Part

SHARE = 0.5  # of the time that is left, for all of them together
IN_VAIN = 3  # blocks without a proof, after which the others are not tried


@dataclass(frozen=True)
class BlockEnd:
    """What the tree of one block has proven.

    Attributes
    ----------
    x, y : arrays
    value, bound : float
        Without the constant of the upper objective.
    """

    x: np.ndarray
    y: np.ndarray
    value: float
    bound: float


def constant_of(run: Run) -> float:
    """What the values of all blocks lack."""
    return exact_pieces(run).constant


def trees_apart(run: Run, parts: Sequence[Part], ended: dict[int, BlockEnd]) -> None:
    """Put the optimum of each part whose tree ends soon under the part's number.

    Sets ``run.is_infeasible`` where one of them has no point.
    """
    model = run.model
    if model.has_integers or convex_objective(model, run.p) is None:
        return
    with run.within(SHARE * run.remaining):
        _search(run, parts, ended)


def _search(run: Run, parts: Sequence[Part], ended: dict[int, BlockEnd]) -> None:
    exact, model = exact_pieces(run), run.model
    owner = np.empty(model.x.size + model.y.size, dtype=int)
    for number, part in enumerate(parts):
        owner[part.x] = owner[model.x.size + part.y] = number
    n_in_vain = 0
    for number, block in enumerate(blocks_of(exact.qp, owner) or ()):
        run.check_limits()
        result = solve_globally(
            block.qp,
            node_limit=nodes_of_a_level(len(block.entries)),
            deadline=run.deadline.earlier(run.remaining / (len(parts) - number)),
            gap=GAP,
        )
        run.evaluations += result.nodes
        if result.status is ComplementarityStatus.INFEASIBLE:
            run.is_infeasible = True
            run.note(f"none of the pieces of the KKT conditions of part {number + 1} has a point")
            return
        if result.status is not ComplementarityStatus.OPTIMAL or result.z is None:
            n_in_vain += 1
            if n_in_vain == IN_VAIN:
                return
            continue
        z = np.zeros(len(exact.qp.q))
        z[block.entries] = result.z
        x, y, _ = exact.split(z)
        part = parts[number]
        ended[number] = BlockEnd(x[part.x], y[part.y], result.value, result.bound)
