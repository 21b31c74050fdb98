"""BDA: bilevel descent aggregation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from blomodel.kernels.loops import bda as kernel
from blomodel.methods.first_order.arrays import filled, given
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import f_second
from blomodel.methods.first_order.frame import first_order_run
from blomodel.methods.first_order.inner_path import InnerPathMethod
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule
from blomodel.methods.run.slices import run_in_slices

SHARES = (0.5, 0.05, 5e-3, 5e-4)  # of f in the first inner step, where none is given


@method
@dataclass(frozen=True, kw_only=True)
class Bda(InnerPathMethod):
    r"""Inner steps along a mixture of both levels' gradients, differentiated backwards.

    Inner step t moves y by

    .. math:: -a_t\, s_u \nabla_y f - (1 - a_t)\, s_l \nabla_y g, \quad a_t = a_0 / (t + 1),

    so that f chooses among many lower answers. A mixture leaves y off the lower answer by about the last
    a_t: without a given share a_0 the method is run again, from where it ended, with smaller ones.
    """

    name: ClassVar[str] = "bda"
    summary: ClassVar[str] = "unrolled inner steps that mix both levels' gradients"
    assumes: ClassVar[str] = (
        "lower level smooth, convex in y, answers need not be unique; y free, or in a set of its own "
        "that makes no kink at the solution"
    )
    claims: ClassVar[str] = "a stationary point of f(x, y_K(x)) for the mixed inner steps"
    reference: ClassVar[str] = "Liu, Mu, Yuan, Zeng and Zhang (2020)"
    costs: ClassVar[str] = (
        "K inner steps with gradients of both levels, and one pass backwards through them"
    )
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.LOWER_CONSTRAINTS})
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    step_y: float | Schedule | None = setting(
        None, "step s_l in y along g; None: 1/curvature", aliases=("s_l", "lower_step"), above=0.0
    )
    inner_steps: int | None = setting(
        None,
        "K, inner steps; None: 10 times the condition number, or 100",
        aliases=("K", "lower_steps"),
        minimum=1,
    )
    step_y_upper: float | None = setting(
        None,
        "step s_u in y along f; None: 1/curvature",
        aliases=("s_u", "upper_step"),
        above=0.0,
        own=True,
    )
    upper_share: float | None = setting(
        None,
        "a_0, share of f in the first inner step; None: 0.5, then ever smaller",
        aliases=("a_0", "weight"),
        minimum=0.0,
    )

    def run(self, run: Run) -> None:
        """Iterate until the projected gradient is small."""
        setup, path = self.set_up(run)
        o, x, y = setup.oracle, setup.x, setup.y
        tapes = (
            o.f_grad_x, o.f_grad_y, *f_second(o), o.g_grad_y, o.g_hessian_y, o.g_cross,
        )  # fmt: skip
        step_f = self.step_y_upper
        if step_f is None:
            step_f = min(safe_step(setup.constants.f_yy), 1e3 * safe_step(setup.constants.g_yy))
        settings = filled(
            kernel.N_SETTINGS,
            {
                kernel.STEP_X: given(self.step_x),
                kernel.STEP_Y: given(self.step_y),
                kernel.STEP_Y_UPPER: step_f,
                kernel.UPPER_SHARE: 0.0,  # set below
                kernel.INNER_STEPS: len(path) - 1,
                kernel.IS_FREE: setup.has_free_y,
            },
        )
        loop = setup.loop(kernel.bda)
        shares = SHARES if self.upper_share is None else (self.upper_share,)
        state, work = setup.arrays(kernel)
        first_state, first_work = state.copy(), work.copy()
        scheduled = self.scheduled(
            kernel,
            lambda n: loop(n, *tapes, *setup.sets, settings, x, y, path, state, work),
            settings,
        )
        with first_order_run(setup, self.name, x, y):
            for share in shares:
                settings[kernel.UPPER_SHARE] = share
                state[:], work[:] = first_state, first_work
                path[0] = y
                run_in_slices(
                    run,
                    scheduled,
                    max_iterations=self.max_steps // len(shares),
                    tolerance=run.tolerance,
                    report=lambda: {"value": run.model.f(x, y, run.p)[0], "weight": share},  # noqa: B023
                )
