"""What the values of parameters decide about the way in which a problem is solved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blomodel.model.curvature_signs import curvature_signs
from blomodel.model.model import Model
from blomodel.transformations.chain import Chain
from blomodel.transformations.origin import FittingOrigin
from blomodel.transformations.scales import FittingScales
from blomodel.transformations.units import FittingUnits

NEAR = 4.0  # sizes as logarithms to base two that differ by less call for no other units


@dataclass(frozen=True, eq=False)
class Route:
    """Origins and units that fit the numbers at some parameters, and which parts are convex there.

    Attributes
    ----------
    base : Chain
        What is done to every problem, and then variables that are far from zero counted from elsewhere.
    model : Model
        What the base ends with, compiled.
    """

    p: bytes
    origin: FittingOrigin
    base: Chain
    model: Model
    scales: FittingScales
    units: FittingUnits
    signs: tuple[bool, ...]

    def is_same_as(self, other: Route) -> bool:
        """Whether the other parameters lead the same way."""
        return bool(
            self.signs == other.signs
            and self.origin.is_near(other.origin)
            and np.abs(_units(self) - _units(other)).max() <= NEAR
            and _are_near(self.scales, other.scales)
        )


def find_route(plain: Chain, model: Model, p: np.ndarray) -> Route:
    """Look at the model as it was stated, at the end of a chain."""
    origin = FittingOrigin(model, p)
    base, signs = plain.where_accepted(origin), curvature_signs(model, p)
    if base is not plain:
        model = Model(base.end)
    return Route(
        p.tobytes(), origin, base, model, FittingScales(model, p), FittingUnits(model, p), signs
    )


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
