"""A lower level with integer variables at one x: a mixed-integer program, solved to its proof.

A linear one by HiGHS, the others by SCIP. No multipliers come with the answer: the value of such a level
jumps with its rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient
from blomodel.compiler.passes.polynomial import polynomial
from blomodel.compiler.tape import Tape
from blomodel.model.rows import Rows
from blomodel.programs.linear_mip import LinearMip, MipAnswer, solve_linear_mip
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.branching.scip import ScipProgram, is_installed
from blomodel.solvers.branching.scip_expressions import UntranslatableError

if TYPE_CHECKING:
    from blomodel.model.model import Model

SAME_LEVEL = 1e-9  # relative: what g may be above the lower value where a minimiser is chosen
NO_SCIP = "the lower level is a nonlinear program in integers, which needs SCIP: pip install pyscipopt"


class IntegerLower:
    """Minimises g(x, .) over the lower constraints, some entries of y whole."""

    kind = "mixed-integer"

    def __init__(self, model: Model) -> None:
        self.model = model
        self._known: tuple[bytes, Answer] | None = None

    @cached_property
    def is_linear(self) -> bool:
        """Whether the level is a linear program in y at every fixed x."""
        return _is_linear(self.model.g, self.model.lower_in, self.model.lower_eq)

    @cached_property
    def can_choose_by_highs(self) -> bool:
        """Whether the upper objective and rows are linear in y too."""
        model = self.model
        return self.is_linear and _is_linear(model.f, model.upper_in, model.upper_eq)

    @property
    def served_by(self) -> str:
        """Who answers, for a person."""
        return "HiGHS's branch and bound" if self.is_linear else "SCIP's branch and bound"

    def solve(self, x: np.ndarray, p: np.ndarray, deadline: Deadline = NEVER) -> tuple[Answer, bool]:
        """The lower answer at x, and whether it is proven; often asked again at the same x."""
        key = x.tobytes() + p.tobytes()
        if self._known is not None and self._known[0] == key:
            return self._known[1], True
        found = self._minimise(self.model.g, x, p, None, deadline)
        if isinstance(found, str):
            return Answer.without_point(InnerStatus.FAILED, self.model.y.size, found), False
        is_sure = found.status is not InnerStatus.INACCURATE and found.status is not InnerStatus.FAILED
        answer = self._answer(x, p, found)
        if is_sure:
            self._known = (key, answer)
        return answer, is_sure

    def choose(
        self, x: np.ndarray, p: np.ndarray, value: float, deadline: Deadline = NEVER
    ) -> MipAnswer | None:
        """f over all lower minimisers at x that the upper level allows; None where nobody can tell."""
        found = self._minimise(self.model.f, x, p, value, deadline)
        return None if isinstance(found, str) else found

    def choose_worst(
        self, x: np.ndarray, p: np.ndarray, value: float, deadline: Deadline = NEVER
    ) -> MipAnswer | None:
        """-f over all lower minimisers at x, whatever the upper level allows."""
        model = self.model
        against = lower([-model.f_expression], model.blocks)
        found = self._minimise(against, x, p, value, deadline, keeps_upper=False)
        return None if isinstance(found, str) else found

    def _answer(self, x: np.ndarray, p: np.ndarray, found: MipAnswer) -> Answer:
        by = "highs" if self.is_linear else "scip"
        if found.point is None:
            return Answer.without_point(found.status, self.model.y.size, solver=by)
        value = float(self.model.g(x, found.point, p)[0])
        return Answer(found.status, value, found.point, solver=by, bound=min(found.bound, value))

    def _minimise(
        self,
        objective: Tape,
        x: np.ndarray,
        p: np.ndarray,
        level: float | None,
        deadline: Deadline,
        *,
        keeps_upper: bool = True,
    ) -> MipAnswer | str:
        """f or g over the lower rows; with a level over the minimisers that the upper rows allow."""
        rows = [(self.model.lower_in, False), (self.model.lower_eq, True)]
        if level is not None and keeps_upper:
            rows += [(self.model.upper_in, False), (self.model.upper_eq, True)]
        is_linear = self.is_linear if level is None else self.can_choose_by_highs
        if is_linear:
            return self._by_highs(objective, rows, x, p, level, deadline)
        if not is_installed():
            return NO_SCIP
        try:
            return self._by_scip(objective, rows, x, p, level, deadline)
        except UntranslatableError as error:
            return str(error)

    def _by_highs(
        self,
        objective: Tape,
        own: list[tuple[Rows, bool]],
        x: np.ndarray,
        p: np.ndarray,
        level: float | None,
        deadline: Deadline,
    ) -> MipAnswer:
        model, zero = self.model, np.zeros(self.model.y.size)
        parts, lows, highs = [], [], []
        for rows, is_equality in own:
            line = rows.linearise(x, zero, p)
            parts.append(line.in_y)
            highs.append(-line.value)
            lows.append(-line.value if is_equality else np.full(len(rows), -np.inf))
        if level is not None:
            slope, constant = self._linear(model.g, x, p)
            parts.append(sp.csr_array(slope[None, :]))
            highs.append(np.array([level - constant + SAME_LEVEL * (1 + abs(level))]))
            lows.append(np.array([-np.inf]))
        cost, constant = self._linear(objective, x, p)
        found = solve_linear_mip(
            LinearMip(
                cost,
                sp.csr_array(sp.vstack(parts)),
                np.concatenate(lows),
                np.concatenate(highs),
                *self._whole_bounds,
                model.integer_y,
            ),
            deadline,
        )
        return MipAnswer(found.status, found.point, found.value + constant, found.bound + constant)

    def _linear(self, tape: Tape, x: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, float]:
        """Slope and constant of a function that is linear in y."""
        zero = np.zeros(self.model.y.size)
        return gradient(tape, ("y",))(x, zero, p), float(tape(x, zero, p)[0])

    @cached_property
    def _whole_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of y, whole where y is."""
        low, high = self.model.y_bounds
        whole = self.model.integer_y
        return (
            np.where(whole & np.isfinite(low), np.ceil(low - 1e-9), low),
            np.where(whole & np.isfinite(high), np.floor(high + 1e-9), high),
        )

    def _by_scip(
        self,
        objective: Tape,
        own: list[tuple[Rows, bool]],
        x: np.ndarray,
        p: np.ndarray,
        level: float | None,
        deadline: Deadline,
    ) -> MipAnswer:
        model, program = self.model, ScipProgram()
        y = program.variables(*self._whole_bounds, model.integer_y)
        inputs: dict[str, Any] = {"x": list(map(float, x)), "y": y, "p": list(map(float, p))}
        for rows, is_equality in own:
            add = program.equal_zero if is_equality else program.at_most_zero
            add(program.formulas(rows.tape, inputs))
        if level is not None:
            (g,) = program.formulas(model.g, inputs)
            program.at_most_zero([g - level - 1e-7 * (1 + abs(level))])
        (value,) = program.formulas(objective, inputs)
        program.minimise(value)
        found = program.solve(model.y.size, gap=1e-9, deadline=deadline)
        point = found.point
        if point is not None:
            point = np.clip(np.where(model.integer_y, np.round(point), point), *self._whole_bounds)
        return MipAnswer(found.status, point, found.value, found.bound)


def _is_linear(objective: Tape, *rows: Rows) -> bool:
    """Whether functions are linear in y at every fixed x."""
    if any(part.spectral for part in rows):
        return False
    tapes = [objective, *(part.tape for part in rows if part.tape is not None)]
    return all(np.all(polynomial(t, variable="y", coefficient="x").degree <= 1) for t in tapes)
