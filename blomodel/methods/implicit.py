"""implicit-cg and implicit-neumann: implicit gradients, by two solvers of the linear system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.loops import implicit as kernel
from blomodel.methods.first_order.arrays import filled, given
from blomodel.methods.first_order.constants import LOWER_ACCURACY, MANY_LOWER_STEPS
from blomodel.methods.first_order.first_order import set_up
from blomodel.methods.first_order.frame import iterate_until_small
from blomodel.methods.first_order.scheduled import Scheduled
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import NOTHING_SPECIAL, Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule, value_at

SERIES_TERMS = 10000  # of the series at most, where they go on until they are small


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

    step_x: float | Schedule | None = setting(
        None, "step in x; None: adaptive", aliases=("step_size",), above=0.0
    )
    step_y: float | Schedule | None = setting(
        None, "step in y; None: 1/curvature", aliases=("lower_step",), above=0.0
    )
    inner_steps: int | Schedule | None = setting(
        None,
        "gradient steps in y; None: as many as y needs",
        aliases=("lower_steps",),
        minimum=1,
    )
    max_steps: int = setting(100000, "largest number of iterations", minimum=1)

    def iterate(
        self,
        run: Run,
        *,
        is_series: bool,
        step_series: float | None = None,
        linear_steps: int,
        linear_tolerance: float,
    ) -> None:
        """Run the loop with conjugate gradients or a Neumann series."""
        setup = set_up(run)
        o, x, y, v = setup.oracle, setup.x, setup.y, np.zeros(setup.oracle.n_y)
        state, work = setup.arrays(kernel)
        state[kernel.LAST_SLOPE] = 1.0  # none is known yet
        settings = filled(
            kernel.N_SETTINGS,
            {
                kernel.STEP_X: given(self.step_x),
                kernel.STEP_Y: given(self.step_y),
                kernel.STEP_SERIES: given(step_series),
                kernel.INNER_STEPS: value_at(self.inner_steps, 0) or MANY_LOWER_STEPS,
                kernel.LINEAR_STEPS: linear_steps,
                kernel.LINEAR_TOLERANCE: linear_tolerance,
                kernel.ACCURACY: LOWER_ACCURACY if self.inner_steps is None else 0.0,
                kernel.IS_SERIES: is_series,
                kernel.TOLERANCE: run.tolerance,
            },
        )
        tapes = (o.f_grad_x, o.f_grad_y, o.g, o.g_grad_y, o.g_hessian_y, o.g_cross)
        loop = setup.loop(kernel.implicit)
        iterate_until_small(
            setup,
            self.name,
            Scheduled(
                lambda n: loop(n, *tapes, setup.x_spec, settings, x, y, v, state, work),
                settings,
                {
                    kernel.STEP_X: self.step_x,
                    kernel.STEP_Y: self.step_y,
                    kernel.INNER_STEPS: self.inner_steps,
                },
            ),
            x=x,
            y=y,
            max_steps=self.max_steps,
        )


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
        1e-10, "relative residual at which conjugate gradients stop", minimum=0.0, own=True
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

    step_series: float | None = setting(
        None,
        "step eta of the series; None: 0.9/curvature",
        aliases=("eta", "series_step"),
        above=0.0,
        own=True,
    )
    linear_steps: int | None = setting(
        None, "Q, terms of the series; None: until they are small", aliases=("Q", "n_terms"), minimum=1
    )

    def run(self, run: Run) -> None:
        """Iterate until the projected implicit gradient is small."""
        self.iterate(
            run,
            is_series=True,
            step_series=self.step_series,
            linear_steps=self.linear_steps or SERIES_TERMS,
            linear_tolerance=1e-9 if self.linear_steps is None else 0.0,
        )
