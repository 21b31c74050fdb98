"""The neighbourhood of a point where second derivatives are too many to be found: products must do.

With a free convex lower level and bounds alone on x, phi(x) = f(x, y*(x)) has a gradient, by one solve
with products. Where f falls along no direction within the bounds the point is stationary; where every
entry of x is pressed against a bound, phi rises to first order in every direction, which needs no
second derivatives of phi.
"""

from __future__ import annotations

import numpy as np

from blomodel.certification.certificate_text import STATIONARY
from blomodel.certification.curvature import HELD
from blomodel.certification.neighbourhood import LocalFacts
from blomodel.model.model import Model

AT_A_BOUND = 1e-9  # relative distance
POSITIVE = 1e-9  # smallest curvature of g where y can move, relative to the largest


def why_no_products(model: Model, p: np.ndarray) -> str | None:
    """What keeps this study from a problem; None where nothing does."""
    if not (model.is_convex_below and model.lower_program.is_for_products):
        return "and the lower level is not one that products alone can answer"
    if not model.has_only_upper_bounds(p):
        return "and the upper level has more constraints than bounds on x"
    return None


def study_by_products(
    model: Model, p: np.ndarray, x: np.ndarray, accuracy: float = 1e-9
) -> tuple[bool | None, LocalFacts]:
    """Whether the lower answer is unique, and what the gradient of phi shows."""
    program, n_x = model.lower_program, x.size
    answer = program.solve(x, p, accuracy=accuracy)  # the certificate's own, which is kept
    slope = model.f_grad(x, answer.y, p) if answer.has_point else np.full(1, np.nan)
    if not np.isfinite(slope).all():
        return None, LocalFacts(None, False, "f has no slope at the lower level's answer")
    adjoint = program.solution_adjoint(x, p, answer, slope[n_x:])
    if adjoint is None:
        return None, LocalFacts(None, False, "how the lower answer moves with x is not known here")
    if not adjoint.is_smooth:
        return None, LocalFacts(None, False, "the lower answer has a kink here, as a function of x")
    gradient = slope[:n_x] + adjoint.gradient
    low, high = model.bounds(p)
    near = AT_A_BOUND * (1 + np.abs(x))
    is_low, is_high = x - low <= near, high - x <= near
    falling = np.where((gradient > 0) & is_low, 0.0, gradient)
    falling = np.where((gradient < 0) & is_high, 0.0, falling)
    steepness = 1 + float(np.abs(slope).max(initial=0.0))
    stationarity = float(np.abs(falling).sum()) / steepness
    if stationarity > STATIONARY:
        move = -falling / max(float(np.abs(falling).max()), 1e-300)
        return None, LocalFacts(stationarity, False, "f falls along a feasible direction", move)
    pressed = np.where(is_low, gradient, 0.0) + np.where(is_high, -gradient, 0.0) > HELD * steepness
    if not np.all(pressed | (is_low & is_high)):
        return None, LocalFacts(stationarity, False, "stationary to first order")
    curvatures = program.curvatures_of_moves(x, p, answer)
    if curvatures is None or not curvatures[0] > POSITIVE * curvatures[1]:
        return None, LocalFacts(stationarity, False, "stationary to first order")
    return True, LocalFacts(stationarity, True, "f rises to first order in every direction")
