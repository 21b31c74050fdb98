r"""The upper objective at the lower answer, as a function of x alone.

.. math:: \varphi(x) = f(x, y^*(x)), \qquad
          \nabla\varphi(x) = \nabla_x f + (\partial y^* / \partial x)^\top \nabla_y f.

The second part is one linear solve with the matrix of the lower level's optimality conditions: see
``blomodel.programs.adjoint``. Where a lower row touches without pushing, y* has a kink, and the gradient
is that of one of the pieces of phi that meet there. Where the lower answer is not unique and f sees the
difference there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blomodel.basics import limits
from blomodel.compiler.passes.curvature_entries import curvature_entries
from blomodel.model.model import Model
from blomodel.model.quadratic_form import QuadraticForm
from blomodel.solvers.answer import Answer, InnerStatus


@dataclass(frozen=True)
class AnswerEvaluation:
    """phi at one x."""

    x: np.ndarray
    value: float  # infinite where there is no lower answer
    gradient: np.ndarray  # zero where there is none
    answer: Answer  # of the lower level
    has_gradient: bool
    is_smooth: bool  # whether the gradient is that of phi, not of one of several pieces

    @property
    def y(self) -> np.ndarray:
        """The lower answer."""
        return self.answer.y

    @property
    def lower_status(self) -> InnerStatus:
        """How the lower solve ended."""
        return self.answer.status

    @property
    def is_finite(self) -> bool:
        """Whether the lower level has an answer."""
        return bool(np.isfinite(self.value))


class AnswerValue:
    """Evaluates phi and its gradient by one lower solve and one adjoint solve."""

    model: Model
    p: np.ndarray
    evaluations: int

    def __init__(self, model: Model, p: np.ndarray) -> None:
        self.model, self.p = model, p
        self.evaluations = 0
        self._form: QuadraticForm | None = None
        has_form = limits.STUDIED_CURVATURES.allows(curvature_entries(model.f))
        has_form = has_form and not limits.PLAIN_PRODUCTS.allows(model.f.n_products)
        if has_form and model.f_is_quadratic:
            form = QuadraticForm(model.f, model.f_grad, p)
            self._form = form if form.is_worth_it else None

    @staticmethod
    def why_not(model: Model) -> str | None:
        """What keeps phi from having a gradient; None where nothing does."""
        if not model.is_convex_below:
            return "the lower level is not convex, so that its answer may jump"
        return model.lower_program.why_no_adjoint

    def __call__(self, x: np.ndarray, *, keeps_weak: bool = False) -> AnswerEvaluation:
        """Phi, its gradient and the lower answer at x.

        ``keeps_weak`` chooses the piece where lower rows touch without pushing: that on which they
        stay tight.
        """
        model, p = self.model, self.p
        self.evaluations += 1
        x = np.array(x, dtype=float)
        answer = model.lower_program.solve(x, p)
        if not answer.has_point:
            return self._without_gradient(x, np.inf, answer)
        value, slope = self._upper(x, answer.y)
        if not np.isfinite(value):
            return self._without_gradient(x, np.inf, answer)
        n_x = model.x.size
        if not np.isfinite(slope).all():
            return self._without_gradient(x, value, answer)
        adjoint = model.lower_program.solution_adjoint(x, p, answer, slope[n_x:], keeps_weak=keeps_weak)
        if adjoint is None:
            return self._without_gradient(x, value, answer)
        return AnswerEvaluation(
            x=x,
            value=value,
            gradient=slope[:n_x] + adjoint.gradient,
            answer=answer,
            has_gradient=True,
            is_smooth=adjoint.is_smooth,
        )

    def _upper(self, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
        """F and its gradient in (x, y)."""
        if self._form is not None:
            return self._form(x, y)
        value = float(self.model.f(x, y, self.p)[0])
        return value, self.model.f_grad(x, y, self.p) if np.isfinite(value) else np.zeros(0)

    def _without_gradient(self, x: np.ndarray, value: float, answer: Answer) -> AnswerEvaluation:
        return AnswerEvaluation(
            x=x,
            value=value,
            gradient=np.zeros(x.size),
            answer=answer,
            has_gradient=False,
            is_smooth=False,
        )
