"""Branch and bound over the sides of complementarity pairs (Bard and Moore, 1990)."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.complementarity_pieces import (
    FREE,
    TIGHT,
    ZERO,
    ComplementarityResult,
    ComplementarityStatus,
    Pieces,
    Sides,
)
from blomodel.solvers.convex_qp import Vector

COMPLEMENTARY = 1e-6  # relative: below this a relaxed point is worth solving its piece
NEAR_CUTOFF = 1e-5  # relative: bounds this near the cutoff are recomputed accurately
DESCENT_MOVES = 10  # piece moves after each new incumbent


@dataclass(order=True)
class _Node:
    bound: float
    order: int  # negative depth first, so that ties go deep
    serial: int
    sides: Sides = field(compare=False)


class Tree:
    """One search: best bound first, each time diving until the node is pruned."""

    node_limit: float
    deadline: Deadline
    gap: float
    stop: Callable[[], bool] | None
    found: Callable[[Vector], None] | None
    first_improvement: bool
    value: float
    unresolved: float
    pruned: float
    is_unbounded: bool
    has_improved: bool
    solved_before: int
    nodes: int

    def __init__(
        self,
        pieces: Pieces,
        *,
        node_limit: float = np.inf,
        deadline: Deadline = NEVER,
        gap: float = 1e-8,
        stop: Callable[[], bool] | None = None,
        found: Callable[[Vector], None] | None = None,
        first_improvement: bool = False,
    ) -> None:
        self.pieces = pieces
        self.node_limit, self.deadline, self.gap = node_limit, deadline, gap
        self.stop, self.found, self.first_improvement = stop, found, first_improvement
        self.z: Vector | None = None
        self.value = np.inf
        self.unresolved = np.inf  # least bound of the pieces the convex solver could not decide
        self.pruned = np.inf  # least bound of the nodes cut off: at least the cutoff
        self.is_unbounded = False
        self.has_improved = False
        self.heap: list[_Node] = []  # open nodes
        self.serial: Iterator[int] = itertools.count()
        self.solved_before = pieces.solved
        self.nodes = 0

    @property
    def open_nodes(self) -> dict[str, Any]:
        """All that is needed to go on elsewhere."""
        nodes, n_pairs = sorted(self.heap), len(self.pieces.free_sides)
        return {
            "bounds": np.array([node.bound for node in nodes]),
            "orders": np.array([float(node.order) for node in nodes]),
            "sides": np.array([node.sides for node in nodes], dtype=float).reshape(len(nodes), n_pairs),
            "nodes": self.nodes,
            "unresolved": self.unresolved,
            "pruned": self.pruned,
            "z": self.z,
            "value": self.value,
        }

    def take_up(self, left: Mapping[str, Any]) -> None:
        """Go on from the open nodes of another tree of the same pieces."""
        sides = np.asarray(left["sides"])
        n_pairs = len(self.pieces.free_sides)
        if (
            sides.shape != (len(left["bounds"]), n_pairs)
            or not np.isin(sides, (FREE, TIGHT, ZERO)).all()
        ):
            raise ValueError("open nodes of another problem")
        self.heap = [
            _Node(float(bound), int(order), next(self.serial), own.astype(self.pieces.free_sides.dtype))
            for bound, order, own in zip(left["bounds"], left["orders"], sides, strict=True)
        ]
        heapq.heapify(self.heap)
        self.nodes = int(left["nodes"])
        self.unresolved, self.pruned = float(left["unresolved"]), float(left["pruned"])
        if left["z"] is not None:
            self.offer(np.array(left["z"], dtype=float), float(left["value"]))

    def offer(self, z: Vector, value: float) -> None:
        """Take a feasible complementary point as the incumbent if it is better."""
        if value < self.value:
            self.z, self.value = z, value

    @property
    def cutoff(self) -> float:
        """Nodes with at least this bound hold nothing better than the incumbent."""
        if self.z is None and not np.isfinite(self.value):
            return np.inf
        return self.value - self.gap * max(1.0, abs(self.value))

    def search(self, sides: Sides) -> ComplementarityResult:
        """Search all pieces that agree with the sides already chosen in ``sides``."""
        self.begin(sides)
        return self.go_on()

    def begin(self, sides: Sides) -> None:
        """Look at nothing yet; ``go_on`` then searches the pieces that agree with ``sides``."""
        self.heap = [_Node(-np.inf, 0, next(self.serial), sides)]

    def go_on(self) -> ComplementarityResult:
        """Search from the open nodes until none is left or a limit is met; may be called again."""
        heap, node, halted = self.heap, None, False
        while True:
            if node is None:
                if not heap or heap[0].bound >= self.cutoff:
                    break
                node = heapq.heappop(heap)
            if self._must_halt():
                heapq.heappush(heap, node)
                halted = True
                break
            try:
                children = self._expand(node)
            except BaseException:
                heapq.heappush(heap, node)  # what was not decided stays open
                raise
            if children is None:
                heapq.heappush(heap, node)
                halted = True
                break
            if self.is_unbounded or (self.first_improvement and self.has_improved):
                halted = True
                # What is left unexplored bounds the answer no better than this node does.
                heapq.heappush(heap, node)
                break
            node = None
            if children:
                node = children[0]
                heapq.heappush(heap, children[1])
        return self._result(halted)

    def _must_halt(self) -> bool:
        return (
            self.nodes >= self.node_limit
            or self.deadline.is_over
            or (self.stop is not None and bool(self.stop()))
        )

    @property
    def bound(self) -> float:
        """No piece holds a point with a smaller value."""
        left = self.heap[0].bound if self.heap else np.inf
        return min(self.unresolved, self.pruned, left, self.value)

    def _result(self, halted: bool) -> ComplementarityResult:
        solved, bound = self.pieces.solved - self.solved_before, self.bound
        status = ComplementarityStatus
        if self.is_unbounded:
            return ComplementarityResult(None, -np.inf, -np.inf, status.UNBOUNDED, solved)
        if np.isfinite(self.value) and bound >= self.cutoff:
            return ComplementarityResult(self.z, self.value, bound, status.OPTIMAL, solved)
        if not halted and not np.isfinite(self.value):
            if self.unresolved == np.inf:
                return ComplementarityResult(None, np.inf, np.inf, status.INFEASIBLE, solved)
            return ComplementarityResult(None, np.inf, bound, status.FAILED, solved)
        return ComplementarityResult(self.z, self.value, bound, status.LIMIT, solved)

    def _expand(self, node: _Node) -> list[_Node] | None:
        """Solve the relaxation of a node; return its children, the more promising one first.

        None where the deadline came before an answer.
        """
        self.nodes += 1
        pieces, sides = self.pieces, node.sides
        free = np.flatnonzero(sides == FREE)
        cutoff = self.cutoff
        answer = pieces.solve(sides, refine=free.size == 0, deadline=self.deadline, cutoff=cutoff)
        is_exact = answer.status is not InnerStatus.OPTIMAL or answer.bound == answer.value
        if not is_exact and self._is_near_cutoff(answer.bound):
            answer = pieces.solve(sides, refine=True, deadline=self.deadline)
        if answer.status is InnerStatus.INFEASIBLE:
            self.pruned = min(self.pruned, cutoff)  # it may only be beyond the cutoff
            return []
        if answer.status is InnerStatus.FAILED:
            if self.deadline.is_over:
                return None
            if free.size == 0:
                self.unresolved = min(self.unresolved, node.bound)
                return []
            return self._branch(node, node.bound, int(free[0]), TIGHT)
        if answer.status is InnerStatus.UNBOUNDED:
            if free.size == 0:
                self.is_unbounded = True
                return []
            direction = answer.y if answer.ray is None else answer.ray
            return self._branch_along(node, free, answer.y, direction, answer.ray is not None)
        bound = max(node.bound, answer.bound)
        if bound >= self.cutoff:
            self.pruned = min(self.pruned, bound)
            return []
        if free.size == 0:
            self._improve(sides, answer)
            return []
        slack, variable = pieces.gaps(answer.y)
        slack = slack / pieces.row_length
        scale = 1.0 + np.abs(answer.y).max(initial=0.0)
        smaller = np.minimum(slack, variable)[free]
        is_complementary = smaller.max() <= COMPLEMENTARY * scale
        # Until there is an incumbent, rounded pieces are tried at nodes 1, 2, 4, 8, ...
        is_early = not np.isfinite(self.value) and (self.nodes & (self.nodes - 1)) == 0
        if is_complementary or is_early or self.nodes == 1:
            self._try_piece(pieces.round(answer.y, sides))
            if bound >= self.cutoff:
                self.pruned = min(self.pruned, bound)
            if self.is_unbounded or bound >= self.cutoff:
                return []
        product = (slack * variable)[free]
        score = product if product.max() > 0.0 else (slack + variable)[free]
        pair = int(free[np.argmax(score)])
        first = TIGHT if slack[pair] <= variable[pair] else ZERO
        return self._branch(node, bound, pair, first)

    def _is_near_cutoff(self, bound: float) -> bool:
        """Whether the interior point solver's error could decide between pruning and branching."""
        if self.pieces.program.is_linear or not np.isfinite(self.cutoff):
            return False
        return abs(bound - self.cutoff) <= NEAR_CUTOFF * max(1.0, abs(self.value))

    def _branch_along(
        self, node: _Node, free: np.ndarray, z: Vector, ray: Vector, is_ray: bool
    ) -> list[_Node]:
        """Branch on the pair that an unbounded relaxation violates most along its ray."""
        pieces = self.pieces
        opening = -(pieces.paired @ ray) / pieces.row_length
        growth = ray[pieces.columns]
        if is_ray:
            score = np.minimum(opening, growth)[free]
            if score.max() > 1e-9:
                pair = int(free[np.argmax(score)])
                return self._branch(
                    node, -np.inf, pair, TIGHT if growth[pair] >= opening[pair] else ZERO
                )
            # The ray itself is complementary: follow the sides it needs, then those of the point.
            moving = free[np.maximum(opening, growth)[free] > 1e-9]
            if moving.size:
                pair = int(moving[0])
                return self._branch(node, -np.inf, pair, TIGHT if growth[pair] > opening[pair] else ZERO)
        slack, variable = pieces.gaps(z)
        pair = int(free[np.argmax((slack * variable)[free])])
        return self._branch(node, -np.inf, pair, TIGHT if slack[pair] <= variable[pair] else ZERO)

    def _branch(self, node: _Node, bound: float, pair: int, first: int) -> list[_Node]:
        children = []
        for side in (first, TIGHT + ZERO - first):
            sides = node.sides.copy()
            sides[pair] = side
            children.append(_Node(bound, node.order - 1, next(self.serial), sides))
        return children

    def _try_piece(self, sides: Sides) -> None:
        answer = self.pieces.solve(sides, refine=True, deadline=self.deadline)
        if answer.status is InnerStatus.UNBOUNDED:
            self.is_unbounded = True
        elif answer.status is InnerStatus.OPTIMAL and answer.value < self.value:
            self._improve(sides, answer)

    def _improve(self, sides: Sides, answer: Answer) -> None:
        if answer.value >= self.cutoff:
            return
        _, answer = self.pieces.descend(sides, answer, DESCENT_MOVES, self.deadline)
        if answer.status is InnerStatus.UNBOUNDED:
            self.is_unbounded = True
            return
        self.has_improved = True
        self.offer(answer.y, answer.value)
        if self.found is not None:
            self.found(answer.y)
