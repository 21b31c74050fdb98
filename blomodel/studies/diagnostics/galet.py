"""Measures of the GALET paper: (8), the value-function KKT score (47), the Lyapunov function (20)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blomodel.studies.diagnostics.points import Place, needs_free_lower

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem


@dataclass(frozen=True)
class GaletMeasures:
    """The stationarity measure of GALET (eq. 8): all three vanish at a solution.

    Attributes
    ----------
    r_x : float
        Squared norm of grad_x f + g_xy w.
    r_w : float
        Squared norm of g_yy (grad_y f + g_yy w).
    r_y : float
        g(x, y) less the lower level's optimal value.
    w : array
        The shadow implicit gradient.
    """

    r_x: float
    r_w: float
    r_y: float
    w: np.ndarray

    def __str__(self) -> str:
        return f"R_x = {self.r_x:.3g}, R_w = {self.r_w:.3g}, R_y = {self.r_y:.3g}"


@dataclass(frozen=True)
class ValueFunctionKkt:
    """How far a point is from the KKT conditions of min f subject to g - v <= 0.

    Attributes
    ----------
    score : float
        ||grad_x f||^2 + ||grad_y f||^2 + g - v, what the paper draws: (47).
    residual : float
        ||grad_x f + s (grad_x g - grad v)||^2 + ||grad_y f + s grad_y g||^2 + g - v, with the
        multiplier s >= 0 that makes it least: (48).
    multiplier : float
        That s.
    gap : float
        g(x, y) - v(x).
    """

    score: float
    residual: float
    multiplier: float
    gap: float

    def __str__(self) -> str:
        return (
            f"KKT score of the value-function problem {self.score:.3g} (47); with its best multiplier "
            f"{self.multiplier:.3g} the residual of (48) is {self.residual:.3g}, of which "
            f"{self.gap:.3g} is the lower gap."
        )


def galet_measures(
    problem: BilevelProblem, x: object, y: object, w: np.ndarray | None = None
) -> GaletMeasures:
    """GALET's R_x, R_w and R_y (eq. 8) at a point; without ``w``, at the w that makes R_w least."""
    at = Place.read(problem, x, y)
    if w is None:
        w = at.shadow_gradient()
    r_x = at.f_slopes[0] + at.cross(w)  # (8a)
    r_w = at.curve(at.f_slopes[1] + at.curve(w))
    return GaletMeasures(
        r_x=float(r_x @ r_x),
        r_w=float(r_w @ r_w),  # (8b)
        r_y=at.gap,  # (8c)
        w=w,
    )


def value_function_kkt(problem: BilevelProblem, x: object, y: object) -> ValueFunctionKkt:
    r"""The KKT score of the value-function problem: (47) and (48) of the GALET paper.

    The KKT conditions of :math:`\min f` subject to :math:`g - v \le 0` ask for a multiplier
    :math:`\sigma` with

    .. math:: \nabla_x f + \sigma(\nabla_x g - \nabla v) = 0, \quad
              \nabla_y f + \sigma\nabla_y g = 0, \quad g - v = 0. \tag{48}

    At an exact lower answer :math:`\sigma` has nothing to act on, which leaves (47):
    :math:`\nabla_x f = 0`, :math:`\nabla_y f = 0`, :math:`g = v`. Its score, the sum of the three
    (gradients squared), stays away from 0 at most solutions, which are no KKT points of this problem.
    The lower level must have no constraints.
    """
    at = Place.read(problem, x, y)
    needs_free_lower(at.model, "The KKT score (47)")
    slope = np.concatenate(at.f_slopes)
    pull = np.concatenate([at.g_slopes[0] - at.value_slope, at.g_slopes[1]])
    size = float(pull @ pull)
    multiplier = 0.0 if size == 0 else max(0.0, -float(slope @ pull) / size)
    rest = slope + multiplier * pull
    return ValueFunctionKkt(
        score=float(slope @ slope) + at.gap,  # (47)
        residual=float(rest @ rest) + at.gap,  # (48)
        multiplier=multiplier,
        gap=at.gap,
    )


def lyapunov(problem: BilevelProblem, x: object, y: object, c: float = 1.0) -> float:
    r"""The Lyapunov function (20) of the GALET paper at a point.

    .. math:: V = f(x, y) + w^\dagger(x, y)^{\top}\nabla_y g(x, y) + c\,(g(x, y) - v(x)),

    with :math:`w^\dagger = -(\nabla_{yy}^2 g)^\dagger\nabla_y f`, the shadow implicit gradient of least
    norm. For a suitable c it falls along GALET's iterations but for the error of w.

    Parameters
    ----------
    c : float
        Weight of the lower gap. The paper says that it balances two terms and gives no number.
    """
    at = Place.read(problem, x, y)
    needs_free_lower(at.model, "The Lyapunov function (20)")
    return at.f + float(at.shadow_gradient() @ at.g_slopes[1]) + c * at.gap
