"""GALET: alternating gradient steps for lower levels that satisfy the PL condition."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from blomodel.kernels.fields import CURVATURE, ESTIMATE
from blomodel.kernels.linalg import descend_on_g
from blomodel.kernels.loops import galet as kernel
from blomodel.methods.first_order.arrays import filled, given
from blomodel.methods.first_order.constants import LOWER_ACCURACY, MANY_LOWER_STEPS
from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.frame import iterate_until_small
from blomodel.methods.first_order.scheduled import DEFAULT, PAPER, VARIANTS, Scheduled
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule, value_at

MEASURE_STEPS = 500  # of the descent that R_y is measured against
MEASURE_SHARE = 0.1  # of the time so far that this may take
LEAST_SECONDS = 0.1  # which it may take in any case
# The default of the paper's appendix G
PAPER_SETTINGS: dict[str, Any] = {
    "step_x": 0.3,
    "step_y": 1.0,
    "inner_steps": 1,
    "step_shadow": 0.1,
    "shadow_steps": 1,
    "restart": True,
}
MANY_SHADOW_STEPS = 50000  # at most, where they go on until w is accurate


@method
@dataclass(frozen=True, kw_only=True)
class Galet:
    r"""Algorithm 1 of the GALET paper.

    N gradient steps on g(x, .) (10), T gradient steps from w = 0 on half the square of
    :math:`\nabla_y f + \nabla_{yy}^2 g\, w` (12), then a step in x along
    :math:`\nabla_x f + \nabla_{xy}^2 g\, w` (13). The history has R_x, R_w and R_y of (8); R_y is
    measured against gradient steps on g(x, .) run to their end, which the PL condition makes global
    (NaN where that would take longer than the iterations themselves).

    ``variant="paper"`` takes for what is not given the default of the paper's appendix G: alpha = 0.3,
    beta = 1, N = 1, rho = 0.1, T = 1, with w = 0 at the beginning of every iteration. With these numbers
    the shadow w stays far from what (12) asks for, and x does not come to the solution of Example 1;
    ``keep_shadow=True`` or a larger T mends that. The default does as many steps as y and w need.
    """

    name: ClassVar[str] = "galet"
    summary: ClassVar[str] = "gradient steps in y, in the shadow implicit gradient w, in x"
    assumes: ClassVar[str] = "lower level smooth, unconstrained, with the PL condition, convex or not"
    claims: ClassVar[str] = "a point at which R_x, R_w and R_y vanish"
    reference: ClassVar[str] = "Xiao, Lu and Chen (2023), Alg. 1, eqs 8, 10-13, 15"
    costs: ClassVar[str] = "N gradient steps in y, T Hessian-vector products for w, one step in x"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.NONCONVEX_LOWER})
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    variant: str = setting(
        "default",
        "'paper': alpha = 0.3, beta = 1, N = 1, rho = 0.1, T = 1 for what is not given, w from 0 in "
        "every iteration; 'default': steps from curvatures, as many as are needed",
        choices=VARIANTS,
    )
    step_x: float | Schedule | None = setting(
        None, "step alpha in x; None: adaptive", aliases=("alpha", "step_size"), above=0.0
    )
    step_y: float | Schedule | None = setting(
        None, "step beta in y; None: 1/curvature", aliases=("beta", "lower_step"), above=0.0
    )
    step_shadow: float | Schedule | None = setting(
        None,
        "step rho in w; None: 1/curvature^2, with the shortcut 1/curvature",
        aliases=("rho", "shadow_step"),
        above=0.0,
        own=True,
    )
    inner_steps: int | Schedule | None = setting(
        None, "N, steps in y; None: as many as y needs", aliases=("N", "lower_steps"), minimum=1
    )
    shadow_steps: int | Schedule | None = setting(
        None, "T, steps in w; None: as many as w needs", aliases=("T",), minimum=1, own=True
    )
    restart: bool | None = setting(
        None,
        "whether the steps in w begin at 0 in every iteration, not at the last w; None: only where "
        "shadow_steps is given",
        opposites=("keep_shadow",),
    )
    shortcut: bool = setting(False, "use (15), which is right for strongly convex g only", own=True)
    max_steps: int = setting(20000, "largest number of iterations", minimum=1)

    def _shadow_accuracy(self, setup: FirstOrder) -> float:
        """Slope in w, relative to the slope in x, at which the error of w no longer shows in x."""
        if self.shadow_steps is not None:
            return 0.0
        c = setup.constants
        flat = c.strong_convexity if c.is_strongly_convex else 0.03 * c.g_yy
        return LOWER_ACCURACY * min(1.0, flat if self.shortcut else flat**2) / max(1.0, c.g_xy)

    def run(self, run: Run) -> None:
        """Iterate until the measures are small."""
        if self.variant == PAPER:
            missing = {
                name: value for name, value in PAPER_SETTINGS.items() if getattr(self, name) is None
            }
            replace(self, variant=DEFAULT, **missing).run(run)
            return
        setup = set_up(run)
        o, x, y = setup.oracle, setup.x, setup.y
        state, work = setup.arrays(kernel)
        w, measures = np.zeros(o.n_y), np.zeros(kernel.N_MEASURES)
        state[kernel.LAST_SLOPE] = 1.0  # none is known yet
        settings = filled(
            kernel.N_SETTINGS,
            {
                kernel.STEP_X: given(self.step_x),
                kernel.STEP_Y: given(self.step_y),
                kernel.STEP_SHADOW: given(self.step_shadow),
                kernel.INNER_STEPS: value_at(self.inner_steps, 0) or MANY_LOWER_STEPS,
                kernel.SHADOW_STEPS: value_at(self.shadow_steps, 0) or MANY_SHADOW_STEPS,
                kernel.ACCURACY: LOWER_ACCURACY if self.inner_steps is None else 0.0,
                kernel.SHADOW_ACCURACY: self._shadow_accuracy(setup),
                kernel.IS_SHORTCUT: self.shortcut,
                kernel.RESTART: self.shadow_steps is not None if self.restart is None else self.restart,
                kernel.TOLERANCE: run.tolerance,
            },
        )
        tapes = (o.f_grad_x, o.f_grad_y, o.g, o.g_grad_y, o.g_hessian_y, o.g_cross)
        loop = setup.loop(kernel.galet)

        def iterate(n: int) -> float:
            return loop(n, *tapes, setup.x_spec, settings, x, y, w, state, measures, work)

        advance = Scheduled(
            iterate,
            settings,
            {
                kernel.STEP_X: self.step_x,
                kernel.STEP_Y: self.step_y,
                kernel.STEP_SHADOW: self.step_shadow,
                kernel.INNER_STEPS: self.inner_steps,
                kernel.SHADOW_STEPS: self.shadow_steps,
            },
        )

        def lower_excess() -> float:
            best, step = y.copy(), 1 / max(state[CURVATURE + ESTIMATE], 1e-10)
            slope, trial, value = np.zeros(o.n_y), np.zeros(o.n_y), np.zeros(1)
            began = time.perf_counter()
            with np.errstate(invalid="ignore", over="ignore"):
                here = run.model.g(x, y, run.p)[0]
            longest = 3 * MEASURE_STEPS * (time.perf_counter() - began)  # a gradient costs about two g
            if longest > max(LEAST_SECONDS, MEASURE_SHARE * (began - started)):
                return np.nan  # a figure for the history must not cost more than the iterations
            descend_on_g(
                o.g, o.g_grad_y, x, best, step, False, MEASURE_STEPS, 1e-10, slope, trial, value
            )  # fmt: skip
            with np.errstate(invalid="ignore", over="ignore"):
                return max(0.0, here - run.model.g(x, best, run.p)[0])

        def report() -> dict[str, float]:
            return {
                "R_x": measures[kernel.R_X],
                "R_w": measures[kernel.R_W],
                "R_y": lower_excess(),
            }

        started = time.perf_counter()
        iterate_until_small(setup, self.name, advance, x=x, y=y, max_steps=self.max_steps, report=report)
