"""Steps that branch and bound over the KKT pieces, at every size where these are exact."""

from __future__ import annotations

from dataclasses import dataclass

from blomodel.basics import limits
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.step import Omission, Outlook, Share, Step
from blomodel.methods.run.run import Run
from blomodel.methods.search.piece_tree import piece_tree

WORK = 300_000  # nodes of the first level, times the unknowns of each
FEWEST_NODES, MOST_NODES = 50, 4000  # of the first level


@dataclass(frozen=True)
class Tree(Step):
    """Branch and bound over the KKT pieces, before anything else."""

    n_pairs: int
    size: int
    source: str

    name = "tree over KKT pieces"
    family = "tree"

    @classmethod
    def consider(cls, situation: Situation) -> Tree | Omission | None:
        """For exact pieces and few pairs, where it often ends at once."""
        if situation.objective is None:
            return Omission(cls.name, situation.why_no_pieces)
        n_pairs = situation.model.n_pairs
        if not limits.TREE_PAIRS.allows(n_pairs):
            return None
        return cls(n_pairs, situation.size, situation.objective.source)

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            f"branch and bound over the pieces of the linear KKT conditions ({self.n_pairs} "
            f"pairs), on which the upper objective is a convex quadratic ({self.source}); "
            f"{self.first_nodes:,} nodes, "
            "then twice as many at each level; where it ends, the optimum is proven and nothing follows"
        )

    @property
    def first_nodes(self) -> int:
        """Nodes of the first level: fewer where each is dear."""
        return min(MOST_NODES, max(FEWEST_NODES, WORK // max(self.size, 1)))

    def run(self, run: Run, level: int) -> Outlook:
        """Branch until the bound meets the value, or the nodes of this level are used up."""
        tree = piece_tree(run)
        if tree.go_on(run, self.first_nodes * 2**level):
            return Outlook.SETTLED
        return Outlook.DONE if tree.has_ended else Outlook.MORE


@dataclass(frozen=True)
class TreeAfterSearch(Tree):
    """The same after the search from starts, whose best point cuts branches off."""

    share = Share(part=0.4)

    @classmethod
    def consider(cls, situation: Situation) -> TreeAfterSearch | None:
        """For exact pieces and many pairs."""
        n_pairs = situation.model.n_pairs
        if situation.objective is None or limits.TREE_PAIRS.allows(n_pairs):
            return None
        return cls(n_pairs, situation.size, situation.objective.source)
