"""IPOPT, an interior point method for nonlinear programs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

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
