"""What bda, iaptt and unrolled share: inner steps that are kept and differentiated backwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import numpy as np

from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.scheduled import Scheduled
from blomodel.methods.run.registry import setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule

MANY_STEPS = 100  # inner steps where curvature does not tell how many are needed


@dataclass(frozen=True, kw_only=True)
class InnerPathMethod:
    """Settings and set-up of the methods that go backwards through their inner steps."""

    name: ClassVar[str]

    step_x: float | Schedule | None = setting(
        None, "step in x; None: adaptive", aliases=("step_size",), above=0.0
    )
    step_y: float | Schedule | None = setting(
        None, "step in y; None: 1/curvature", aliases=("lower_step",), above=0.0
    )
    inner_steps: int | None = setting(
        None,
        "inner gradient steps; None: 10 times the condition number, or 100",
        aliases=("lower_steps",),
        minimum=1,
    )
    max_steps: int = setting(20000, "largest number of iterations", minimum=1)

    def set_up(self, run: Run) -> tuple[FirstOrder, np.ndarray]:
        """The problem as loops see it, and room for the inner points, which begin at y."""
        setup = set_up(run)
        path = np.zeros((self._n_steps(setup) + 1, setup.oracle.n_y))
        path[0] = setup.y
        return setup, path

    def scheduled(
        self, kernel: ModuleType, loop: Callable[[int], float], settings: np.ndarray
    ) -> Scheduled:
        """The loop with steps that may change with the iterations."""
        return Scheduled(loop, settings, {kernel.STEP_X: self.step_x, kernel.STEP_Y: self.step_y})

    def _n_steps(self, setup: FirstOrder) -> int:
        """Inner steps after which the first point is forgotten, as far as the curvatures tell."""
        if self.inner_steps is not None:
            return self.inner_steps
        c = setup.constants
        if not c.is_strongly_convex:
            return MANY_STEPS
        return int(np.clip(np.ceil(10 * c.g_yy / c.strong_convexity), 20, 2000))
