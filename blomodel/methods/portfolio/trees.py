"""Steps that branch and bound over the KKT pieces, at every size where these are exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blomodel.basics import limits
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.step import Omission, Outlook, Share, Step
from blomodel.methods.run.run import Run
from blomodel.methods.search.piece_tree import piece_tree

WORK = 300_000  # nodes of the first level, times the unknowns of each
CLOSED = 0.2  # share of the gap that a portion must close for another one before the searches
FEWEST_NODES, MOST_NODES = 50, 4000  # of the first level


@dataclass(frozen=True)
class Tree(Step):
    """Branch and bound over the KKT pieces, before anything else."""

    n_pairs: int
    size: int
    source: str

    name = "tree over KKT pieces"
    family = "tree"
    may_prove = True

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
class TreeBeforeSearch(Tree):
    """A portion of nodes before the searches, and further ones as long as they close the gap.

    Where the nodes are linear programs, HiGHS goes on from the basis of the node before, so that they
    cost less than the steps of a search, and the tree may end before a search has found its first
    point. Quadratic ones are dearer, and only the root comes first: a search that reaches its bound is
    the last one.
    """

    is_linear: bool = False

    share = Share(part=0.2)

    @classmethod
    def consider(cls, situation: Situation) -> TreeBeforeSearch | None:
        """For exact pieces and many pairs; the tree goes on after the search."""
        n_pairs, objective = situation.model.n_pairs, situation.objective
        if objective is None or limits.TREE_PAIRS.allows(n_pairs):
            return None
        is_linear = not objective.P.count_nonzero()
        return cls(n_pairs, situation.size, objective.source, is_linear)

    @property
    def text(self) -> str:
        """What it does and why."""
        count = "only the root comes first: a search that reaches its bound is the last one"
        if self.is_linear:
            count = (
                f"the nodes are linear programs, cheaper than a search, so that {self.first_nodes:,} "
                "come first, and more as long as they close the gap"
            )
        return (
            f"branch and bound over the pieces of the linear KKT conditions ({self.n_pairs} pairs): "
            f"{count}"
        )

    @property
    def first_nodes(self) -> int:
        """Nodes of a portion; where each is dear only the root."""
        return min(MOST_NODES, max(1, WORK // max(self.size, 1))) if self.is_linear else 1

    def run(self, run: Run, level: int) -> Outlook:
        """Branch until the bound meets the value, or a portion of nodes does not pay; once."""
        tree, gap = piece_tree(run), np.inf
        while not tree.go_on(run, self.first_nodes):
            if not self.is_linear:
                return Outlook.DONE
            best, before = run.best(), gap
            gap = np.inf if best is None else best.value - run.bound
            if tree.has_ended or not np.isfinite(gap) or gap > (1 - CLOSED) * before:
                return Outlook.DONE
        return Outlook.SETTLED


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
