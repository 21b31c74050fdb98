"""IPOPT, an interior point method for nonlinear programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from blomodel.basics.alarm import enter_shelter, is_awaited, leave_shelter
from blomodel.solvers.nlp import NonlinearSolver
from blomodel.solvers.registry import inner_solver


@inner_solver
class IPOPT(NonlinearSolver):
    """Waechter and Biegler's interior point method with a filter line search."""

    name: ClassVar[str] = "ipopt"
    module: ClassVar[str] = "cyipopt"

    def quiet_options(self, seconds: float) -> dict[str, Any]:
        """IPOPT's names for silence and a time limit."""
        options: dict[str, Any] = {"print_level": 0, "sb": "yes"}
        return options | ({"max_wall_time": seconds} if np.isfinite(seconds) else {})

    @contextmanager
    def told_of_interrupts(self) -> Iterator[None]:
        """Let IPOPT end by itself: an exception within one of its callbacks may crash the process."""
        from cvxpy.reductions.solvers.nlp_solvers.nlp_solver import Oracles

        # IPOPT asks it after each iteration. It stays: two threads may be at work.
        setattr(Oracles, "intermediate", _goes_on)  # noqa: B010
        enter_shelter()
        try:
            yield
        finally:
            leave_shelter()


def _goes_on(*_: object) -> bool:
    """Whether nobody waits for the search to end."""
    return not is_awaited()
