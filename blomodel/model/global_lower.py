"""The lower level at one x, solved globally: a value with a bound, whatever its curvature."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.compiler.tape import Tape
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.branching.scip import ScipAnswer, ScipProgram, is_installed
from blomodel.solvers.branching.scip_expressions import UntranslatableError, is_number
from blomodel.solvers.branching.steep import stays_in_range

if TYPE_CHECKING:
    from blomodel.model.model import Model

Array = np.ndarray

MOST_NODES = 2000  # for one lower answer
WORK, FEWEST, MOST = (
    30_000,
    60,
    3000,
)  # linear programs for one, times variables and rows; limits of them
SURE = 2e-6  # relative: what a lower answer may be above the proven bound, SCIP's slack included
LEVEL = 1e-7  # relative: what may be above the lower value and still count as a lower minimiser
DEEPEST = 1.0  # of a point inside the lower rows
ROUNDS = 3  # better points than the one that was to be proven
FEW_NODES = 50  # for a point that need not be the best


class GlobalLower:
    """Minimises over the lower constraints at fixed x by SCIP's branch and bound."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def prove(
        self, x: Array, p: Array, answer: Answer, deadline: Deadline = NEVER, nodes: float = MOST_NODES
    ) -> tuple[float, Array | None]:
        """A lower bound of v(x), and a point that is better than ``answer`` if there is one.

        ``answer`` is an answer of local searches: if nothing lies clearly below its value, it is proven.
        A bound that does not prove it is given as minus infinity.
        """
        if not is_installed() or deadline.is_over:
            return -math.inf, None
        value = answer.value if answer.has_point else math.inf
        try:
            program = self._program(x, p, self.model.g, finds_points=not answer.has_point)
        except UntranslatableError:
            return -math.inf, None
        sure = value - SURE * (1 + abs(value)) / 4 if math.isfinite(value) else math.inf
        found = program.solve(
            self.model.y.size,
            max_nodes=nodes,
            max_programs=self._programs,
            gap=SURE / 8,
            enough=sure,
            cutoff=sure,
            deadline=deadline,
        )
        # Whether SCIP could count is a long question where there are many exponentials: last.
        needed = value - SURE * (1 + abs(value)) if math.isfinite(value) else math.inf
        is_sure = found.bound >= needed and self.stays_in_range(x, p, value, deadline=deadline)
        return found.bound if is_sure else -math.inf, self._in_bounds(found.point)

    def stays_in_range(
        self, x: Array, p: Array, level: float, *further: Tape, deadline: Deadline = NEVER
    ) -> bool:
        """Whether SCIP can count all exponentials at the lower points with g at most ``level``."""
        model = self.model
        parts = ((model.lower_in, False), (model.lower_eq, True))
        rows = [(part.tape, is_equality) for part, is_equality in parts if part.tape is not None]
        box = {"x": (x, x), "y": model.y_bounds, "p": (p, p)}
        tapes = [model.g, *further, *(tape for tape, _ in rows)]
        below = (model.g, level) if math.isfinite(level) else None
        return stays_in_range(tapes, box, rows, below, deadline=deadline)

    def solve(
        self, x: Array, p: Array, near: Array, deadline: Deadline = NEVER, nodes: float = MOST_NODES
    ) -> tuple[Answer, bool]:
        """The lower answer at x by local searches, improved until it is proven, and whether it is."""
        answer, is_proven = self.model.solve_lower(x, p, near, deadline=deadline)
        if is_proven and answer.status is not InnerStatus.FAILED:
            return answer, True
        return self.confirm(x, p, answer, deadline, nodes)

    def confirm(
        self, x: Array, p: Array, answer: Answer, deadline: Deadline = NEVER, nodes: float = MOST_NODES
    ) -> tuple[Answer, bool]:
        """The same for an answer that local searches have found."""
        for _ in range(ROUNDS):
            bound, better = self.prove(x, p, answer, deadline, nodes)
            if better is None:
                if answer.has_point:
                    return answer, answer.value - bound <= SURE * (1 + abs(answer.value))
                # An infinite bound says that there is no lower point at all.
                return answer, bound == math.inf and answer.status is InnerStatus.INFEASIBLE
            answer = self._polished(x, p, better, deadline)
        return answer, False

    def _polished(self, x: Array, p: Array, y: Array, deadline: Deadline) -> Answer:
        """A local search from a point that branch and bound has found; the point itself at worst."""
        model = self.model
        value = float(model.g(x, y, p)[0])
        if not model.integer_y.any():
            searched, _ = model.solve_lower(x, p, y, deadline=deadline)
            if searched.has_point and searched.value <= value:
                return searched
        return Answer(InnerStatus.OPTIMAL, value, y, solver="scip")

    def choose(
        self, x: Array, p: Array, value: float, deadline: Deadline = NEVER, nodes: float = MOST_NODES
    ) -> Array | None:
        """Of all lower minimisers at x the one that the upper level likes best.

        Those count whose g is not above ``value`` by more than a tiny part.
        """
        model = self.model
        try:
            program = self._program(x, p, model.f)
            inputs = self._inputs
            for rows, add in (
                (model.upper_in, program.at_most_zero),
                (model.upper_eq, program.equal_zero),
            ):
                add(program.formulas(rows.tape, inputs))
            (g,) = program.formulas(model.g, inputs)
        except UntranslatableError:
            return None
        program.at_most_zero([g - value - LEVEL * (1 + abs(value))])
        return self._in_bounds(self._few(program, nodes, deadline).point)

    def inside(
        self, x: Array, p: Array, level: float, coupled: Array, deadline: Deadline = NEVER
    ) -> Array | None:
        """A lower point at x with g at most ``level`` that keeps a distance from the given rows."""
        model = self.model
        program = ScipProgram()
        y = program.variables(*model.y_bounds, model.integer_y)
        (depth,) = program.variables(np.zeros(1), np.full(1, DEEPEST))
        inputs = {"x": list(map(float, x)), "y": y, "p": list(map(float, p))}
        try:
            program.equal_zero(program.formulas(model.lower_eq.tape, inputs))
            rows = program.formulas(model.lower_in.tape, inputs)
            (g,) = program.formulas(model.g, inputs)
        except UntranslatableError:
            return None
        program.at_most_zero(
            [
                row + depth if k and not is_number(row) else row
                for row, k in zip(rows, coupled, strict=True)
            ]
        )
        program.at_most_zero([g - level])
        program.minimise(-1.0 * depth)
        return self._in_bounds(self._few(program, FEW_NODES, deadline, size=model.y.size).point)

    def _few(
        self, program: ScipProgram, nodes: float, deadline: Deadline, size: int | None = None
    ) -> ScipAnswer:
        size = self.model.y.size if size is None else size
        return program.solve(
            size, max_nodes=nodes, max_programs=self._programs, gap=1e-6, deadline=deadline
        )

    @property
    def _programs(self) -> int:
        """Linear programs that one question is worth."""
        return min(MOST, max(FEWEST, WORK // self.model.lower_size))

    def _program(self, x: Array, p: Array, objective: Tape, *, finds_points: bool = True) -> ScipProgram:
        model = self.model
        program = ScipProgram(finds_points=finds_points)
        y = program.variables(*model.y_bounds, model.integer_y)
        self._inputs: dict[str, Any] = {"x": list(map(float, x)), "y": y, "p": list(map(float, p))}
        program.at_most_zero(program.formulas(model.lower_in.tape, self._inputs))
        program.equal_zero(program.formulas(model.lower_eq.tape, self._inputs))
        (value,) = program.formulas(objective, self._inputs)
        program.minimise(value)
        return program

    def _in_bounds(self, y: Array | None) -> Array | None:
        """SCIP's point without what its tolerance has added beyond the bounds."""
        if y is None:
            return None
        whole = self.model.integer_y
        return np.clip(np.where(whole, np.round(y), y), *self.model.y_bounds)
