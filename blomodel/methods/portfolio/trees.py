"""Steps that branch and bound over the KKT pieces, at every size where these are exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.basics import limits
from blomodel.methods.portfolio.effort import is_confirmed
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.start_search import is_proven_best
from blomodel.methods.portfolio.step import Omission, Outlook, Share, Step
from blomodel.methods.run.run import Run
from blomodel.methods.search.neighbourhoods import neighbourhoods
from blomodel.methods.search.piece_tree import GAP, piece_tree
from blomodel.methods.search.pieces import exact_pieces
from blomodel.reformulations.forms.pieces import convex_objective
from blomodel.solvers.complementarity import ComplementarityStatus, blocks_of, solve_globally
from blomodel.text.layout import counted
from blomodel.transformations.independent import Part

WORK = 300_000  # nodes of the first level, times the unknowns of each
CLOSED = 0.2  # share of the gap that a portion must close for another one before the searches
IN_SIGHT = 4  # levels: a proof that would take the nodes of more of them is not in sight
SOONER = 4.0  # times the nodes that a time limit allows, by which a projection may exceed them
PORTIONS = (
    0.25,
    0.25,
    0.5,
)  # of a level's nodes, after each of which the pace of the bound is looked at
TRIAL, TRIAL_HOPEFUL = 0.1, 0.03  # share of the first level's nodes in a trial, and of the gap
TRIAL_PORTIONS = (0.3, 0.7)  # of its nodes; after the first, half the pace will do
FEWEST_NODES, MOST_NODES = 50, 4000  # of the first level
AROUND_ROUNDS = 8  # trees around the best point that may find nothing better at a level
AROUND_NODES = 0.5  # of each, as a share of a level's nodes
APART_SHARE = 0.5  # of the time that is left, for the trees of all independent problems together
IN_VAIN = 3  # independent problems without a proof, after which the others are not tried


def nodes_of_a_level(size: int) -> int:
    """Nodes of the first level where each has so many unknowns: fewer where each is dear."""
    return min(MOST_NODES, max(FEWEST_NODES, WORK // max(size, 1)))


@dataclass(frozen=True)
class Tree(Step):
    """Branch and bound over the KKT pieces, before anything else."""

    n_pairs: int
    size: int
    source: str
    is_linear: bool = False  # whether the nodes are linear programs

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
        return cls(n_pairs, situation.size, situation.objective.source, _is_linear(situation))

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            f"branch and bound over the pieces of the linear KKT conditions "
            f"({counted(self.n_pairs, 'pair')}), on which the upper objective is a convex "
            f"quadratic ({self.source}); "
            f"{counted(self.first_nodes, 'node')}, "
            "then twice as many at each level; where it ends, the optimum is proven and nothing follows"
        )

    @property
    def first_nodes(self) -> int:
        """Nodes of the first level."""
        return nodes_of_a_level(self.size)

    def run(self, run: Run, level: int) -> Outlook:
        """Branch until the bound meets the value, or the nodes of this level are used up.

        Where no proof is in sight it ends sooner, as long as other steps may use the effort better.
        """
        tree = piece_tree(run)
        tree.is_slow = False
        for portion in PORTIONS:
            if tree.go_on(run, max(1, int(portion * self.first_nodes * 2**level))):
                return Outlook.SETTLED
            if tree.has_ended:
                return Outlook.DONE
            if (level == 0 or is_confirmed(run)) and not self.has_hope(run):
                break
        return Outlook.MORE

    def has_hope(self, run: Run) -> bool:
        """Whether a proof is in sight: at its pace the tree would end within a few levels' nodes.

        Under a time limit also where it would end within some times the nodes that are left in it:
        trees end sooner than projected, and the time is there to be used. Linear nodes are cheap, and
        bilevel linear programs have many local optima on which searches agree: there all of it is used.
        """
        if self.is_linear and not run.deadline.is_never:
            return True
        tree = piece_tree(run)
        in_sight = float(self.first_nodes * 2**IN_SIGHT)
        if not run.deadline.is_never and run.elapsed > 0:
            allowed = tree.tree.nodes * (1 + run.remaining / run.elapsed)
            in_sight = max(in_sight, SOONER * allowed)
        return not tree.is_slow and tree.projected_nodes(run) <= in_sight


@dataclass(frozen=True)
class TreeBeforeSearch(Tree):
    """A portion of nodes before the searches, and further ones as long as they close the gap.

    Where the nodes are linear programs, HiGHS goes on from the basis of the node before, so that they
    cost less than the steps of a search, and the tree may end before a search has found its first
    point. Quadratic ones are dearer, and only the root comes first: a search that reaches its bound is
    the last one.
    """

    share: ClassVar[Share] = Share(part=0.2)

    @classmethod
    def consider(cls, situation: Situation) -> TreeBeforeSearch | None:
        """For exact pieces and many pairs; the tree goes on after the search."""
        n_pairs, objective = situation.model.n_pairs, situation.objective
        if objective is None or limits.TREE_PAIRS.allows(n_pairs):
            return None
        return cls(n_pairs, situation.size, objective.source, _is_linear(situation))

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
            "branch and bound over the pieces of the linear KKT conditions "
            f"({counted(self.n_pairs, 'pair')}): "
            f"{count}"
        )

    @property
    def first_nodes(self) -> int:
        """Nodes of a portion; where each is dear only the root."""
        return min(MOST_NODES, max(1, WORK // max(self.size, 1))) if self.is_linear else 1

    def run(self, run: Run, level: int) -> Outlook:
        """Branch until the bound meets the value, or a portion of nodes does not pay; once."""
        if level:  # its share of the time had ended before
            return Outlook.DONE
        tree, gap = piece_tree(run), np.inf
        # Before any search the best point is hardly worth improving by programs that are dear.
        while not tree.go_on(run, self.first_nodes, uses_best=self.is_linear):
            if not self.is_linear:
                return Outlook.DONE
            before, gap = gap, _gap(run)
            if tree.has_ended or not np.isfinite(gap) or gap > (1 - CLOSED) * before:
                return Outlook.DONE
        return Outlook.SETTLED


@dataclass(frozen=True)
class TreeAfterSearch(Tree):
    """The same after the search from starts, whose best point cuts branches off."""

    share: ClassVar[Share] = Share(part=0.4)

    @classmethod
    def consider(cls, situation: Situation) -> TreeAfterSearch | None:
        """For exact pieces and many pairs."""
        n_pairs = situation.model.n_pairs
        if situation.objective is None or limits.TREE_PAIRS.allows(n_pairs):
            return None
        return cls(n_pairs, situation.size, situation.objective.source, _is_linear(situation))

    def run(self, run: Run, level: int) -> Outlook:
        """The same; where nodes are dear and the best point is confirmed, a trial tells if they pay."""
        if level == 0 and not self.is_linear and is_confirmed(run):
            tree, before = piece_tree(run), _gap(run)
            for portion, due in zip(TRIAL_PORTIONS, (0.5 * TRIAL_PORTIONS[0], 1.0), strict=True):
                if tree.go_on(run, max(1, int(portion * TRIAL * self.first_nodes))):
                    return Outlook.SETTLED
                tree.is_slow = _gap(run) > (1 - due * TRIAL_HOPEFUL) * before
                if tree.is_slow:
                    return Outlook.MORE
            if not self.has_hope(run):
                return Outlook.MORE
        return super().run(run, level)


@dataclass(frozen=True)
class TreesAroundTheBest(Step):
    """Trees over a part of the pairs, where the one over all of them does not end."""

    n_pairs: int
    size: int
    is_linear: bool

    name = "trees around the best"
    is_resumed = True
    share: ClassVar[Share] = Share(part=0.25)

    @classmethod
    def consider(cls, situation: Situation) -> TreesAroundTheBest | None:
        """Where there is a tree after the search."""
        after = TreeAfterSearch.consider(situation)
        return None if after is None else cls(after.n_pairs, after.size, after.is_linear)

    @property
    def text(self) -> str:
        """What it does and why."""
        return (
            f"branch and bound over some of the {self.n_pairs:,} pairs, the others as they are at the "
            "best point; drawn at random, but rather those of which the relaxed problem prefers the "
            f"other side, until {AROUND_ROUNDS} such trees in a row find nothing better"
        )

    @property
    def condition(self) -> str:
        """When it is tried."""
        agreed = "" if self.is_linear else " and no other family of steps has confirmed the best point"
        return f"if there is a time limit{agreed}"

    def is_wanted(self, run: Run) -> bool:
        """Whether there is time to use, and a point that may be improved."""
        if run.deadline.is_never or run.best() is None or is_proven_best(run):
            return False
        return self.is_linear or not is_confirmed(run)

    def is_worth_going_on(self, run: Run) -> bool:
        """As the tree with linear nodes."""
        return self.is_linear

    def run(self, run: Run, level: int) -> Outlook:
        """Search around the best point, with larger trees at each level."""
        nodes = max(FEWEST_NODES, int(AROUND_NODES * nodes_of_a_level(self.size) * 2**level))
        neighbourhoods(run).search(run, AROUND_ROUNDS, nodes)
        return Outlook.MORE


def _is_linear(situation: Situation) -> bool:
    return situation.objective is not None and not situation.objective.P.count_nonzero()


def _gap(run: Run) -> float:
    """Between the best value and the bound."""
    best = run.best()
    return np.inf if best is None else best.value - run.bound


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

    The KKT conditions of the whole problem are there as matrices, which fall apart as the problem does.
    A tree over the pieces of a block needs no model, lower solver or plan of its own, which is what
    small problems spend their time on. Sets ``run.is_infeasible`` where one of them has no point.
    """
    model = run.model
    if model.has_integers or convex_objective(model, run.p) is None:
        return
    with run.within(APART_SHARE * run.remaining):
        _search_parts(run, parts, ended)


def _search_parts(run: Run, parts: Sequence[Part], ended: dict[int, BlockEnd]) -> None:
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
