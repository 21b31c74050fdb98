r"""The reduced value-function penalty of the papers.

.. math:: F_\gamma(x) = \gamma\,(v_\gamma(x) - v(x)), \qquad
          v_\gamma(x) = \min_y \{ f(x,y)/\gamma + g(x,y) : c(x,y) \le 0 \}, \qquad
          v(x) = \min_y \{ g(x,y) : c(x,y) \le 0 \}.

Upper constraints that hold y join the first minimisation: the optimistic choice of y may be
steered by them, the lower level's own value may not. With coupled constraints the gradient of
either value carries the multipliers of its own minimisation (envelope theorem).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blomodel.compiler.model import Model
from blomodel.inner.answer import Answer, InnerStatus


@dataclass(frozen=True)
class PenaltyEvaluation:
    """F_gamma at one x."""

    x: np.ndarray
    gamma: float
    value: float  # infinite where one of the two minimisations has no solution
    gradient: np.ndarray
    y: np.ndarray  # minimises f/gamma + g
    gap: float  # g(x, y) - v(x): what the lower level could still gain
    lower_y: np.ndarray  # minimises g
    lower_multipliers: np.ndarray
    multipliers: np.ndarray  # of the lower rows in the penalised minimisation
    lower_status: InnerStatus
    penalised_status: InnerStatus

    @property
    def is_finite(self) -> bool:
        """Whether both minimisations had solutions."""
        return bool(np.isfinite(self.value))


class ReducedPenalty:
    """Evaluates F_gamma and its gradient by two parametric programs."""

    def __init__(self, model: Model, p: np.ndarray) -> None:
        self.model = model
        self.p = p
        self.evaluations = 0

    def __call__(self, x: np.ndarray, gamma: float) -> PenaltyEvaluation:
        """F_gamma, its gradient and both minimisers at x."""
        model, p = self.model, self.p
        self.evaluations += 1
        x = np.ascontiguousarray(x, dtype=float)
        lower = model.lower_program.solve(x, p)
        if not _usable(lower):
            return self._infinite(x, gamma, lower, lower)
        weights = (1.0 / gamma, 1.0)
        penalised = model.penalised_program.solve(x, p, weights)
        if not _usable(penalised):
            return self._infinite(x, gamma, lower, penalised)
        slope = model.penalised_program.gradient(x, p, weights, penalised)
        slope = gamma * (slope - model.lower_program.gradient(x, p, (1.0,), lower))
        gap = float(model.g(x, penalised.y, p)[0]) - lower.value
        return PenaltyEvaluation(
            x=x,
            gamma=gamma,
            # f + gamma * gap loses fewer digits than gamma * (v_gamma - v).
            value=float(model.f(x, penalised.y, p)[0]) + gamma * gap,
            gradient=slope,
            y=penalised.y,
            gap=gap,
            lower_y=lower.y,
            lower_multipliers=model.split_duals(lower.duals),
            multipliers=model.split_duals(penalised.duals),
            lower_status=lower.status,
            penalised_status=penalised.status,
        )

    def _infinite(
        self, x: np.ndarray, gamma: float, lower: Answer, penalised: Answer
    ) -> PenaltyEvaluation:
        n_x, n_y = self.model.x.size, self.model.y.size
        n_rows = len(self.model.lower_in) + len(self.model.lower_eq)
        return PenaltyEvaluation(
            x=x,
            gamma=gamma,
            value=np.inf,
            gradient=np.zeros(n_x),
            y=lower.y if _usable(lower) else np.zeros(n_y),
            gap=np.inf,
            lower_y=lower.y if _usable(lower) else np.zeros(n_y),
            lower_multipliers=self.model.split_duals(lower.duals)
            if _usable(lower)
            else np.zeros(n_rows),
            multipliers=np.zeros(n_rows),
            lower_status=lower.status,
            penalised_status=penalised.status,
        )


def _usable(answer: Answer) -> bool:
    return answer.status in (InnerStatus.OPTIMAL, InnerStatus.INACCURATE)
