"""BDA: bilevel descent aggregation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.loops.bda import bda
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import f_second, is_free, set_up
from blomodel.methods.first_order.stages import finish, given, probe, unrolled_steps
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.slices import run_in_slices


@method
@dataclass(frozen=True, kw_only=True)
class Bda:
    """Inner steps along a mixture of both levels' gradients, differentiated backwards.

    Inner step t moves y by -(a_t s_u grad_y f + (1 - a_t) s_l grad_y g) with a_t = weight / (t + 1), so
    that f chooses among many lower answers. A mixture leaves y off the lower answer by about the last
    a_t: without a given weight the method is run again, from where it ended, with smaller ones.
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

    step_size: float | None = setting(None, "step in x; None: adaptive", minimum=0.0)
    lower_step: float | None = setting(None, "s_l, step of g; None: 1/curvature", minimum=0.0)
    upper_step: float | None = setting(None, "s_u, step of f in y; None: 1/curvature", minimum=0.0)
    weight: float | None = setting(
        None, "a_0, share of f in the first inner step; None: 0.5, then ever smaller", minimum=0.0
    )
    lower_steps: int | None = setting(
        None, "K, inner steps; None: 10 times the condition number, or 100", minimum=1
    )
    max_steps: int = setting(20000, "largest number of iterations", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate until the projected gradient is small."""
        problem = set_up(run)
        o, x, y = problem.oracle, problem.x, problem.y
        n_steps = unrolled_steps(problem, self.lower_steps)
        path = np.zeros((n_steps + 1, o.n_y))
        tapes = (
            o.f_grad_x, o.f_grad_y, *f_second(o), o.g_grad_y, o.g_hessian_y, o.g_cross,
        )  # fmt: skip
        step_f = self.upper_step
        if step_f is None:
            step_f = min(safe_step(problem.constants.f_yy), 1e3 * safe_step(problem.constants.g_yy))
        loop, places = problem.loop(bda), (problem.x_spec, problem.y_spec)
        weights = [0.5, 0.05, 5e-3, 5e-4] if self.weight is None else [self.weight]
        run.watch(x, y)
        try:
            for weight in weights:
                state, work = np.zeros(5), problem.work(11)
                probe(work, 4, run.seed)
                path[0] = y
                steps = [given(self.step_size), given(self.lower_step), step_f]
                settings = np.array([*steps, weight, n_steps, is_free(problem)])
                run_in_slices(
                    run,
                    lambda n: loop(n, *tapes, *places, settings, x, y, path, state, work),  # noqa: B023
                    max_iterations=self.max_steps // len(weights),
                    tolerance=run.tolerance,
                    report=lambda: {"value": run.model.f(x, y, run.p)[0], "weight": weight},  # noqa: B023
                )
        finally:
            finish(problem, self.name, x, y)
