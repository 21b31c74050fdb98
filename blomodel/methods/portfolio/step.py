"""What a step of a plan is: when it is taken, what it does and with which share of the time."""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from blomodel.basics.limits import Limit
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.run.run import Run


@dataclass(frozen=True)
class Omission:
    """A step that is left out.

    Attributes
    ----------
    step : str
        The name of the step.
    reason : str
    limit : Limit or None
        The limit of size that says so.
    """

    step: str
    reason: str
    limit: Limit | None = None

    @classmethod
    def by_size(cls, step: str, size: int, limit: Limit) -> Omission:
        """A step left out since a size is beyond its limit."""
        return cls(step, f"{size:,} {limit.unit}", limit)

    def __str__(self) -> str:
        if self.limit is None:
            return f"{self.step}: {self.reason}"
        return f"{self.step}: {self.reason}, and the limit is {self.limit.value:,} ({self.limit.reason})"


@dataclass(frozen=True)
class Share:
    """How much of the time that remains a step may take: a part of it, and no more than some seconds."""

    part: float = 1.0
    seconds: float = math.inf

    def of(self, run: Run) -> float:
        """The seconds that the step may take now."""
        return min(self.seconds, self.part * run.remaining)

    def __str__(self) -> str:
        if math.isfinite(self.seconds):
            return f"at most {self.seconds:g} s"
        return "all the time that remains" if self.part == 1.0 else f"{self.part:.0%} of the time left"


class Outlook(enum.Enum):
    """What a step says when it comes back."""

    SETTLED = "the problem is settled, nothing need follow"
    MORE = "with more effort it would do more"
    DONE = "it has done all that it can"


@dataclass(frozen=True)
class Step(ABC):
    """One thing that ``auto`` tries.

    Attributes
    ----------
    name : str
    family : str
        The kind of idea behind it. Two steps of different families that end at the same value
        confirm each other; empty where a step only refines what others have found.
    share : Share
        Of the time that remains when it begins.
    """

    name: ClassVar[str]
    family: ClassVar[str] = ""
    is_last: ClassVar[bool] = False  # whether it is run once, after all levels of effort
    may_prove: ClassVar[bool] = False  # whether with more effort it may prove that a point is optimal
    is_resumed: ClassVar[bool] = False  # whether it goes on at the next level after its share has ended
    is_dear: ClassVar[bool] = False  # whether it waits while descents on phi do well
    share: ClassVar[Share] = Share()

    @classmethod
    @abstractmethod
    def consider(cls, situation: Situation) -> Step | Omission | None:
        """The step for a situation; an omission where structure or size forbid it; None: no question."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What it does and why, for a person."""

    @property
    def condition(self) -> str:
        """When it is tried, for a person; empty: always."""
        return ""

    def is_wanted(self, run: Run) -> bool:
        """Whether ``condition`` holds, after what the steps before have found."""
        return True

    def has_hope(self, run: Run) -> bool:
        """Whether a proof is in sight, for a step that may find one."""
        return True

    def is_worth_going_on(self, run: Run) -> bool:
        """Whether it is due where searches agree on the best point: to prove it, or to doubt it."""
        return self.may_prove and self.has_hope(run)

    def look_again(self, run: Run) -> None:  # noqa: B027 - most steps have nothing to add
        """Search once more, in another way, where searches agree on a point that is not proven."""

    @abstractmethod
    def run(self, run: Run, level: int) -> Outlook:
        """Do what is due at this level of effort: 0 is the first, and each further one may cost more.

        How much a level costs is counted in starts, nodes or evaluations, never in seconds, so that the
        answer does not depend on the machine. A step that has been here before goes on where it ended.
        """

    def __str__(self) -> str:
        said = f"{self.text}, {self.condition}" if self.condition else self.text
        return f"{said}; {self.share}" if self.share != Share() else said
