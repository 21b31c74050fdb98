"""What a solve leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from blomodel.status import Status

if TYPE_CHECKING:
    from blomodel.no_answer import NoAnswer


@dataclass(frozen=True)
class Solution:
    """How an answer was found.

    Attributes
    ----------
    method : str
        Name of the method that ran.
    source : str
        The part of the method that found the point.
    iterations, evaluations : int
        Steps of the method, and evaluations of its functions.
    compile_time, solve_time, certify_time : float
        Seconds for each stage; ``compile_time`` is 0 when the problem was compiled before.
    history : dict of arrays
        Figures of each iteration, such as "time", "value", "gap", "gamma".
    multipliers : list of arrays
        Multipliers of the lower constraints, in the order in which they were given.
    stopped_by : str or None
        "time limit", "iteration limit" or "user" when the method did not end by itself.
    notes : tuple of str
        Remarks of the method.
    no_answer : NoAnswer or None
        Why there is no answer, where there is none.
    """

    status: Status
    method: str
    source: str
    value: float
    iterations: int
    evaluations: int
    compile_time: float
    solve_time: float
    certify_time: float
    stopped_by: str | None
    notes: tuple[str, ...]
    history: dict[str, np.ndarray] = field(repr=False)
    multipliers: list[np.ndarray] = field(repr=False)
    no_answer: NoAnswer | None = None

    @property
    def total_time(self) -> float:
        """Seconds from the call of solve() to its return."""
        return self.compile_time + self.solve_time + self.certify_time
