r"""What every transformation has: where it applies, what it makes of a statement, and the way back.

A transformation takes a statement and gives an equivalent one that is easier for what comes after.
Applied to a statement it leaves an ``Applied``: the statement before and after, and the maps between
them. Values of variables go forward and come back, multipliers of lower constraints and values of both
objectives (so bounds too) come back. All of them are the identity unless a transformation says
otherwise. Values travel as a dict from variable to array, so that a transformation touches its own
variables alone and passes the others through; some may be missing, as in a start that has no y.

Not everything that states a problem differently is a link of a chain:

Zero-sum problems.
    Where f is -g, up to terms in x, the value -v(x) of the lower level is the value of its dual, and
    both levels are one convex program. It is solved at once, as a step of ``auto``: see ``zero_sum``.
Independent problems.
    Where variables and rows fall into groups that never meet, with objectives that are sums over the
    groups, the problem is several problems. This is a fork: each part has a statement of its own,
    points are put side by side, and bounds add up. See ``independent``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.declare.point import Values
from blomodel.declare.statement import Statement


class Transformation(ABC):
    """One way to state a problem differently.

    Attributes
    ----------
    name : str
        What it does, in a few words.
    """

    name: ClassVar[str]

    @abstractmethod
    def obstacle(self, statement: Statement) -> str | None:
        """Why it does not apply to a statement; None where it does."""

    def accepts(self, statement: Statement) -> bool:
        """Whether it applies to a statement."""
        return self.obstacle(statement) is None

    @abstractmethod
    def apply(self, statement: Statement) -> Applied:
        """The statement transformed, and the way back. Only for what it accepts."""


@dataclass(frozen=True, eq=False)
class Applied:
    """A transformation that has been applied; subclasses say what is not the same before and after.

    Attributes
    ----------
    name : str
        Of the transformation.
    reason : str
        What was done and why, in a line.
    before, after : Statement
    """

    name: str
    reason: str
    before: Statement
    after: Statement

    def forward(self, values: Values, p: np.ndarray) -> Values:
        """Values of the variables after, from those before that are known; p: the parameters' values."""
        return values

    def invert(self, values: Values) -> Values:
        """Values of the variables before, from those after."""
        return values

    def invert_multipliers(self, multipliers: list[np.ndarray], values: Values) -> list[np.ndarray]:
        """Multipliers of the lower constraints before, from those after and the values after.

        There is one array for each constraint, or none at all where they are not known.
        """
        return multipliers

    def invert_value(self, value: float) -> float:
        """Upper objective before, to be minimised, from the one after; the larger the larger."""
        return value

    def invert_lower_value(self, value: float) -> float:
        """Lower objective before, to be minimised, from the one after; the larger the larger."""
        return value

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"
