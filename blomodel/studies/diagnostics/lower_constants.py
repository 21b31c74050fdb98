"""Constants of the lower objective in y near a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blomodel.basics import limits
from blomodel.compiler.passes.derivatives import gradient
from blomodel.studies.diagnostics.points import Place

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem


@dataclass(frozen=True)
class LocalConstants:
    """Constants of the lower objective in y near a point, constraints left aside.

    Attributes
    ----------
    polyak : float
        Smallest ||grad_y g||^2 / (2 (g - v)) over the points looked at; 0: no PL inequality.
    smoothness : float
        Largest ratio of gradient differences, or curvature, over the points looked at.
    strong_convexity : float
        Smallest eigenvalue of g_yy at the point.
    radius : float
        How far from the point was looked.
    """

    polyak: float
    smoothness: float
    strong_convexity: float
    radius: float

    def __str__(self) -> str:
        return (
            f"Within {self.radius:g} of y: PL constant {self.polyak:.3g}, smoothness "
            f"{self.smoothness:.3g}, smallest curvature at y {self.strong_convexity:.3g}."
        )


def local_constants(
    problem: BilevelProblem,
    x: object,
    y: object,
    *,
    radius: float = 1.0,
    samples: int = 50,
    seed: int = 0,
) -> LocalConstants:
    """PL and smoothness constants of g in y, from points within ``radius`` of y."""
    at = Place.read(problem, x, y)
    model, p = at.model, at.p
    slope_of = gradient(model.g, ("y",))
    random = np.random.default_rng(seed)
    v = at.lower.value
    here = slope_of(at.x, at.y, p)
    polyak, smoothness = np.inf, 0.0
    scale = 1e-12 * (1 + abs(v))
    for k in range(samples + 1):
        direction = random.standard_normal(at.y.size)
        length = radius * random.random() if k else 0.0
        point = at.y + length * direction / np.linalg.norm(direction)
        slope, value = slope_of(at.x, point, p), float(model.g(at.x, point, p)[0])
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            continue
        if value - v > scale:
            polyak = min(polyak, float(slope @ slope) / (2 * (value - v)))
        if length > 0:
            smoothness = max(smoothness, float(np.linalg.norm(slope - here)) / length)
    lowest = np.nan
    if limits.DENSE_SHADOW.allows(at.y.size):
        values = np.linalg.eigvalsh(at.hessian_y)
        lowest, smoothness = float(values[0]), max(smoothness, float(np.abs(values).max()))
    return LocalConstants(
        polyak=polyak if np.isfinite(polyak) else 0.0,
        smoothness=smoothness,
        strong_convexity=lowest,
        radius=radius,
    )
