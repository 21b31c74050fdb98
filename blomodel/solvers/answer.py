"""What an inner solver says about the lower problem at one point."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np


class InnerStatus(enum.Enum):
    """Outcome of one inner solve; ``message`` tells it in a sentence."""

    OPTIMAL = "optimal"
    INACCURATE = "inaccurate"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    FAILED = "failed"

    @property
    def message(self) -> str:
        """The outcome as a sentence."""
        return _MESSAGES[self]

    @property
    def has_point(self) -> bool:
        """Whether a minimiser comes with this status."""
        return self in (InnerStatus.OPTIMAL, InnerStatus.INACCURATE)


_MESSAGES = {
    InnerStatus.OPTIMAL: "A minimiser was found to the accuracy asked for.",
    InnerStatus.INACCURATE: "A minimiser was found, but less accurately than asked for.",
    InnerStatus.INFEASIBLE: "No point satisfies the constraints.",
    InnerStatus.UNBOUNDED: "The objective falls without limit.",
    InnerStatus.FAILED: "No minimiser was found.",
}


@dataclass(slots=True)
class Answer:
    """Minimum, minimiser and multipliers of an inner problem.

    The duals follow cvxpy: with c_i = lhs - rhs the Lagrangian is objective + sum <dual_i, c_i>
    for inequalities and equalities, and objective - <dual_i, argument> for the other cones.
    """

    status: InnerStatus
    value: float  # +inf when infeasible, -inf when unbounded, nan when failed
    y: np.ndarray
    duals: list[np.ndarray] = field(default_factory=list)  # one per constraint, in its shape
    iterations: int = 0
    multipliers: np.ndarray | None = None  # the duals as one vector
    reason: str = ""  # why there is no accurate minimiser
    solver: str = ""  # what produced the minimiser
    lifted: np.ndarray | None = None  # y with the variables that stand for kinked atoms

    @staticmethod
    def without_point(status: InnerStatus, n: int, reason: str = "", iterations: int = 0) -> Answer:
        """An answer that holds no minimiser."""
        value = {InnerStatus.INFEASIBLE: np.inf, InnerStatus.UNBOUNDED: -np.inf}
        return Answer(
            status,
            value.get(status, np.nan),
            np.full(n, np.nan),
            iterations=iterations,
            reason=reason or status.message,
        )
