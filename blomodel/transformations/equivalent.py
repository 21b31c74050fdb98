"""Compiled models that are equivalent, with the chain between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blomodel.declare.point import Point
from blomodel.model.model import Model
from blomodel.transformations.chain import Chain


@dataclass(frozen=True, eq=False)
class Equivalent:
    """A compiled model that is equivalent to another one, and the chain between the two.

    Attributes
    ----------
    model : Model
        Compiled from the end of the chain; the other one itself where the chain is empty.
    chain : Chain
    """

    model: Model
    chain: Chain

    @classmethod
    def to_itself(cls, model: Model) -> Equivalent:
        """The model, with nothing done to it."""
        return cls(model, Chain(model.statement))

    @property
    def is_same(self) -> bool:
        """Whether nothing was done."""
        return not self.chain.steps

    @property
    def n_further(self) -> int:
        """How many variables the equivalent model has more."""
        start, end = self.chain.start.levels, self.chain.end.levels
        return end.x.size + end.y.size - start.x.size - start.y.size

    def forward(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A point of the model, from one of the other model."""
        point = self.chain.forward(Point(self.chain.start.levels, x, y), p)
        return point.x, point.y

    def invert(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A point of the other model, from one of the model."""
        point = self.chain.invert(Point(self.chain.end.levels, x, y))
        return point.x, point.y
