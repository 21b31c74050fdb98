"""BOME: bilevel optimisation made easy, by a dynamic barrier on the value-function gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.fields import N_FIGURES
from blomodel.kernels.loops import bome as kernel
from blomodel.methods.first_order.arrays import filled, given
from blomodel.methods.first_order.barrier import run_barrier
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import set_up
from blomodel.methods.first_order.scheduled import Scheduled
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule, value_at

FEW_STEPS = 10  # in each iteration, where the inner steps go on from their last end


@method
@dataclass(frozen=True, kw_only=True)
class Bome:
    r"""Steps in (x, y) along :math:`-(\nabla f + \lambda\nabla\hat q)`.

    :math:`\hat q = g(x, y) - g(x, y^{(T)})`, with T gradient steps from y that are not differentiated,
    and :math:`\lambda = \max(0, \eta - \langle\nabla f, \nabla\hat q\rangle / |\nabla\hat q|^2)`.
    The gap that stays is of the order of the step: without a given step it is made smaller in stages,
    whose ends are extrapolated to step 0.
    """

    name: ClassVar[str] = "bome"
    summary: ClassVar[str] = "first-order steps with a dynamic barrier on the value-function gap"
    assumes: ClassVar[str] = "lower level smooth, with the PL condition (need not be convex)"
    claims: ClassVar[str] = "a KKT point of the value-function problem; gap falls with the step"
    reference: ClassVar[str] = "Liu, Ye, Wright, Stone and Liu (2022)"
    costs: ClassVar[str] = "T gradient steps on the lower problem and one gradient of f and g"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.NONCONVEX_LOWER, Capability.LOWER_CONSTRAINTS}
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    step_x: float | Schedule | None = setting(
        None,
        "step xi in (x, y); None: from the curvatures, then smaller in stages",
        aliases=("xi", "step_size"),
        above=0.0,
    )
    step_y: float | Schedule | None = setting(
        None, "inner step in y; None: 1/curvature", aliases=("lower_step",), above=0.0
    )
    inner_steps: int | Schedule | None = setting(
        None,
        "T, inner gradient steps from y; None: 10 from their last end, without bias",
        aliases=("T", "lower_steps"),
        minimum=1,
    )
    barrier: float = setting(0.5, "strength eta of the barrier", aliases=("eta",), minimum=0.0, own=True)
    max_steps: int = setting(400000, "largest number of iterations", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate, in stages where the step is not given."""
        setup = set_up(run)
        o, x, y = setup.oracle, setup.x, setup.y
        state, work = setup.arrays(kernel)
        work[kernel.OUTSIDE, : x.size] = x
        figures, step = np.zeros(N_FIGURES), given(self.step_x)
        if not step:
            c = setup.constants
            step = safe_step(c.f_xx + c.f_yy + c.f_xy + c.g_yy + c.g_xy)
        inner = y.copy()
        tapes = (o.f_grad_x, o.f_grad_y, o.g_grad_x, o.g_grad_y, o.g_hessian_y)
        loop = setup.loop(kernel.bome)
        settings = filled(
            kernel.N_SETTINGS,
            {
                kernel.STEP_X: step,
                kernel.STEP_Y: given(self.step_y),
                kernel.INNER_STEPS: value_at(self.inner_steps, 0) or FEW_STEPS,
                kernel.BARRIER: self.barrier,
                kernel.KEEPS_INNER: self.inner_steps is None,
                kernel.IS_FREE: setup.has_free_x,
            },
        )

        scheduled = Scheduled(
            lambda n: loop(n, *tapes, *setup.sets, settings, x, y, inner, state, figures, work),
            settings,
            {
                kernel.STEP_X: self.step_x,
                kernel.STEP_Y: self.step_y,
                kernel.INNER_STEPS: self.inner_steps,
            },
        )

        def advance(n: int, step: float) -> float:
            settings[kernel.STEP_X] = step
            return scheduled(n)

        run_barrier(
            setup,
            self.name,
            advance,
            figures,
            measure="barrier",
            step=step,
            is_given=self.step_x is not None,
            max_iterations=self.max_steps,
        )
