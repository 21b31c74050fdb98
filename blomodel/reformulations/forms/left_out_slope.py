r"""The part of the slope of F_gamma that PBGD-Free leaves out.

.. math:: \nabla F_\gamma(x) - \nabla_x f(x, y_\gamma) =
          \gamma\,(\nabla_x g(x, y_\gamma) - \nabla v(x)),

with the multipliers of either minimisation where lower constraints hold x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blomodel.errors import LowerLevelError, NonconvexLowerError
from blomodel.model.model import Model
from blomodel.reformulations.forms.reduced_penalty import ReducedPenalty
from blomodel.structure.flatness import penalised_answer


@dataclass(frozen=True)
class LeftOutSlope:
    """Both parts of the slope of F_gamma at an x.

    Attributes
    ----------
    left_out : array
        What PBGD-Free leaves out.
    own : array
        grad_x f at the penalised answer, along which it steps.
    gamma : float
        The penalty weight.
    y : array
        The penalised answer.
    """

    left_out: np.ndarray
    own: np.ndarray
    gamma: float
    y: np.ndarray

    @property
    def norm(self) -> float:
        """Length of what is left out."""
        return float(np.linalg.norm(self.left_out))

    @property
    def slope(self) -> np.ndarray:
        """The gradient of F_gamma."""
        return self.own + self.left_out

    def __str__(self) -> str:
        return (
            f"grad F_gamma, gamma = {self.gamma:g}, is grad_x f of length "
            f"{np.linalg.norm(self.own):.3g} plus {self.norm:.3g} that PBGD-Free leaves out."
        )


def left_out_of_model(model: Model, p: np.ndarray, x: np.ndarray, gamma: float) -> LeftOutSlope:
    """Both parts at x, from exact minimisations where they are convex, else from searches."""
    slope, y = _penalty_slope(model, p, x, gamma)
    own = model.f_grad(x, y, p)[: x.size]
    return LeftOutSlope(left_out=slope - own, own=own, gamma=gamma, y=y)


def _penalty_slope(
    model: Model, p: np.ndarray, x: np.ndarray, gamma: float
) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of F_gamma, and the penalised answer."""
    penalty = ReducedPenalty(model, p)
    try:
        found = penalty(x, gamma)
        if found.is_finite:
            return penalty.with_chosen_multipliers(found).gradient, found.y
        raise LowerLevelError(f"F_gamma has no value at x = {x}.", x)
    except NonconvexLowerError:
        rows = (model.lower_in.tape, model.lower_eq.tape)
        if any(tape is not None and tape.depends_on("x") for tape in rows):
            raise
    answer, _ = model.solve_lower(x, p, np.zeros(model.y.size))
    if not answer.status.has_point:
        raise LowerLevelError(f"The lower level is {answer.status.value} at this x.", x)
    y = penalised_answer(model, p, x, answer.y, gamma)
    change = model.g_grad(x, y, p)[: x.size] - model.g_grad(x, answer.y, p)[: x.size]
    return model.f_grad(x, y, p)[: x.size] + gamma * change, y
