"""What the values of parameters decide about the way in which a problem is solved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blomodel.model.curvature_signs import curvature_signs
from blomodel.model.model import Model
from blomodel.transformations.scales import FittingScales
from blomodel.transformations.units import FittingUnits

NEAR = 4.0  # sizes as logarithms to base two that differ by less call for no other units


@dataclass(frozen=True, eq=False)
class Route:
    """Units that fit the numbers at some parameters, and which parts are convex there."""

    p: bytes
    scales: FittingScales
    units: FittingUnits
    signs: tuple[bool, ...]

    def is_same_as(self, other: Route) -> bool:
        """Whether the other parameters lead the same way."""
        return bool(
            self.signs == other.signs
            and np.abs(_units(self) - _units(other)).max() <= NEAR
            and _are_near(self.scales, other.scales)
        )


def find_route(plain: Model, p: np.ndarray) -> Route:
    """Look at the model as it was stated."""
    return Route(p.tobytes(), FittingScales(plain, p), FittingUnits(plain, p), curvature_signs(plain, p))


def _units(route: Route) -> np.ndarray:
    return np.log2([route.units.upper, route.units.lower])


def _are_near(one: FittingScales, other: FittingScales) -> bool:
    is_used = [scales.obstacle(scales.model.statement) is None for scales in (one, other)]
    if not all(is_used):
        return not any(is_used)
    assert one.found is not None and other.found is not None
    pairs = [(one.found.variables, other.found.variables)]
    pairs += zip(one.found.scaled_rows, other.found.scaled_rows, strict=True)
    return all(np.abs(a - b).max(initial=0.0) <= NEAR for a, b in pairs)
