"""Branch and bound over the exact pieces of a problem, in portions that follow each other."""

from __future__ import annotations

import hashlib
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.basics import limits
from blomodel.errors import FileFormatError
from blomodel.methods.run.run import Run
from blomodel.methods.search.pieces import ExactPieces, exact_pieces
from blomodel.methods.search.subtrees import FEWEST_OPEN, PARTS, SHARE, branch_elsewhere
from blomodel.reformulations.forms.duality_products import with_duality_products
from blomodel.reformulations.forms.duality_rows import with_duality_rows
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.complementarity import ComplementarityStatus
from blomodel.solvers.complementarity_tree import Tree
from blomodel.text.shorten import counted

if TYPE_CHECKING:
    from blomodel.solvers.complementarity_pieces import Pieces


SOURCE = "branch and bound over KKT pieces"  # of the bounds
PORTION = 64  # nodes after which the bound is recorded and the limits are looked at
SAFE = 1e-9  # relative: what the tolerances of the node's programs may cost in a bound
CANCELLED = 2e-15  # what rounding may cost in a sum, relative to its terms
GAP = 1e-8  # relative difference of value and bound at which the tree ends
SETTLED_IN = 24  # nodes before which the pace of the bound says nothing of what follows


def sum_below(constant: float, bound: float) -> float:
    """The sum of a bound and a constant, less what rounding may have cost where both are large.

    With variables of the size of a million, squares are added up to 1e12 before they cancel.
    """
    return constant + bound - CANCELLED * (abs(constant) + abs(bound))


class PieceTree:
    """One tree of a run: it goes on from its open nodes, and its bound and points are kept at once.

    Points that other parts of the run have found cut it off.
    """

    pieces: Pieces
    tree: Tree
    has_ended: bool

    def __init__(self, run: Run, exact: ExactPieces, *, gap: float = GAP) -> None:
        self.exact = exact
        qp = exact.qp
        if not limits.UNSEARCHED_PAIRS.allows(run.model.n_pairs):
            qp = with_duality_rows(qp, run.model, run.p, run.deadline)
        pieces = qp.pieces
        first = pieces.solve(pieces.free_sides, deadline=run.deadline)
        run.check_limits()
        if first.status in (InnerStatus.UNBOUNDED, InnerStatus.FAILED):
            # Else the tree would have no bound before most pairs are decided.
            qp = with_duality_products(qp, run.model, run.p, run.deadline)
            run.check_limits()
        self.pieces = qp.pieces
        self.tree = Tree(self.pieces, gap=gap, found=lambda z: self.take(run, z))
        self.tree.begin(self.pieces.free_sides)
        self.has_ended = self.is_resumed = False
        self.is_slow = False  # whether a trial has shown that its bound hardly moves
        self.trail: list[tuple[int, float]] = []  # nodes, and the bound after so many
        name = self._name(run)
        run.control.open_work[name] = self._open_work
        if name in run.control.earlier:
            try:
                self.tree.take_up(run.control.earlier[name])
            except (KeyError, TypeError, ValueError) as error:
                raise FileFormatError(f"The saved tree does not fit this problem: {error}.") from error
            self.is_resumed = True
            run.note(f"the tree goes on from {counted(len(self.tree.heap), 'open node')}")

    def _name(self, run: Run) -> str:
        """Of the tree of this problem, wherever it is solved."""
        qp = self.exact.qp
        digest = hashlib.sha256(np.ascontiguousarray(qp.q).tobytes())
        digest.update(
            repr((self.exact.constant, len(self.pieces.free_sides), run.model.n_pairs)).encode()
        )
        return f"tree {digest.hexdigest()[:16]}"

    def _open_work(self) -> dict[str, Any] | None:
        return None if self.has_ended else self.tree.open_nodes

    def go_on(self, run: Run, nodes: float, *, uses_best: bool = True) -> bool:
        """Look at so many further nodes; True when the problem is settled.

        ``uses_best``: whether the best point of the run is first improved on its piece.
        """
        tree = self.tree
        if uses_best:
            self.use_the_best(run)
        end = tree.nodes + nodes
        while not self.has_ended and tree.nodes < end:
            if self._may_divide(run, end - tree.nodes):
                self._divide(run)
                continue
            tree.node_limit = min(end, tree.nodes + PORTION)
            tree.deadline = run.deadline
            solved_before = self.pieces.solved
            result = tree.go_on()
            run.evaluations += self.pieces.solved - solved_before
            self._record_bound(run)
            if result.status is ComplementarityStatus.INFEASIBLE:
                run.is_infeasible = True
                seen = counted(tree.nodes, "node")
                run.note(f"none of the pieces of the KKT conditions has a point ({seen})")
                return True
            if result.status is ComplementarityStatus.UNBOUNDED:
                run.is_unbounded = True
                run.note("the upper objective falls without limit on a piece of the KKT conditions")
                return True
            if tree.deadline.is_over or tree.nodes < tree.node_limit:
                self.has_ended = not tree.deadline.is_over
                break
        run.check_limits()
        return self.has_ended and self._is_proven(run)

    def _may_divide(self, run: Run, nodes: float) -> bool:
        """Whether other processes may take a part of the tree each."""
        is_enough = nodes >= PARTS * SHARE and len(self.tree.heap) >= FEWEST_OPEN
        return run.n_jobs != 1 and is_enough and run.solver.name is None

    def _divide(self, run: Run) -> None:
        """A round of the tree's parts in other processes."""
        tree = self.tree
        left = branch_elsewhere(run, tree.open_nodes, partial(_tree_of, gap=tree.gap))
        before, tree.is_unbounded = tree.value, left["is_unbounded"]
        run.evaluations += left["nodes"] - tree.nodes
        tree.take_up(left)
        if tree.z is not None and tree.value < before:
            self.take(run, tree.z)
        self._record_bound(run)
        run.check_limits()

    def projected_nodes(self, run: Run) -> float:
        """How many nodes a proof would take in all, if the bound goes on as over the last doubling.

        A tree must look at about twice as many nodes for each further pair that it decides everywhere,
        so that the bound rises by about as much with each doubling of the nodes; rather more in the end.
        """
        best, (now, bound) = run.best(), self.trail[-1] if self.trail else (0, -np.inf)
        earlier = [each for each in self.trail if SETTLED_IN <= each[0] <= now / 2]
        if best is None or not earlier or not np.isfinite(earlier[-1][1]):
            return float(now)  # nothing is known yet
        before, lower_bound = earlier[-1]
        pace = (bound - lower_bound) / math.log2(now / before)
        gap = best.value - self.exact.constant - bound
        doublings = gap / pace if pace > 0 else math.inf
        return now * 2.0**doublings if doublings < 60 else math.inf

    def _is_proven(self, run: Run) -> bool:
        """Whether the tree ended at a point that the run accepts."""
        best = run.best()
        tree = self.tree
        if best is None or not np.isfinite(tree.value) or tree.bound < tree.cutoff:
            return False
        return best.value <= run.bound + run.tolerance * (1 + abs(best.value))

    def _record_bound(self, run: Run) -> None:
        self.trail.append((self.tree.nodes, self.tree.bound))
        bound = sum_below(self.exact.constant, self.tree.bound)
        nodes = counted(self.tree.nodes, "node")
        resumed = " (resumed)" if self.is_resumed else ""
        run.raise_bound(bound, f"{SOURCE}, {nodes}{resumed}", SAFE)

    def take(self, run: Run, z: np.ndarray) -> None:
        """Keep a point that the tree has found."""
        x, y, _ = self.exact.split(z[: len(self.exact.qp.q)])
        candidate = run.propose(x, y, "branch and bound over pieces")
        run.step(x=candidate.x, value=candidate.value, gap=candidate.gap)

    def use_the_best(self, run: Run) -> None:
        """Cut off with the best point of the whole run, made exact on its piece."""
        best, exact = run.best(), self.exact
        if best is not None and best.value < exact.constant + self.tree.value:
            answer = run.model.lower_program.solve(best.x, run.p)
            if answer.status.has_point:
                exact.improve(run, best.x, best.y, run.model.split_duals(answer.duals), False)
        if exact.best is not None:
            self.tree.offer(exact.best, exact.qp.objective(exact.best))


def _tree_of(run: Run, gap: float) -> Tree:
    """The tree of a run, in another process."""
    return PieceTree(run, exact_pieces(run), gap=gap).tree


def piece_tree(run: Run, *, gap: float = GAP) -> PieceTree:
    """The tree of a run's problem, which its parts share."""
    return run.once(PieceTree, lambda: PieceTree(run, exact_pieces(run), gap=gap))
