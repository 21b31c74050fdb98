"""UNO, which unifies sequential quadratic programming and interior point methods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from blomodel.solvers.nlp import INTERRUPTED, NonlinearSolver
from blomodel.solvers.registry import inner_solver


@inner_solver
class UNO(NonlinearSolver):
    """Vanaret and Leyffer's solver for nonlinear programs."""

    name: ClassVar[str] = "uno"
    module: ClassVar[str] = "unopy"

    def quiet_options(self, seconds: float) -> dict[str, Any]:
        """UNO's names for silence and a time limit."""
        options: dict[str, Any] = {"logger": "SILENT"}
        return options | ({"time_limit": seconds} if np.isfinite(seconds) else {})

    @contextmanager
    def told_of_interrupts(self) -> Iterator[None]:
        """Let UNO's word for a Ctrl-C through, which cvxpy would report as any other failure."""
        from cvxpy.reductions.solvers.nlp_solvers.uno_nlpif import UNO as Interface

        Interface.STATUS_MAP["USER_INTERRUPTION"] = INTERRUPTED
        try:
            yield
        finally:
            del Interface.STATUS_MAP["USER_INTERRUPTION"]
