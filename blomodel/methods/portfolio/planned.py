"""Steps that solve other problems by plans of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from blomodel.methods.portfolio.effort import Effort
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.step import Step
from blomodel.methods.run.run import Run
from blomodel.model.model import Model


class Planned(Protocol):
    """A plan, as far as it is needed here."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """What it does, in order."""

    def run(self, run: Run) -> None:
        """Run all of it."""


class PlanOf(Protocol):
    """Makes the plan for a model; it can be sent to another process."""

    def __call__(self, model: Model, p: np.ndarray, *, effort: Effort) -> Planned:
        """The plan for these values of the parameters."""


@dataclass(frozen=True)
class PlannedStep(Step):
    """A step that a plan makes itself, since it knows how plans are made."""

    plan_of: PlanOf

    @classmethod
    def consider(cls, situation: Situation) -> None:
        """Never: see the class."""
        return None
