"""Trees over some of the pairs, the others held as they are at the best point.

Where the tree over all pairs has no end in sight, one over a part of them has, and it may hold a better
point (large neighbourhood search; Danna, Rothberg and Le Pape, 2005). Pairs of which the relaxed problem
prefers the other side are left open rather than others. Their number follows from how the trees end:
more after one that searched all its pieces, fewer after one that used up its nodes.
"""

from __future__ import annotations

import numpy as np

from blomodel.methods.run.run import Run
from blomodel.methods.search.piece_tree import piece_tree
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.complementarity import ComplementarityStatus
from blomodel.solvers.complementarity_tree import Tree

FIRST_OPEN = 0.25  # share of the pairs that the first tree leaves open
FACTOR = 1.25  # by which the next tree has more open pairs, or fewer
FEWEST_OPEN = 8
PREFERRED = (
    0.5  # by which a pair that the relaxed problem has otherwise comes first, of a draw from 0 to 1
)
GAP = 1e-6  # relative: by how much a point must be better


class Neighbourhoods:
    """Around the best point of a run; goes on with the number of pairs that suited its trees."""

    n_open: float

    def __init__(self, run: Run) -> None:
        self.tree = piece_tree(run)
        self.n_pairs = self.tree.pieces.n_pairs
        self.n_open = max(FEWEST_OPEN, FIRST_OPEN * self.n_pairs)
        self.draw = np.random.default_rng(run.seed)
        relaxed = self.tree.pieces.solve(self.tree.pieces.free_sides, deadline=run.deadline)
        self.relaxed = relaxed.y if relaxed.status is InnerStatus.OPTIMAL else None

    def search(self, run: Run, rounds: int, nodes: int) -> None:
        """Look at trees of so many nodes until so many in a row have found nothing better."""
        self.tree.use_the_best(run)
        in_vain = 0
        while in_vain < rounds and self.tree.tree.z is not None:
            in_vain = 0 if self._search_once(run, nodes) else in_vain + 1
            run.check_limits()

    def _search_once(self, run: Run, nodes: int) -> bool:
        pieces, whole = self.tree.pieces, self.tree.tree
        assert whole.z is not None
        sides = pieces.round(whole.z, pieces.free_sides)
        rank = self.draw.random(self.n_pairs)
        if self.relaxed is not None:
            rank -= PREFERRED * (pieces.round(self.relaxed, pieces.free_sides) != sides)
        chosen = np.argsort(rank)[: int(self.n_open)]
        sides[chosen] = pieces.free_sides[chosen]
        around = Tree(pieces, node_limit=nodes, deadline=run.deadline, gap=GAP)
        around.offer(whole.z, whole.value)
        solved_before = pieces.solved
        result = around.search(sides)
        run.evaluations += pieces.solved - solved_before
        is_searched = result.status is ComplementarityStatus.OPTIMAL
        self.n_open *= FACTOR if is_searched else 1 / FACTOR
        self.n_open = float(np.clip(self.n_open, min(FEWEST_OPEN, self.n_pairs), self.n_pairs))
        if around.z is None or around.value >= whole.value:
            return False
        whole.offer(around.z, around.value)
        self.tree.take(run, around.z)
        return True


def neighbourhoods(run: Run) -> Neighbourhoods:
    """Those of a run, which its levels share."""
    return run.once(Neighbourhoods, lambda: Neighbourhoods(run))
