"""The set of lower minimisers at x, and the best point of it in some other sense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.basics.memory import remembered
from blomodel.compiler.blocks import Block
from blomodel.programs.parametric import ParametricProgram
from blomodel.solvers.answer import Answer, InnerStatus

if TYPE_CHECKING:
    from blomodel.model.model import Model


class ChoiceAmongMinimisers:
    """Minimise an expression over the lower minimisers at x.

    Parameters
    ----------
    model : Model
    objective : cvxpy expression
        Convex in y; NonconvexLowerError is raised where this is not known.
    further : sequence of cvxpy constraints
        What else the choice must satisfy.
    parameters : sequence of cvxpy.Parameter
        Of the objective, besides those of the model.
    """

    further: list[Constraint]
    parameters: tuple[cp.Parameter, ...]

    def __init__(
        self,
        model: Model,
        objective: cp.Expression,
        further: Sequence[Constraint] = (),
        parameters: Sequence[cp.Parameter] = (),
    ) -> None:
        self.model = model
        self.objective = objective
        self.further = list(further)
        self.parameters = tuple(parameters)

    @property
    def is_face(self) -> bool:
        """Whether the minimisers are described exactly, as the face of a polyhedron."""
        return self.model.constant_curvature is not None

    def solve(
        self,
        x: np.ndarray,
        p: np.ndarray,
        answer: Answer,
        *,
        slack: float,
        values: Sequence[float] | np.ndarray = (),
    ) -> Answer:
        """The best minimiser at x, given one of them.

        Parameters
        ----------
        slack : float
            Relative gap that still counts as minimal where the minimisers are no face.
        values : array
            Of the objective's own parameters.
        """
        model = self.model
        if model.has_dear_curvatures:
            return self._too_large()
        given = np.append(p, values)
        if not self.is_face:
            return self.solve_by_level(x, p, answer, slack=slack, values=values)
        slope = model.g_grad(x, answer.y, p)[model.x.size :]
        offset = slope @ answer.y + 1e-9 * (1 + abs(slope @ answer.y))
        curvature_level = model.constant_curvature @ answer.y
        return self._face_program.solve(x, np.concatenate([given, slope, [offset], curvature_level]))

    def solve_by_level(
        self,
        x: np.ndarray,
        p: np.ndarray,
        answer: Answer,
        *,
        slack: float,
        values: Sequence[float] | np.ndarray = (),
    ) -> Answer:
        """The best of all y whose lower objective is worse than the optimal value by a relative gap."""
        if self.model.has_dear_curvatures:
            return self._too_large()
        level = answer.value + slack * (1 + abs(answer.value))
        return self._level_program.solve(x, np.concatenate([p, values, [level]]))

    def _too_large(self) -> Answer:
        """Where products must do for the lower level, a program with its data again is out of reach."""
        reason = "the lower level is too large to choose among its minimisers"
        return Answer.without_point(InnerStatus.FAILED, self.model.y.size, reason)

    @property
    @remembered
    def _face_program(self) -> ParametricProgram:
        """Minimisers of an LP or QP with constant Hessian.

        With s the slope of g at one minimiser, the others are the feasible y at which the slope is
        the same and s'y is not larger; both are affine in y.
        """
        model = self.model
        slope = cp.Parameter(model.y.size, name="slope")
        offset = cp.Parameter(name="offset")
        level = cp.Parameter(model.y.size, name="curvature_level")
        flat = cp.hstack([cp.vec(leaf, order="F") for leaf in model.y.leaves])
        extra = [slope @ flat <= offset]
        curvature = model.constant_curvature
        if curvature is not None and curvature.nnz:
            extra.append(curvature @ flat == level)
        else:
            extra.append(0.0 * flat == 0.0 * level)
        return self._program(extra, (slope, offset, level))

    @property
    @remembered
    def _level_program(self) -> ParametricProgram:
        """Near-minimisers of any convex lower level: g(x, y) <= level."""
        level = cp.Parameter(name="level")
        return self._program([self.model.g_expression <= level], (level,))

    def _program(
        self, extra: list[Constraint], parameters: tuple[cp.Parameter, ...]
    ) -> ParametricProgram:
        model = self.model
        return ParametricProgram(
            [self.objective],
            [*model.lower_constraints, *self.further, *extra],
            x=model.x,
            y=model.y,
            p=Block("p", (*model.p.leaves, *self.parameters, *parameters)),
            x_bounds=model.x_bounds,
            name="choice among lower minimisers",
        )
