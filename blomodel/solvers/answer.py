"""What an inner solver says: one record and one status for every class of problem."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
        return self is InnerStatus.OPTIMAL or self is InnerStatus.INACCURATE


_MESSAGES = {
    InnerStatus.OPTIMAL: "A minimiser was found to the accuracy asked for.",
    InnerStatus.INACCURATE: "A minimiser was found, but less accurately than asked for.",
    InnerStatus.INFEASIBLE: "No point satisfies the constraints.",
    InnerStatus.UNBOUNDED: "The objective falls without limit.",
    InnerStatus.FAILED: "No minimiser was found.",
}


def no_value(status: InnerStatus) -> float:
    """What stands for the minimum where there is none."""
    if status is InnerStatus.INFEASIBLE:
        return np.inf
    return -np.inf if status is InnerStatus.UNBOUNDED else np.nan


class OptimalitySystem(NamedTuple):
    """The factorised matrix [P A'; A 0] of an answer's active rows, for derivatives of the answer.

    Attributes
    ----------
    P, A : matrices
        The objective's Hessian, and the active rows.
    solve : callable
        From right sides (r, s) to (u, w); the factor may belong to a slightly shifted matrix.
    """

    P: Any
    A: Any
    solve: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(slots=True)
class Answer:
    """Minimum, minimiser and multipliers of an inner problem.

    Signs of the multipliers. For rows ``Ay <= b``, ``A_eq y = b_eq`` the Lagrangian is

        objective(y) + multipliers' (Ay - b) + multipliers_eq' (A_eq y - b_eq),

    so that multipliers of inequalities are nonnegative, those of equalities have either sign, and the
    optimal value changes by ``-multipliers`` for a unit more of b. For rows in another cone,
    ``Ay + slack = b`` with slack in K, they lie in the dual cone of K and enter the same way. A bound
    ``y[j] >= 0`` is the row ``-y[j] <= 0``. ``duals`` say the same in cvxpy's signs and shapes:
    objective + <dual, lhs - rhs> for inequalities and equalities, objective - <dual, argument>
    for the other cones.
    """

    status: InnerStatus
    value: float  # +inf when infeasible, -inf when unbounded, nan when failed or not computed here
    y: np.ndarray  # without a minimiser nan, or a feasible point of an unbounded problem
    duals: list[np.ndarray] = field(default_factory=list)  # one per constraint, in its shape
    iterations: int = 0
    multipliers: np.ndarray | None = None  # one vector, in the order of the rows
    reason: str = ""  # why there is no accurate minimiser; often the solver's own word
    solver: str = ""  # who found it
    lifted: np.ndarray | None = None  # y with the variables that stand for kinked atoms
    slack: np.ndarray | None = None  # b - Ay, where the solver tells it
    bound: float = -np.inf  # no feasible point has a smaller objective, where the solver tells it
    error: float = 0.0  # largest of relative gap and residuals, where the solver tells it
    active: np.ndarray | None = None  # rows that hold with equality, where y is exact on them
    system: OptimalitySystem | None = None  # of the active rows, where it is at hand
    ray: np.ndarray | None = None  # along which an unbounded objective falls, where one is known

    @staticmethod
    def without_point(
        status: InnerStatus, n: int, reason: str = "", iterations: int = 0, solver: str = ""
    ) -> Answer:
        """An answer that holds no minimiser."""
        return Answer(
            status,
            no_value(status),
            np.full(n, np.nan),
            iterations=iterations,
            reason=reason or status.message,
            solver=solver,
        )

    @property
    def has_point(self) -> bool:
        """Whether ``y`` is a minimiser."""
        return self.status.has_point
