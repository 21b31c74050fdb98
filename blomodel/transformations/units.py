r"""Objectives in units of their own, where what was stated is far from order one.

Solvers and tests know tolerances, and these mean something only for numbers of order one: a lower
objective of 1e-5 has multipliers of 1e-5, which look like zeros. Both objectives are divided by powers
of two, which changes no digit: :math:`f' = f / t_f` and :math:`g' = g / t_g`. Points stay as they are, a
multiplier comes back as :math:`t_g \lambda'`, a value or bound as :math:`t_f` times the one found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from blomodel.basics import limits
from blomodel.basics.memory import remembered
from blomodel.compiler.tape import Tape
from blomodel.declare.followers import Lower
from blomodel.declare.point import Values
from blomodel.declare.statement import Statement
from blomodel.model.model import Model
from blomodel.transformations.ranges import middle_of
from blomodel.transformations.transformation import Applied, Transformation

NEAR = 1e-2  # where a function that explodes within one unit of y still tells its size
EXPLODES = 2.0**26  # times the slopes elsewhere; a fourth power has a millionth at NEAR
SMALL, LARGE = 2.0**-8, 2.0**20  # slopes between these count as of order one


class FittingUnits(Transformation):
    """Objectives divided by the sizes of their slopes, where these are far from one.

    Parameters
    ----------
    model : Model
        The statement, compiled.
    p : array
        Values of the parameters, at which slopes are looked at.
    """

    upper: float
    lower: float

    name: ClassVar[str] = "units"

    def __init__(self, model: Model, p: np.ndarray) -> None:
        self.upper, self.lower = objective_units(model, p)

    def obstacle(self, statement: Statement) -> str | None:
        """One of the objectives must be in units of another size."""
        return "both objectives are of order one" if self.upper == self.lower == 1.0 else None

    def apply(self, statement: Statement) -> Applied:
        """Both objectives divided."""
        level = statement.lower
        followers = statement.followers
        if self.lower != 1.0:
            objective = type(level.objective)((1.0 / self.lower) * level.objective.args[0])
            followers = (Lower(objective, level.constraints, level.variables, name=level.name),)
        f = statement.upper_objective
        after = replace(
            statement,
            upper_objective=f if self.upper == 1.0 else (1.0 / self.upper) * f,
            followers=followers,
        )
        parts = [
            f"the {which} objective is counted in units of {unit:.3g}"
            for which, unit in (("upper", self.upper), ("lower", self.lower))
            if unit != 1.0
        ]
        reason = " and ".join(parts)
        return _InUnits(self.name, reason, statement, after, self.upper, self.lower)


@dataclass(frozen=True, eq=False)
class _InUnits(Applied):
    upper: float
    lower: float

    def invert_multipliers(self, multipliers: list[np.ndarray], values: Values) -> list[np.ndarray]:
        """Multipliers of the objective as it was stated."""
        return [self.lower * np.asarray(part) for part in multipliers]

    def invert_value(self, value: float) -> float:
        """The value in the stated units."""
        return self.upper * value

    def invert_lower_value(self, value: float) -> float:
        """The lower objective in the stated units."""
        return self.lower * value


@remembered
def slope_there(slope: Tape, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The slopes at a point; several looks begin at the same one, which takes long with large data."""
    return slope(x, y, p)


def objective_units(
    model: Model, p: np.ndarray, sizes: np.ndarray | None = None, primal: np.ndarray | None = None
) -> tuple[float, float]:
    """Powers of two by which to divide the upper and the lower objective; 1: nothing is to be done.

    ``sizes``: units of the variables x, then y, if they are not counted in the stated ones. ``primal``:
    which entries of y tell of the lower objective, where others are its multipliers.
    """
    n_x, n_y = model.x.size, model.y.size
    sizes = np.ones(n_x + n_y) if sizes is None else sizes
    low, high = model.bounds(p)
    middle = middle_of(low, high)
    # Far outside its bounds an exponential is worth anything.
    within = model.y_bounds
    points = [
        (x, np.clip(y * sizes[n_x:], *within))
        for x in (middle, np.clip(middle + sizes[:n_x], low, high))
        for y in (0.0, 1.0, -1.0, NEAR, -NEAR)
    ]
    if not limits.FEW_LOOKS.allows(model.f_grad.n_products + model.g_grad.n_products):
        points = [points[0], points[6]]  # the middle, and one away from it in x and y

    def unit(slope: Tape, part: slice | np.ndarray) -> float:
        found = [np.abs(slope_there(slope, x, y, p) * sizes)[part] for x, y in points]
        finite = [slopes for slopes in found if np.all(np.isfinite(slopes))]
        largest = np.max(finite, axis=0) if finite else np.zeros(0)
        if not largest.size or not largest.max() > 0 or SMALL <= largest.max() <= LARGE:
            return 1.0
        size = largest.max() if largest.max() < SMALL else _typical(np.array(finite))
        return float(2.0 ** np.round(np.log2(size))) if size < SMALL or size > LARGE else 1.0

    of_f = unit(model.f_grad, slice(0, n_x + n_y))
    if primal is not None:
        return of_f, unit(model.g_grad, n_x + primal)
    # Multipliers in the lower answer are in the units of the objective as it was stated.
    of_g = 1.0 if model.statement.partners else unit(model.g_grad, slice(n_x, n_x + n_y))
    return of_f, of_g


def _typical(slopes: np.ndarray) -> float:
    """The largest slope of each variable at several points (rows), averaged over variables.

    One steep variable must not make what the others are worth look like nothing, nor one place that is
    steeper than the others by far more than powers are, as with an exponential.
    """
    sizes = []
    for column in slopes.T:
        found = np.sort(column[column > 0])
        if found.size:
            middle = found[(found.size - 1) // 2]
            sizes.append(middle if found[-1] > EXPLODES * middle else found[-1])
    return float(np.exp(np.log(sizes).mean()))
