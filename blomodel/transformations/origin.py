r"""Variables counted from a place near the answers, where these are far from zero.

A tolerance of 1e-6 relative to a variable of a million allows a whole unit, and a square of a million
leaves no digit to what is small beside it. Where a variable varies by far less than it is large, as a
year does or a coordinate on a map, it is replaced, :math:`z_j = o_j + z_j'`, for solvers and certificate
alike. Each :math:`o_j` is a multiple of a power of two about as large as the variation, so that it
cancels numbers that were stated to that place without rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import cvxpy as cp
import numpy as np

from blomodel.compiler.expressions.translation import Translation
from blomodel.declare.point import Values
from blomodel.declare.statement import Statement
from blomodel.model.model import Model
from blomodel.transformations.scales import entry_name
from blomodel.transformations.transformation import Applied, Transformation
from blomodel.transformations.whereabouts import FAR, Whereabouts, find_whereabouts

APART = 2.0**8  # a variable this many times as large as its variation is far from zero
NEARBY = 2.0**4  # origins this many variations apart are as good as each other
FIXED = 2.0**-30  # relative; what varies by less does not vary at all
DIGITS = 2.0**-20  # relative; the place to which the origin of a fixed variable is rounded


class FittingOrigin(Transformation):
    """Variables that are far from zero, compared with how far they vary, counted from another place.

    Parameters
    ----------
    model : Model
        The statement, compiled.
    p : array
        Values of the parameters, at which ranges are looked at.
    """

    model: Model
    found: Whereabouts
    origin: np.ndarray

    name: ClassVar[str] = "origin"

    def __init__(self, model: Model, p: np.ndarray) -> None:
        self.model = model
        self.found = find_whereabouts(model, p)
        self.origin = _origin(model, self.found)

    def obstacle(self, statement: Statement) -> str | None:
        """Some variable must be far from zero."""
        return None if self.origin.any() else "no variable is far from zero compared with its variation"

    def apply(self, statement: Statement) -> Applied:
        """Both levels in variables that are counted from their origins."""
        levels, n_x = statement.levels, statement.levels.x.size
        origins = dict(levels.x.unpack(self.origin[:n_x])) | dict(levels.y.unpack(self.origin[n_x:]))
        maps = {
            old: (cp.Variable(old.shape, name=old.name()), np.asarray(origin))
            for old, origin in origins.items()
            if np.any(origin)
        }
        after = statement.rewritten(Translation(maps), {old: new for old, (new, _) in maps.items()})
        return _Moved(self.name, self._reason(), statement, after, maps)

    def _reason(self) -> str:
        far = int(np.abs(self.origin).argmax())
        count = int(np.count_nonzero(self.origin))
        others = f", and {count - 1} others likewise" if count > 1 else ""
        return f"'{entry_name(self.model, far)}' is counted from {self.origin[far]:.10g}{others}"

    def is_near(self, other: FittingOrigin) -> bool:
        """Whether the other origin serves as well."""
        spread = np.maximum(self.found.spread, other.found.spread)
        apart = np.abs(self.origin - other.origin)
        return bool(np.all(apart <= np.where(np.isfinite(spread), NEARBY * spread, 0.0)))


@dataclass(frozen=True, eq=False)
class _Moved(Applied):
    origins: Mapping[cp.Variable, tuple[cp.Variable, np.ndarray]]  # by the variable that was replaced

    def forward(self, values: Values, p: np.ndarray) -> Values:
        """The values counted from the origins."""
        found = {}
        for variable, value in values.items():
            new, origin = self.origins.get(variable, (variable, None))
            found[new] = value if origin is None else np.asarray(value) - origin
        return found

    def invert(self, values: Values) -> Values:
        """The values counted from zero."""
        stated = {new: (old, origin) for old, (new, origin) in self.origins.items()}
        found = {}
        for variable, value in values.items():
            old, origin = stated.get(variable, (variable, None))
            found[old] = value if origin is None else np.asarray(value) + origin
        return found


def _origin(model: Model, found: Whereabouts) -> np.ndarray:
    """Where entries are counted from; zero for those that are not far from it."""
    size, spread = np.abs(found.point), found.spread
    varies = np.isfinite(spread) & (spread > FIXED * size)
    is_far = np.where(varies, size > APART * spread, np.isfinite(spread) & (size > FAR))
    is_far &= ~_multipliers(model)
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.exp2(np.floor(np.log2(np.where(varies, spread, DIGITS * size))))
    whole = np.concatenate([model.integer_x, model.integer_y])
    place = np.where(whole, np.maximum(place, 1.0), place)
    rounded = np.where(is_far, np.round(found.point / np.where(is_far, place, 1.0)), 0.0)
    # What does not vary is left a little beside zero: a range of nothing around it says no size.
    rounded -= np.where(is_far & ~varies, 1.0, 0.0)
    return np.asarray(np.where(is_far, rounded * place, 0.0))


def _multipliers(model: Model) -> np.ndarray:
    """Entries of (x, y) that are multipliers in the lower answer, whose sign has a meaning."""
    mask = np.zeros(model.x.size + model.y.size, bool)
    for partner in model.statement.partners:
        if not partner.is_stationarity:
            for variable in partner.variables:
                part = model.y.slice_of(variable)
                mask[model.x.size + part.start : model.x.size + part.stop] = True
    return mask
