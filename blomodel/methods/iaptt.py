"""IAPTT: an auxiliary start for the inner steps, and the worst of their points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.loops import iaptt as kernel
from blomodel.methods.first_order.arrays import filled, given
from blomodel.methods.first_order.frame import iterate_until_small
from blomodel.methods.first_order.inner_path import InnerPathMethod
from blomodel.methods.first_order.scheduled import Scheduled
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule


@method
@dataclass(frozen=True, kw_only=True)
class Iaptt(InnerPathMethod):
    """Initialisation auxiliary and pessimistic trajectory truncation.

    The inner gradient steps begin at z, which is an upper variable like x; of the inner points
    y_1 ... y_K the one with the largest f is taken, and f there is differentiated in x and z.
    """

    name: ClassVar[str] = "iaptt"
    summary: ClassVar[str] = "unrolled steps from a learned start, cut where f is largest"
    assumes: ClassVar[str] = (
        "lower level smooth (need not be convex); y free, or in a set of its own that makes no kink in "
        "y(x) at the solution"
    )
    claims: ClassVar[str] = "a stationary point of the largest f(x, y_k(x, z)) over k"
    reference: ClassVar[str] = "Liu, Liu, Zeng and Zhang (2021), IAPTT-GM"
    costs: ClassVar[str] = "K inner gradient steps and one pass backwards through those up to the worst"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.NONCONVEX_LOWER, Capability.LOWER_CONSTRAINTS}
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    step_x: float | Schedule | None = setting(
        None, "step in x; None: adaptive, then for z too", aliases=("step_size",), above=0.0
    )
    inner_steps: int | None = setting(
        None,
        "K, inner gradient steps; None: 10 times the condition number, or 100",
        aliases=("K", "lower_steps"),
        minimum=1,
    )
    step_start: float | Schedule | None = setting(
        None,
        "step in the start z where step_x is given; None: the same",
        aliases=("start_step",),
        above=0.0,
        own=True,
    )
    max_steps: int = setting(5000, "largest number of iterations", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate until the projected gradient in x and z is small."""
        setup, path = self.set_up(run)
        o, y = setup.oracle, setup.y
        both = np.concatenate([setup.x, setup.y])
        state, work = setup.arrays(kernel, width=both.size)
        settings = filled(
            kernel.N_SETTINGS,
            {
                kernel.STEP_X: given(self.step_x),
                kernel.STEP_START: given(self.step_x if self.step_start is None else self.step_start),
                kernel.STEP_Y: given(self.step_y),
                kernel.INNER_STEPS: len(path) - 1,
                kernel.IS_FREE: setup.has_free_y,
            },
        )
        tapes = (o.f, o.f_grad_x, o.f_grad_y, o.g, o.g_grad_y, o.g_hessian_y, o.g_cross)
        loop = setup.loop(kernel.iaptt)
        iterate_until_small(
            setup,
            self.name,
            Scheduled(
                lambda n: loop(n, *tapes, *setup.sets, settings, both, y, path, state, work),
                settings,
                {
                    kernel.STEP_X: self.step_x,
                    kernel.STEP_START: self.step_x if self.step_start is None else self.step_start,
                    kernel.STEP_Y: self.step_y,
                },
            ),
            x=both[: o.n_x],
            y=y,
            max_steps=self.max_steps,
            report=lambda: {"worst": state[kernel.WORST]},
        )
