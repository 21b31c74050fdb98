"""A value for every variable of both levels: by variable, by name, as two flat vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import cvxpy as cp
import numpy as np

from blomodel.declare.levels import Levels
from blomodel.errors import DataError

Values: TypeAlias = dict[cp.Variable, np.ndarray]


@dataclass(frozen=True, eq=False)
class Point:
    """A value for every variable of both levels.

    Attributes
    ----------
    levels : Levels
    x, y : arrays
        The upper and the lower variables, each level flattened column by column.

    Examples
    --------
    >>> import cvxpy as cp
    >>> from blomodel.declare.levels import Levels
    >>> x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    >>> point = Point.read(Levels((x,), (y,), ()), 1.0, {y: [2, 3]}, asked_by="certify")
    >>> point.y
    array([2., 3.])
    >>> point.by_name["x"]
    array(1.)
    """

    levels: Levels
    x: np.ndarray
    y: np.ndarray

    @classmethod
    def present(cls, levels: Levels) -> Point:
        """What the variables hold now; DataError where one of them holds nothing."""
        return cls(levels, levels.x.pack(), levels.y.pack())

    @classmethod
    def of_values(cls, levels: Levels, values: Mapping[cp.Variable, np.ndarray]) -> Point:
        """The point with these values; those of other variables are passed over."""
        return cls(levels, levels.x.join(values), levels.y.join(values))

    @classmethod
    def read(cls, levels: Levels, x: object, y: object, asked_by: str) -> Point:
        """A point as a person gives it; see ``read_level`` for the forms of x and y."""
        return cls(
            levels, read_level(levels, "upper", x, asked_by), read_level(levels, "lower", y, asked_by)
        )

    @property
    def values(self) -> Values:
        """The values by variable, in the variables' shapes."""
        return {
            leaf: value.copy()
            for block, vector in ((self.levels.x, self.x), (self.levels.y, self.y))
            for leaf, value in block.unpack(vector).items()
        }

    @property
    def by_name(self) -> dict[str, np.ndarray]:
        """The values by the variables' names."""
        return {leaf.name(): value for leaf, value in self.values.items()}

    def assign(self) -> None:
        """Set every variable's value."""
        self.levels.x.assign(self.x)
        self.levels.y.assign(self.y)


def read_level(levels: Levels, level: str, given: object, asked_by: str) -> np.ndarray:
    """Values that a person gives for the "upper" or "lower" level, as a flat vector.

    Parameters
    ----------
    given : number, array, list or dict
        A list may hold one array for each variable, a dict goes from variable to array. An array
        stands for all of the level's variables, flattened column by column.
    asked_by : str
        The function that messages name first.
    """
    block = levels.x if level == "upper" else levels.y
    vector = block.read(given, f"{level} variables", asked_by)
    if not np.all(np.isfinite(vector)):
        raise DataError(f"{asked_by}: the {level} values contain NaN or infinite numbers.")
    return vector
