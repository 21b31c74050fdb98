"""Transformations one after another: a value that prints, and that points go through both ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from blomodel.declare.point import Point, Values
from blomodel.declare.statement import Statement
from blomodel.errors import ModelError
from blomodel.transformations.transformation import Applied, Transformation


@dataclass(frozen=True, eq=False)
class Chain:
    """A statement and what was done to it, step by step; ``print`` it for a line on each step.

    Attributes
    ----------
    start : Statement
        What the first step was given.
    steps : tuple of Applied
    """

    start: Statement
    steps: tuple[Applied, ...] = ()

    @property
    def end(self) -> Statement:
        """What the last step has made."""
        return self.steps[-1].after if self.steps else self.start

    def then(self, *transformations: Transformation) -> Chain:
        """The chain with further steps.

        Raises
        ------
        ModelError
            When a transformation does not apply.
        """
        chain = self
        for transformation in transformations:
            obstacle = transformation.obstacle(chain.end)
            if obstacle is not None:
                raise ModelError(
                    f"The transformation '{transformation.name}' does not apply here: {obstacle}."
                )
            chain = Chain(chain.start, (*chain.steps, transformation.apply(chain.end)))
        return chain

    def where_accepted(self, *transformations: Transformation) -> Chain:
        """The chain with those further steps that apply."""
        chain = self
        for transformation in transformations:
            if transformation.accepts(chain.end):
                chain = Chain(chain.start, (*chain.steps, transformation.apply(chain.end)))
        return chain

    def forward(self, point: Point, p: np.ndarray) -> Point:
        """The point at the end, from one at the start; p: the parameters' values."""
        return Point.of_values(self.end.levels, self.forward_values(point.values, p))

    def forward_values(self, values: Values, p: np.ndarray) -> Values:
        """Values at the end, as far as they follow from those that are given at the start."""
        for step in self.steps:
            values = step.forward(values, p)
        return values

    def invert(self, point: Point) -> Point:
        """The point at the start, from one at the end."""
        return Point.of_values(self.start.levels, self.invert_values(point.values))

    def invert_values(self, values: Values) -> Values:
        """Values at the start, as far as they follow from those that are given at the end."""
        for step in reversed(self.steps):
            values = step.invert(values)
        return values

    def invert_upper(self, x: np.ndarray) -> np.ndarray:
        """The upper variables at the start as a vector, from those at the end alone."""
        return self.start.levels.x.join(self.invert_values(self.end.levels.x.unpack(x)))

    def invert_lower(self, y: np.ndarray) -> np.ndarray:
        """The lower variables at the start as a vector, from those at the end alone."""
        return self.start.levels.y.join(self.invert_values(self.end.levels.y.unpack(y)))

    def invert_multipliers(self, multipliers: Sequence[np.ndarray], point: Point) -> list[np.ndarray]:
        """Multipliers of the lower constraints at the start, from those at the end.

        One array for each constraint, those of the first follower first; ``point`` lies at the end. None
        at all where the lower level has no answer.
        """
        if not multipliers:
            return []
        found, values = list(multipliers), point.values
        for step in reversed(self.steps):
            found = step.invert_multipliers(found, values)
            values = step.invert(values)
        return found

    def invert_value(self, value: float) -> float:
        """Upper objective at the start, from the one at the end; both are to be minimised."""
        for step in reversed(self.steps):
            value = step.invert_value(value)
        return value

    def invert_lower_value(self, value: float) -> float:
        """Lower objective at the start, from the one at the end; both are to be minimised."""
        for step in reversed(self.steps):
            value = step.invert_lower_value(value)
        return value

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Applied]:
        return iter(self.steps)

    def __str__(self) -> str:
        if not self.steps:
            return "nothing: the problem is compiled as it was stated"
        return "\n".join(map(str, self.steps))
