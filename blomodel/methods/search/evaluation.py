"""What a descent asks of a function of x at one point."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from blomodel.solvers.answer import InnerStatus


class Evaluation(Protocol):
    """A function of x at one point; ``value`` is infinite where there is no lower answer."""

    @property
    def x(self) -> np.ndarray:
        """The point."""

    @property
    def value(self) -> float:
        """The function there."""

    @property
    def gradient(self) -> np.ndarray:
        """Its slope in x."""


class WithAnswer(Evaluation, Protocol):
    """The same with the y that belongs to it."""

    @property
    def y(self) -> np.ndarray:
        """The lower answer, or what stands for it."""

    @property
    def is_finite(self) -> bool:
        """Whether value and slope are numbers."""


class WithStatus(Evaluation, Protocol):
    """The same with what the lower level said."""

    @property
    def y(self) -> np.ndarray:
        """The lower answer, or what stands for it."""

    @property
    def lower_status(self) -> InnerStatus:
        """How the lower solve ended."""
