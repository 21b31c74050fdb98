"""GALET: alternating gradient steps for lower levels that satisfy the PL condition."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.linalg import descend
from blomodel.kernels.loops.galet import galet
from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.stages import ACCURACY, finish, given, probe
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.slices import run_in_slices

MEASURE_STEPS = 500  # of the descent that R_y is measured against
MEASURE_SHARE = 0.1  # of the time so far that this may take
LEAST_SECONDS = 0.1  # which it may take in any case


@method
@dataclass(frozen=True, kw_only=True)
class Galet:
    r"""Algorithm 1 of the GALET paper.

    N gradient steps on g(x, .) (10), T gradient steps from w = 0 on half the square of
    :math:`\nabla_y f + \nabla_{yy}^2 g\, w` (12), then a step in x along
    :math:`\nabla_x f + \nabla_{xy}^2 g\, w` (13). The history holds R_x, R_w and R_y of (8); R_y is
    measured against gradient steps on g(x, .) run to their end, which the PL condition makes global
    (NaN where that would take longer than the iterations themselves).
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

    step_size: float | None = setting(None, "alpha, step in x; None: adaptive", minimum=0.0)
    lower_step: float | None = setting(None, "beta, step in y; None: 1/curvature", minimum=0.0)
    shadow_step: float | None = setting(
        None, "rho, step in w; None: 1/curvature^2, with the shortcut 1/curvature", minimum=0.0
    )
    lower_steps: int | None = setting(None, "N; None: as many as y needs", minimum=1)
    shadow_steps: int | None = setting(None, "T; None: as many as w needs", minimum=1)
    keep_shadow: bool | None = setting(
        None, "begin the steps in w at the last w, not at 0; None: only where T is not given"
    )
    shortcut: bool = setting(False, "use (15), which is right for strongly convex g only")
    max_steps: int = setting(20000, "largest number of iterations", minimum=1)

    def _shadow_accuracy(self, problem: FirstOrder) -> float:
        """Slope in w, relative to the slope in x, at which the error of w no longer shows in x."""
        if self.shadow_steps is not None:
            return 0.0
        c = problem.constants
        flat = c.strong_convexity if c.is_strongly_convex else 0.03 * c.g_yy
        return ACCURACY * min(1.0, flat if self.shortcut else flat**2) / max(1.0, c.g_xy)

    def run(self, run: Run) -> None:
        """Iterate until the measures are small."""
        problem = set_up(run)
        o, x, y = problem.oracle, problem.x, problem.y
        w, state, measures, work = np.zeros(o.n_y), np.zeros(6), np.zeros(3), problem.work(11)
        state[5] = 1.0  # no slope in x is known yet
        probe(work, 4, run.seed)
        settings = np.array(
            [
                given(self.step_size),
                given(self.lower_step),
                given(self.shadow_step),
                self.lower_steps or 500,
                self.shadow_steps or 50000,
                ACCURACY if self.lower_steps is None else 0.0,
                float(self.shortcut),
                float(self.shadow_steps is None if self.keep_shadow is None else self.keep_shadow),
                self._shadow_accuracy(problem),
                run.tolerance,
            ]
        )
        tapes = (o.f_grad_x, o.f_grad_y, o.g, o.g_grad_y, o.g_hessian_y, o.g_cross)
        loop, places = problem.loop(galet), problem.x_spec

        def advance(n: int) -> float:
            return loop(n, *tapes, places, settings, x, y, w, state, measures, work)

        def lower_excess() -> float:
            best = y.copy()
            step, scratch = 1 / max(state[3], 1e-10), problem.work(3)
            size = o.n_y
            began = time.perf_counter()
            with np.errstate(invalid="ignore", over="ignore"):
                here = run.model.g(x, y, run.p)[0]
            longest = 3 * MEASURE_STEPS * (time.perf_counter() - began)  # a gradient costs about two g
            if longest > max(LEAST_SECONDS, MEASURE_SHARE * (began - started)):
                return np.nan  # a figure for the history must not cost more than the iterations
            descend(
                o.g, o.g_grad_y, x, best, step, False, MEASURE_STEPS, 1e-10, scratch[0, :size],
                scratch[1, :size], scratch[2],
            )  # fmt: skip
            with np.errstate(invalid="ignore", over="ignore"):
                return max(0.0, here - run.model.g(x, best, run.p)[0])

        def report() -> dict[str, float]:
            return {
                "value": run.model.f(x, y, run.p)[0],
                "R_x": measures[0],
                "R_w": measures[1],
                "R_y": lower_excess(),
            }

        run.watch(x, y)
        started = time.perf_counter()
        try:
            run_in_slices(
                run, advance, max_iterations=self.max_steps, tolerance=run.tolerance, report=report
            )
        finally:
            finish(problem, self.name, x, y)
