"""Branch and bound over KKT pieces and over boxes, where conditions or objective are not linear."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg as la

from blomodel.basics import limits
from blomodel.errors import ModelError
from blomodel.methods.run.run import Run
from blomodel.methods.search.pieces import answer_below
from blomodel.reformulations.forms.interval_kkt import Box, IntervalKKT
from blomodel.reformulations.forms.pieces import is_positive_semidefinite, positive_part
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.complementarity_pieces import FREE, TIGHT, ZERO
from blomodel.solvers.convex_qp import ConvexProgram
from blomodel.solvers.highs import BoundedProgram
from blomodel.text.shorten import counted

Array = np.ndarray

ROOT_ROUNDS = 4
MAX_TANGENTS = 8  # of a convex upper objective, the latest ones
COMPLEMENTARY = 1e-7  # relative: below this a pair needs no branching
NARROW = 1e-9  # relative: a box this thin cannot be divided further
ALWAYS_ASKED = 30  # nodes at which the lower level is asked for a point; then at 32, 64, 128, ...
END_OF_OPEN_RANGES = 1e4  # up to here they are divided
SAFE = 1e-8  # relative: what rounding may cost in a tightened range


@dataclass(order=True)
class _Node:
    bound: float
    serial: int
    sides: Array = field(compare=False)
    box: Box = field(compare=False)


@dataclass(frozen=True)
class _Relaxation:
    """Rows of one node over z, and over t as the last unknown where the objective is bounded by t."""

    A_eq: Array
    b_eq: Array
    A_in: Array
    b_in: Array
    box: Box
    has_level: bool
    spread: Array  # how much the slopes of each row vary over the box
    least: float  # a lower bound of f over the box alone


class SpatialTree:
    """One search, best bound first; the bound in the run is valid at any time."""

    def __init__(self, run: Run, *, gap: float, max_nodes: float) -> None:
        self.run, self.gap, self.max_nodes = run, gap, max_nodes
        self.kkt = IntervalKKT(run.model, run.p)
        best = run.best()
        self.best_value = np.inf if best is None else best.value
        self.closed = np.inf  # least bound of what was cut off or could not be divided
        self.nodes = 0
        self.serial = itertools.count()
        zero = np.zeros(self.kkt.n)
        self.slope, self.curvature = np.zeros(self.kkt.n), np.zeros((self.kkt.n, self.kkt.n))
        self.is_quadratic = run.model.f_is_quadratic
        if self.is_quadratic:
            x, y = zero[: self.kkt.n_x], zero[: self.kkt.n_y]
            n = x.size + y.size
            self.slope[:n] = run.model.f_grad(x, y, run.p)
            self.curvature[:n, :n] = run.model.f_hessian(x, y, run.p)
        self.is_convex = self.is_quadratic and is_positive_semidefinite(self.curvature)
        self.tangents: deque[tuple[Array, float]] = deque(maxlen=MAX_TANGENTS)
        self.constant = float(self.kkt.values(zero)[0]) if self.is_quadratic else 0.0

    @property
    def cutoff(self) -> float:
        """Nodes with at least this bound hold nothing better than the best point."""
        if not np.isfinite(self.best_value):
            return np.inf
        return self.best_value - self.gap * (1 + abs(self.best_value))

    def search(self) -> None:
        """Divide until the bound meets the best point, or a limit is reached."""
        run, kkt = self.run, self.kkt
        first = _Node(-np.inf, next(self.serial), np.full(kkt.pair_rows.size, FREE), kkt.first_box())
        heap = [first]
        while heap and heap[0].bound < self.cutoff and self.nodes < self.max_nodes:
            self._record(heap[0].bound)
            run.check_limits()
            for child in self._expand(heapq.heappop(heap)):
                heapq.heappush(heap, child)
        self._record(heap[0].bound if heap else np.inf)
        if not heap and not np.isfinite(min(self.best_value, self.closed)):
            run.is_infeasible = True
            run.note(f"no piece of the KKT conditions has a point ({counted(self.nodes, 'node')})")

    def _record(self, open_bound: float) -> None:
        bound = min(open_bound, self.closed, self.best_value)
        if np.isfinite(bound) and bound > self.run.bound:
            self.run.bound = bound
            nodes = counted(self.nodes, "node")
            self.run.bound_source = f"branch and bound over KKT pieces and boxes, {nodes}"

    def _expand(self, node: _Node) -> list[_Node]:
        """Tighten, relax, ask the lower level, divide."""
        self.nodes += 1
        relaxation = self._contract(self._with_sides(node.box, node.sides), node)
        if relaxation is None:
            self.closed = min(self.closed, max(node.bound, self.cutoff))
            return []
        value, z = self._minimise(relaxation)
        bound = max(node.bound, value, relaxation.least)
        if self._is_open(relaxation.box) and not np.any(node.sides == FREE):
            # Linear estimators need finite ends; on a decided piece single rows may give them.
            tight = self.kkt.pair_rows[node.sides == TIGHT]
            box = self.kkt.propagate(relaxation.box, tight, self.cutoff)
            if np.any(box.low > box.high):
                self.closed = min(self.closed, max(node.bound, self.cutoff))
                return []
            relaxation = self._relax(box, node.sides)
            value, z = self._minimise(relaxation)
            bound = max(node.bound, value, relaxation.least)
        if bound < self.cutoff and z is not None:
            self._ask(z)
        if bound >= self.cutoff:
            # Relaxations hold f <= cutoff, so that an empty one bounds f by the cutoff only.
            self.closed = min(self.closed, bound if np.isfinite(bound) else self.cutoff)
            return []
        return self._divide(_Node(bound, node.serial, node.sides, relaxation.box), relaxation, z)

    def _is_open(self, box: Box) -> bool:
        columns = self.kkt.curved_columns
        return bool(np.any(np.isinf(box.low[columns]) | np.isinf(box.high[columns])))

    def _with_sides(self, box: Box, sides: Array) -> Box:
        low, high = box.low.copy(), box.high.copy()
        high[self.kkt.pair_columns[sides == ZERO]] = 0.0
        return Box(low, high)

    def _contract(self, box: Box, node: _Node) -> _Relaxation | None:
        """The node's relaxation after its ranges were tightened; None when nothing better is in it."""
        columns = self.kkt.curved_columns
        box = self._level_set(box)
        if np.any(box.low > box.high):
            return None
        is_root = node.bound == -np.inf and np.all(node.sides == FREE)
        rounds = ROOT_ROUNDS if is_root else 1
        if is_root:
            self._minimise(self._relax(box, node.sides))  # leaves a first tangent
        for _ in range(rounds if limits.CONTRACTED_COLUMNS.allows(columns.size) else 0):
            relaxation = self._relax(box, node.sides)
            program = self._linear_program(relaxation)
            low, high = box.low.copy(), box.high.copy()
            for column in columns:
                for sign, end in ((1.0, low), (-1.0, high)):
                    cost = np.zeros(program.n)
                    cost[column] = sign
                    least = program.minimise(cost)
                    if least.status is InnerStatus.INFEASIBLE:
                        return None
                    if least.has_point:
                        safe = least.value - SAFE * (1 + abs(least.value))
                        end[column] = sign * max(safe, sign * end[column])
            box = Box(np.minimum(low, high), np.maximum(low, high))
        return self._relax(box, node.sides)

    def _level_set(self, box: Box) -> Box:
        """The box cut to where f is below the cutoff, if f is strictly convex in all it holds."""
        held = np.flatnonzero(np.any(self.curvature != 0, axis=0) | (self.slope != 0))
        if not self.is_quadratic or not held.size or not np.isfinite(self.cutoff):
            return box
        curvature, slope = self.curvature[np.ix_(held, held)], self.slope[held]
        values, vectors = np.linalg.eigh(curvature)
        if values[0] <= 1e-9 * (1 + values[-1]):
            return box
        inverse = (vectors / values) @ vectors.T
        center = -inverse @ slope
        height = max(self.cutoff - self.constant - float(slope @ center) / 2, 0.0)
        # On the ellipsoid of the level set each coordinate deviates by at most this.
        reach = np.sqrt(2 * height * np.diag(inverse)) + SAFE * (1 + np.abs(center))
        low, high = box.low.copy(), box.high.copy()
        low[held] = np.maximum(low[held], center - reach)
        high[held] = np.minimum(high[held], center + reach)
        return Box(low, high)

    def _relax(self, box: Box, sides: Array) -> _Relaxation:
        kkt = self.kkt
        below, above, spread = kkt.relax(box)
        equal, inside = [], []
        must_be_equal = set(kkt.equalities) | set(kkt.pair_rows[sides == TIGHT])
        for row in (*kkt.equalities, *kkt.inequalities):
            if row in must_be_equal and kkt.is_linear[row]:
                equal.append((below[row].matrix, -below[row].right))
                continue
            inside.append((below[row].matrix, -below[row].right))
            if row in must_be_equal:
                inside.append((-above[row].matrix, above[row].right))
        # The objective's level t is one more unknown: each underestimator of f is at most t.
        has_level = not kkt.is_linear[0] or not self.is_quadratic
        A_eq, b_eq = _stack(equal, kkt.n)
        A_in, b_in = _stack(inside, kkt.n)
        if has_level or np.isfinite(self.cutoff):
            level = np.full((below[0].right.size, 1), -1.0 if has_level else 0.0)
            A_in = np.vstack([A_in, np.hstack([below[0].matrix, level])])
            b_in = np.concatenate([b_in, (0.0 if has_level else self.cutoff) - below[0].right])
        if has_level and self.tangents:
            slopes = np.array([slope for slope, _ in self.tangents])
            A_in = np.vstack([A_in, np.hstack([slopes, np.full((len(slopes), 1), -1.0)])])
            b_in = np.concatenate([b_in, [-constant for _, constant in self.tangents]])
        least = kkt.least_objective(box)
        least -= SAFE * (1 + abs(least)) if np.isfinite(least) else 0.0
        return _Relaxation(A_eq, b_eq, A_in, b_in, box, has_level, spread, least)

    def _linear_program(self, relaxation: _Relaxation) -> BoundedProgram:
        box = relaxation.box
        top = self.cutoff if relaxation.has_level else 0.0
        return BoundedProgram(
            relaxation.A_eq,
            relaxation.b_eq,
            relaxation.A_in,
            relaxation.b_in,
            np.append(box.low, relaxation.least if relaxation.has_level else 0.0),
            np.append(box.high, top),
        )

    def _minimise(self, relaxation: _Relaxation) -> tuple[float, Array | None]:
        """A lower bound of f over the node and the relaxed point, if there is one."""
        if relaxation.has_level and self.is_quadratic:
            found = self._minimise_quadratic(relaxation)
            if found is not None:
                self._keep_tangent(found[1])
                return found
        cost = np.zeros(self.kkt.n + 1)
        if relaxation.has_level:
            cost[-1] = 1.0
        else:
            cost[:-1] = self.slope
        least = self._linear_program(relaxation).minimise(cost)
        if least.status is InnerStatus.INFEASIBLE:
            return np.inf, None
        if not least.has_point:
            return -np.inf, None
        return least.value + (0.0 if relaxation.has_level else self.constant), least.y[:-1]

    def _keep_tangent(self, z: Array | None) -> None:
        """A convex f lies above its tangents, which is what linear programs can use of it."""
        if self.is_convex and z is not None:
            bend = self.curvature @ z
            self.tangents.append((self.slope + bend, self.constant - float(z @ bend) / 2))

    def _minimise_quadratic(self, relaxation: _Relaxation) -> tuple[float, Array | None] | None:
        """The same with f itself, where f is convex on the node's equalities; None where it is not."""
        A_eq, b_eq = relaxation.A_eq[:, :-1], relaxation.b_eq
        box = relaxation.box
        fixed = np.flatnonzero(box.low == box.high)
        A_eq = np.vstack([A_eq, np.eye(self.kkt.n)[fixed]])
        b_eq = np.concatenate([b_eq, box.low[fixed]])
        basis = np.eye(self.kkt.n) if not len(A_eq) else la.null_space(A_eq)
        origin = np.zeros(self.kkt.n) if not len(A_eq) else np.linalg.lstsq(A_eq, b_eq)[0]
        if np.abs(A_eq @ origin - b_eq).max(initial=0) > 1e-7 * (1 + np.abs(b_eq).max(initial=0)):
            return np.inf, None
        reduced = basis.T @ self.curvature @ basis
        if not is_positive_semidefinite(reduced):
            return None
        rows = relaxation.A_in[:, -1] == 0.0  # the others only bound f from below
        bounded = [np.flatnonzero(np.isfinite(end)) for end in (box.high, box.low)]
        identity = np.eye(self.kkt.n)
        A_in = np.vstack([relaxation.A_in[rows, :-1], identity[bounded[0]], -identity[bounded[1]]])
        b_in = np.concatenate([relaxation.b_in[rows], box.high[bounded[0]], -box.low[bounded[1]]])
        slope = self.curvature @ origin + self.slope
        program = ConvexProgram(
            positive_part(reduced), basis.T @ slope, None, None, A_in @ basis, b_in - A_in @ origin
        )
        answer = program.solve(refine=True)
        if answer.status is InnerStatus.INFEASIBLE:
            return np.inf, None
        if not answer.has_point:
            return None
        shift = self.constant + float(self.slope @ origin + origin @ self.curvature @ origin / 2)
        return answer.bound + shift, origin + basis @ answer.y

    def _ask(self, z: Array) -> None:
        """Let the lower level answer at the relaxed point's x, which gives bilevel feasible points."""
        if self.nodes > ALWAYS_ASKED and self.nodes & (self.nodes - 1):
            return
        run, n_x, n_y = self.run, self.kkt.n_x, self.kkt.n_y
        answer_below(run, z[:n_x], z[n_x : n_x + n_y])
        best = run.best()
        if best is not None and best.value != self.best_value:
            self.best_value = best.value
            run.step(value=best.value, gap=best.gap)

    def _divide(self, node: _Node, relaxation: _Relaxation, z: Array | None) -> list[_Node]:
        pair = self._pair(node.sides, z)
        if pair is not None:
            return self._divide_pair(node, pair)
        box = node.box
        column = self._column(relaxation)
        if column is None:
            self.closed = min(self.closed, node.bound)
            return []
        low, high = box.low[column], box.high[column]
        if not (np.isfinite(low) and np.isfinite(high)):
            if np.any(node.sides == FREE):  # a decided pair may bound it
                return self._divide_pair(node, int(np.argmax(node.sides == FREE)))
            return self._divide_open(node, column)
        width = high - low
        at = (low + high) / 2 if z is None else z[column]
        at = float(np.clip(at, low + 0.2 * width, high - 0.2 * width))
        children = []
        for side in (0, 1):
            ends = [box.low.copy(), box.high.copy()]
            ends[1 - side][column] = at
            children.append(_Node(node.bound, next(self.serial), node.sides, Box(*ends)))
        return children

    def _divide_open(self, node: _Node, column: int) -> list[_Node]:
        """Cut a finite part off an open range: intervals may bound f on the rest."""
        low, high = node.box.low[column], node.box.high[column]
        at = 0.0
        if np.isfinite(low):
            at = low + 2 * max(1.0, abs(low))
        elif np.isfinite(high):
            at = high - 2 * max(1.0, abs(high))
        if abs(at) > END_OF_OPEN_RANGES:
            raise ModelError(
                f"kkt-mip: '{self.kkt.name_of(column)}' occurs in a product or another nonlinear term, "
                "and the constraints do not bound it from both sides, so no bound can be proved; add "
                "bounds for it, or use auto, which searches without a bound."
            )
        children = []
        for side in (0, 1):
            ends = [node.box.low.copy(), node.box.high.copy()]
            ends[1 - side][column] = at
            # Of equal bounds an open rest goes first, so that a hopeless one is refused soon.
            is_open = not np.isfinite(ends[side][column])
            serial = -next(self.serial) if is_open else next(self.serial)
            children.append(_Node(node.bound, serial, node.sides, Box(*ends)))
        return children

    def _divide_pair(self, node: _Node, pair: int) -> list[_Node]:
        children = []
        for side in (TIGHT, ZERO):
            sides = node.sides.copy()
            sides[pair] = side
            children.append(_Node(node.bound, next(self.serial), sides, node.box))
        return children

    def _pair(self, sides: Array, z: Array | None) -> int | None:
        """The undecided pair that the relaxed point violates most; any, when there is no point."""
        free = np.flatnonzero(sides == FREE)
        if not free.size:
            return None
        if z is None:
            return int(free[0])
        slack = np.maximum(-self.kkt.values(z)[self.kkt.pair_rows[free]], 0.0)
        pressure = np.maximum(z[self.kkt.pair_columns[free]], 0.0)
        if np.minimum(slack, pressure).max() <= COMPLEMENTARY * (1 + np.abs(z).max(initial=0)):
            return None
        return int(free[np.argmax(slack * pressure)])

    def _column(self, relaxation: _Relaxation) -> int | None:
        """The unknown whose range adds most to the relaxation's error; None when all are narrow."""
        box = relaxation.box
        width = box.high - box.low
        size = 1 + np.minimum(np.minimum(np.abs(box.low), np.abs(box.high)), 1e12)
        varies = relaxation.spread.max(axis=0, initial=0.0)
        score = np.where((varies > 0) & (width > NARROW * size), width, 0.0)
        score = np.where(score > 0, score * np.minimum(varies, 1e6), 0.0)
        return int(np.argmax(score)) if score.max(initial=0.0) > 0 else None


def _stack(parts: list[tuple[Array, Array]], n: int) -> tuple[Array, Array]:
    """Rows over z put below each other, with a column of zeros for the level."""
    matrix = np.vstack([np.zeros((0, n)), *(part[0] for part in parts)])
    right = np.concatenate([np.zeros(0), *(part[1] for part in parts)])
    return np.hstack([matrix, np.zeros((len(matrix), 1))]), right
