"""What implicit-cg and implicit-neumann share: all but the solver of the linear system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.loops.implicit import implicit
from blomodel.methods.first_order.first_order import set_up
from blomodel.methods.first_order.stages import ACCURACY, finish, given, probe
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import NOTHING_SPECIAL, Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.slices import run_in_slices


@dataclass(frozen=True, kw_only=True)
class ImplicitGradient:
    """Gradient steps in y, a linear system for the implicit gradient, a step in x."""

    name: ClassVar[str]
    assumes: ClassVar[str] = "lower level smooth, unconstrained, strongly convex in y"
    claims: ClassVar[str] = "a stationary point of f(x, y*(x))"
    capabilities: ClassVar[frozenset[Capability]] = NOTHING_SPECIAL
    assumptions: ClassVar[frozenset[Assumption]] = frozenset(
        {Assumption.SMOOTH_LOWER, Assumption.STRONGLY_CONVEX}
    )
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    step_size: float | None = setting(None, "step in x; None: adaptive", minimum=0.0)
    lower_step: float | None = setting(None, "step in y; None: 1/curvature", minimum=0.0)
    lower_steps: int | None = setting(None, "gradient steps in y; None: as many as y needs", minimum=1)
    max_steps: int = setting(100000, "largest number of iterations", minimum=1)

    def iterate(
        self,
        run: Run,
        *,
        is_series: bool,
        series_step: float | None = None,
        linear_steps: int,
        linear_tolerance: float,
    ) -> None:
        """Run the loop with conjugate gradients or a Neumann series."""
        problem = set_up(run)
        o, x, y = problem.oracle, problem.x, problem.y
        v, state, work = np.zeros(o.n_y), np.zeros(6), problem.work(12)
        state[5] = 1.0  # no slope in x is known yet
        probe(work, 4, run.seed)
        settings = np.array(
            [
                given(self.step_size),
                given(self.lower_step),
                given(series_step),
                self.lower_steps or 500,
                linear_steps,
                linear_tolerance,
                ACCURACY if self.lower_steps is None else 0.0,
                float(is_series),
                run.tolerance,
            ]
        )
        tapes = (o.f_grad_x, o.f_grad_y, o.g, o.g_grad_y, o.g_hessian_y, o.g_cross)
        loop, places = problem.loop(implicit), problem.x_spec
        run.watch(x, y)
        try:
            run_in_slices(
                run,
                lambda n: loop(n, *tapes, places, settings, x, y, v, state, work),
                max_iterations=self.max_steps,
                tolerance=run.tolerance,
                report=lambda: {"value": run.model.f(x, y, run.p)[0]},
            )
        finally:
            finish(problem, self.name, x, y)


@method
@dataclass(frozen=True, kw_only=True)
class ImplicitCg(ImplicitGradient):
    r"""Approximate implicit differentiation (AID) with conjugate gradients.

    Gradient steps on g(x, .) from the last y, conjugate gradients on
    :math:`\nabla_{yy}^2 g\, v = \nabla_y f` from the last v, then a step in x along
    :math:`\nabla_x f - \nabla_{xy}^2 g\, v`.
    """

    name: ClassVar[str] = "implicit-cg"
    summary: ClassVar[str] = "implicit gradients, linear system by conjugate gradients"
    reference: ClassVar[str] = (
        "Pedregosa (2016); Grazzi, Franceschi, Pontil and Salzo (2020); Ji, Yang and Liang (2021)"
    )
    costs: ClassVar[str] = (
        "inner gradient steps in y, conjugate gradient steps with Hessian-vector products, one step in x"
    )

    linear_steps: int = setting(100, "largest number of conjugate gradient steps", minimum=1)
    linear_tolerance: float = setting(
        1e-10, "relative residual at which conjugate gradients stop", minimum=0.0
    )

    def run(self, run: Run) -> None:
        """Iterate until the projected implicit gradient is small."""
        self.iterate(
            run,
            is_series=False,
            linear_steps=self.linear_steps,
            linear_tolerance=self.linear_tolerance,
        )


@method
@dataclass(frozen=True, kw_only=True)
class ImplicitNeumann(ImplicitGradient):
    r"""Approximate implicit differentiation (AID) with a truncated Neumann series.

    As implicit-cg, with :math:`v = \eta\sum_{q<Q} (I - \eta\nabla_{yy}^2 g)^q\,\nabla_y f`.
    """

    name: ClassVar[str] = "implicit-neumann"
    summary: ClassVar[str] = "implicit gradients, linear system by a Neumann series"
    reference: ClassVar[str] = (
        "Ghadimi and Wang (2018); Lorraine, Vicol and Duvenaud (2020); Ji, Yang and Liang (2021)"
    )
    costs: ClassVar[str] = (
        "inner gradient steps in y, as many Hessian-vector products as terms, one step in x"
    )

    series_step: float | None = setting(None, "eta; None: 0.9/curvature", minimum=0.0)
    n_terms: int | None = setting(None, "Q, terms of the series; None: until they are small", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate until the projected implicit gradient is small."""
        self.iterate(
            run,
            is_series=True,
            series_step=self.series_step,
            linear_steps=self.n_terms or 10000,
            linear_tolerance=1e-9 if self.n_terms is None else 0.0,
        )
