"""Iterative differentiation: backwards through the gradient steps of the lower level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from blomodel.kernels.loops import unrolled as kernel
from blomodel.methods.first_order.arrays import filled, given
from blomodel.methods.first_order.frame import iterate_until_small
from blomodel.methods.first_order.inner_path import InnerPathMethod
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run


@method
@dataclass(frozen=True, kw_only=True)
class Unrolled(InnerPathMethod):
    """Reverse-mode differentiation of f(x, y_T(x)), with y_T the end of T gradient steps on g(x, .).

    Where y lives in a set, each step ends with a projection, which is differentiated too. All T + 1
    inner points are kept. The steps begin at the last y or, with ``restart`` and as in the first
    papers, always at the same y.
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

    inner_steps: int | None = setting(
        None,
        "T, inner gradient steps; None: 10 times the condition number, or 100",
        aliases=("T", "lower_steps"),
        minimum=1,
    )
    restart: bool = setting(
        False,
        "whether the inner steps begin at the first y in every iteration, not at the last one",
        opposites=("keep_y",),
    )

    def run(self, run: Run) -> None:
        """Iterate until the projected gradient is small."""
        setup, path = self.set_up(run)
        o, x, y = setup.oracle, setup.x, setup.y
        state, work = setup.arrays(kernel)
        settings = filled(
            kernel.N_SETTINGS,
            {
                kernel.STEP_X: given(self.step_x),
                kernel.STEP_Y: given(self.step_y),
                kernel.INNER_STEPS: len(path) - 1,
                kernel.RESTART: self.restart,
                kernel.IS_FREE: setup.has_free_y,
            },
        )
        tapes = (o.f_grad_x, o.f_grad_y, o.g, o.g_grad_y, o.g_hessian_y, o.g_cross)
        loop = setup.loop(kernel.unrolled)
        iterate_until_small(
            setup,
            self.name,
            self.scheduled(
                kernel,
                lambda n: loop(n, *tapes, *setup.sets, settings, x, y, path, state, work),
                settings,
            ),
            x=x,
            y=y,
            max_steps=self.max_steps,
        )
