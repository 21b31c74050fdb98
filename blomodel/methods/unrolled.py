"""Iterative differentiation: backwards through the gradient steps of the lower level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.loops.unrolled import unrolled
from blomodel.methods.first_order.first_order import is_free, set_up
from blomodel.methods.first_order.stages import finish, given, probe, unrolled_steps
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.slices import run_in_slices


@method
@dataclass(frozen=True, kw_only=True)
class Unrolled:
    """Reverse-mode differentiation of f(x, y_T(x)), with y_T the end of T gradient steps on g(x, .).

    Where y lives in a set, each step ends with a projection, which is differentiated too. All T + 1
    inner points are kept. The steps begin at the last y (``warm_start``) or, as in the first papers,
    always at the same y.
    """

    name: ClassVar[str] = "unrolled"
    summary: ClassVar[str] = "iterative differentiation: backwards through T inner gradient steps"
    assumes: ClassVar[str] = (
        "lower level smooth, strongly convex in y; y free, or in a set of its own that makes no kink in "
        "y(x) at the solution"
    )
    claims: ClassVar[str] = "a stationary point of f(x, y_T(x)); error falls geometrically in T"
    reference: ClassVar[str] = (
        "Domke (2012); Maclaurin, Duvenaud and Adams (2015); Franceschi, Donini, Frasconi and Pontil "
        "(2017); Ji, Yang and Liang (2021)"
    )
    costs: ClassVar[str] = "T inner gradient steps, kept in memory, and one pass backwards through them"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.LOWER_CONSTRAINTS})
    assumptions: ClassVar[frozenset[Assumption]] = frozenset(
        {Assumption.SMOOTH_LOWER, Assumption.STRONGLY_CONVEX}
    )
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    step_size: float | None = setting(None, "step in x; None: adaptive", minimum=0.0)
    lower_step: float | None = setting(None, "step in y; None: 1/curvature", minimum=0.0)
    lower_steps: int | None = setting(
        None, "T, inner gradient steps; None: 10 times the condition number, or 100", minimum=1
    )
    warm_start: bool = setting(True, "begin the inner steps at the last y")
    max_steps: int = setting(20000, "largest number of iterations", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate until the projected gradient is small."""
        problem = set_up(run)
        o, x, y = problem.oracle, problem.x, problem.y
        state, work = np.zeros(5), problem.work(12)
        probe(work, 4, run.seed)
        n_steps = unrolled_steps(problem, self.lower_steps)
        path = np.zeros((n_steps + 1, o.n_y))
        path[0] = y
        settings = np.array(
            [
                given(self.step_size),
                given(self.lower_step),
                n_steps,
                float(self.warm_start),
                float(is_free(problem)),
            ]
        )
        tapes = (o.f_grad_x, o.f_grad_y, o.g, o.g_grad_y, o.g_hessian_y, o.g_cross)
        loop, places = problem.loop(unrolled), (problem.x_spec, problem.y_spec)
        run.watch(x, y)
        try:
            run_in_slices(
                run,
                lambda n: loop(n, *tapes, *places, settings, x, y, path, state, work),
                max_iterations=self.max_steps,
                tolerance=run.tolerance,
                report=lambda: {"value": run.model.f(x, y, run.p)[0]},
            )
        finally:
            finish(problem, self.name, x, y)
