r"""What a lower level in whole numbers sees of a real x: parts of rows, rounded down.

A row :math:`a\cdot y \le b(x)` in which y is whole and the entries of a are multiples of a unit u says
the same as :math:`a\cdot y \le u w` with :math:`w = \lfloor b(x) / u \rfloor`. So w decides which y are
feasible, and whether a known lower point is excluded is a matter of whole numbers: a cut holds at the
very x at which it was found. What remains open is :math:`b(x) < u (w + 1)`. A relaxation must be closed,
and its minimum is an infimum, which need not be attained: the answer jumps where b(x) reaches
:math:`u (w + 1)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blomodel.basics.memory import remembered
from blomodel.model.model import Model
from blomodel.reformulations.forms.exclusion import common_unit, least_positive
from blomodel.solvers.branching.scip_expressions import Formula

Array = np.ndarray

ROUNDING = 1e-9  # relative: a quotient this near to a whole number is one
MARGIN = 2e-6  # of the unit: how far points inside keep from a jump
THIN = 5e-7  # of the unit: with less room than this, SCIP's tolerance included, a cell is empty
NEAR = 5  # margins within which a point lies at a jump


@dataclass(frozen=True, eq=False)
class Floor:
    """A lower row ``a'y <= constant + slope'x`` in whole y.

    Attributes
    ----------
    row : int
        Its number among the lower inequalities.
    unit : float
        Of which a'y is a multiple.
    a, slope : array
    constant : float
    low, high : float
        Between which w lies.
    """

    row: int
    unit: float
    a: Array
    slope: Array
    constant: float
    low: float
    high: float

    def side(self, x: Sequence[Formula]) -> Formula:
        """b(x) / u."""
        total: Formula = self.constant / self.unit
        for column in np.flatnonzero(self.slope):
            total = total + float(self.slope[column] / self.unit) * x[int(column)]
        return total

    def value(self, x: Array) -> float:
        """W at x."""
        side = float(self.side([float(entry) for entry in x]))
        return float(np.floor(side + ROUNDING * (1 + abs(side))))

    def own(self, y: Array) -> float:
        """a'y / u, a whole number."""
        return float(np.round(self.a @ y / self.unit))


@remembered
def find_floors(model: Model, p: Array) -> tuple[Floor, ...]:
    """The lower rows that hold whole y and a real x, or coefficients of x without a unit."""
    if not model.integer_y.any() or not len(model.lower_in) or not model.lower_in.is_affine:
        return ()
    rows = model.lower_in.linearise(np.zeros(model.x.size), np.zeros(model.y.size), p)
    in_x, in_y = rows.in_x.toarray(), rows.in_y.toarray()
    low, high = model.bounds(p)
    found = []
    for k in range(len(model.lower_in)):
        slope, a = -in_x[k], in_y[k]
        if not slope.any() or not a.any() or not np.all(model.integer_y[a != 0]):
            continue
        unit = common_unit(a[a != 0])
        is_sharp = least_positive(slope, float(rows.value[k]), model.integer_x) > 0
        if unit == 0.0 or is_sharp:
            continue
        held = slope != 0
        ends = np.array([slope[held] * low[held], slope[held] * high[held]])
        least, most = ends.min(axis=0).sum() - rows.value[k], ends.max(axis=0).sum() - rows.value[k]
        room = ROUNDING * (1 + np.abs(rows.value[k]))
        found.append(
            Floor(
                k,
                unit,
                a,
                slope,
                float(-rows.value[k]),
                float(np.floor(least / unit + room)),
                float(np.floor(most / unit + room)),
            )
        )
    return tuple(found)


def lies_at_a_jump(model: Model, p: Array, x: Array) -> bool:
    """Whether the lower level's feasible answers are about to change in the direction of some row."""
    for floor in find_floors(model, p):
        side = float(floor.side([float(entry) for entry in x]))
        if 0.0 < floor.value(x) + 1.0 - side <= NEAR * MARGIN:
            return True
    return False


def state_floors(
    program: Any,
    floors: Sequence[Floor],
    x: list[Any],
    y: list[Any],
    *,
    margin: float = 0.0,
    empty: Sequence[Array] = (),
) -> list[Any]:
    """Variables w, and the rows that they satisfy.

    ``margin`` is kept from the jumps. ``empty`` are values of w to which no x belongs.
    """
    if not floors:
        return []
    low, high = np.array([f.low for f in floors]), np.array([f.high for f in floors])
    whole = program.variables(low, high, np.ones(len(floors), dtype=bool))
    for floor, w in zip(floors, whole, strict=True):
        side = floor.side(x)
        program.at_most_zero([w - side, side - w - (1.0 - margin)])
        held = np.flatnonzero(floor.a)
        sum_of_y = sum(float(floor.a[j] / floor.unit) * y[int(j)] for j in held)
        program.at_most_zero([sum_of_y - w])
    for cell in empty:
        sides = [
            (w - float(value) + 1.0, float(value) + 1.0 - w)
            for w, value in zip(whole, np.round(cell), strict=True)
        ]
        program.one_holds([side for pair in sides for side in pair])
    return list(whole)
