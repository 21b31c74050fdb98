"""Where a measure is taken: the compiled model, the parameters and one point as flat vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from blomodel.basics import limits
from blomodel.compiler.passes.derivatives import gradient, hessian, jvp
from blomodel.compiler.passes.intervals import intervals
from blomodel.declare.point import Point, read_level
from blomodel.errors import LowerLevelError, ModelError, NonconvexLowerError
from blomodel.model.model import Model
from blomodel.solvers.answer import Answer, InnerStatus

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

ASKED_BY = "diagnostics"


@dataclass(frozen=True)
class Place:
    """A point of a problem, with the derivatives there."""

    model: Model
    p: np.ndarray
    x: np.ndarray
    y: np.ndarray

    @classmethod
    def read(cls, problem: BilevelProblem, x: object, y: object) -> Place:
        """The point that a person gives."""
        problem.check_data()
        point = Point.read(problem.levels, x, y, ASKED_BY)
        return cls(problem.plain_model, problem.parameter_values(), point.x, point.y)

    @cached_property
    def f_slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """grad_x f and grad_y f."""
        slope = self.model.f_grad(self.x, self.y, self.p)
        return slope[: self.x.size], slope[self.x.size :]

    @cached_property
    def g_slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """grad_x g and grad_y g."""
        slope = self.model.g_grad(self.x, self.y, self.p)
        return slope[: self.x.size], slope[self.x.size :]

    @property
    def f(self) -> float:
        """f(x, y)."""
        return float(self.model.f(self.x, self.y, self.p)[0])

    @property
    def g(self) -> float:
        """g(x, y)."""
        return float(self.model.g(self.x, self.y, self.p)[0])

    def curve(self, w: np.ndarray) -> np.ndarray:
        """g_yy w."""
        return jvp(gradient(self.model.g, ("y",)), ("y",))(self.x, self.y, self.p, w)

    def cross(self, w: np.ndarray) -> np.ndarray:
        """g_xy w, a vector of the size of x."""
        return jvp(gradient(self.model.g, ("x",)), ("y",))(self.x, self.y, self.p, w)

    @cached_property
    def hessian_y(self) -> np.ndarray:
        """g_yy as a matrix."""
        return hessian(self.model.g, ("y",), (self.x, self.y, self.p)).toarray()

    @cached_property
    def lower(self) -> Answer:
        """The lower answer at x, searched from y if need be."""
        return lower_answer(self.model, self.x, self.y, self.p)

    @property
    def gap(self) -> float:
        """g(x, y) less the lower level's optimal value; rounding does not make it negative."""
        return max(0.0, self.g - self.lower.value)

    @cached_property
    def value_slope(self) -> np.ndarray:
        """Gradient of the lower level's optimal value v(x), by the envelope theorem."""
        if not self.model.n_lower_rows:
            return self.model.g_grad(self.x, self.lower.y, self.p)[: self.x.size]
        return self.model.lower_program.gradient(self.x, self.p, (1.0,), self.lower)

    def shadow_gradient(self) -> np.ndarray:
        """w of least norm that minimises ||grad_y f + g_yy w||."""
        slope_y = self.f_slopes[1]
        if limits.DENSE_SHADOW.allows(self.y.size):
            return -np.linalg.pinv(self.hessian_y, rcond=1e-10, hermitian=True) @ slope_y
        from scipy.sparse.linalg import LinearOperator, lsmr

        size = self.y.size
        operator = LinearOperator(
            (size, size),
            matvec=lambda w: self.curve(np.ravel(w)),
            rmatvec=lambda w: self.curve(np.ravel(w)),
            dtype=float,
        )
        return np.asarray(lsmr(operator, -slope_y, atol=1e-12, btol=1e-12, maxiter=5000)[0])


def lower_answer(model: Model, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> Answer:
    """The lower answer at x; raises where there is none."""
    answer, _ = model.solve_lower(x, p, y)
    if not answer.status.has_point:
        raise LowerLevelError(f"The lower level is {answer.status.value} at this x.", x)
    return answer


def read_upper(problem: BilevelProblem, x: object) -> tuple[Model, np.ndarray, np.ndarray]:
    """The model, the parameters and a point of the upper level alone."""
    problem.check_data()
    at_x = read_level(problem.levels, "upper", x, ASKED_BY)
    return problem.plain_model, problem.parameter_values(), at_x


def needs_free_lower(model: Model, measure: str) -> None:
    """Refuse lower levels with constraints, where the measure has no definition."""
    if model.n_lower_rows:
        raise ModelError(
            f"{measure} is defined for lower levels without constraints; this one has "
            f"{model.n_lower_rows} rows. bm.certify judges a point of any problem."
        )


def upper_floor(model: Model, p: np.ndarray) -> float:
    """A lower bound on f over both levels' constraints; -inf where none is found.

    Interval arithmetic gives one, and for a jointly convex f the minimum without the lower level does.
    """
    ranges = {"x": model.bounds(p), "y": model.y_bounds, "p": (p, p)}
    floor = float(intervals(model.f, ranges)[0][0])
    try:
        relaxed = model.relaxation_program.solve(np.empty(0), p)
    except NonconvexLowerError:
        return floor  # f is not jointly convex, or a constraint is not
    if relaxed.status is InnerStatus.OPTIMAL:
        floor = max(floor, relaxed.value - 1e-8 * (1 + abs(relaxed.value)))  # what the solver may leave
    return floor
