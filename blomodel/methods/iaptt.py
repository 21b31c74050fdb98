"""IAPTT: an auxiliary start for the inner steps, and the worst of their points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.loops.iaptt import iaptt
from blomodel.methods.first_order.first_order import is_free, set_up
from blomodel.methods.first_order.stages import finish, given, probe, unrolled_steps
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.slices import run_in_slices


@method
@dataclass(frozen=True, kw_only=True)
class Iaptt:
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

    step_size: float | None = setting(None, "step in x; None: adaptive, then for z too", minimum=0.0)
    start_step: float | None = setting(
        None, "step in z where step_size is given; None: the same", minimum=0.0
    )
    lower_step: float | None = setting(None, "step in y; None: 1/curvature", minimum=0.0)
    lower_steps: int | None = setting(
        None, "K, inner gradient steps; None: 10 times the condition number, or 100", minimum=1
    )
    max_steps: int = setting(5000, "largest number of iterations", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate until the projected gradient in x and z is small."""
        problem = set_up(run)
        o, y = problem.oracle, problem.y
        both = np.concatenate([problem.x, problem.y])
        x = both[: o.n_x]
        state, work = np.zeros(6), np.zeros((11, max(1, both.size)))
        probe(work, 4, run.seed)
        n_steps = unrolled_steps(problem, self.lower_steps)
        path = np.zeros((n_steps + 1, o.n_y))
        start_step = self.step_size if self.start_step is None else self.start_step
        steps = [given(self.step_size), given(start_step), given(self.lower_step)]
        settings = np.array([*steps, n_steps, is_free(problem)])
        tapes = (o.f, o.f_grad_x, o.f_grad_y, o.g, o.g_grad_y, o.g_hessian_y, o.g_cross)
        loop, sets = problem.loop(iaptt), (problem.x_spec, problem.y_spec)
        run.watch(x, y)
        try:
            run_in_slices(
                run,
                lambda n: loop(n, *tapes, *sets, settings, both, y, path, state, work),
                max_iterations=self.max_steps,
                tolerance=run.tolerance,
                report=lambda: {"value": run.model.f(x, y, run.p)[0], "worst": state[5]},
            )
        finally:
            finish(problem, self.name, x, y)
