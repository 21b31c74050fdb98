"""ALT-PBGD: gradient steps on the reduced penalty F_gamma, whose smoothness does not grow with gamma."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.compiler.passes.directions import Direction, Term, point_in
from blomodel.kernels.loops.alt_pbgd import alt_pbgd
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.stages import penalty_stages, propose_last, run_stages
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run


@method
@dataclass(frozen=True, kw_only=True)
class AltPbgd:
    r"""Algorithm 2 of the ALT-PBGD paper.

    .. math:: y^g \approx \arg\min_y g(x, y), \quad
              y^\gamma \approx \arg\min_y f(x, y)/\gamma + g(x, y), \quad
              x \leftarrow \mathrm{Proj}_X(x - \eta\,[\nabla_x f(x, y^\gamma)
              + \gamma(\nabla_x g(x, y^\gamma) - \nabla_x g(x, y^g))]).

    Without a gamma the weight grows from a small one to a large one, so that the error of order
    1/gamma falls below what matters; without a step the step adapts to the curvature it meets.
    """

    name: ClassVar[str] = "alt-pbgd"
    summary: ClassVar[str] = "both lower problems by gradient steps, then a step in x on F_gamma"
    assumes: ClassVar[str] = "g strongly convex (or PL) in y; X and Y simple sets"
    claims: ClassVar[str] = "a stationary point of F_gamma; error of order 1/gamma"
    reference: ClassVar[str] = "Jiang et al., efficient penalty-based bilevel methods, Alg. 2, eqs 18-21"
    costs: ClassVar[str] = "inner gradient steps on two lower problems, then one step in x"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.NONCONVEX_LOWER, Capability.LOWER_CONSTRAINTS, Capability.PROX_TERMS}
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.STRONGLY_CONVEX_OR_PL})
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    gamma: float | None = setting(None, "penalty weight; None: grows in stages", minimum=0.0)
    step_size: float | None = setting(None, "step eta in x; None: adaptive", minimum=0.0)
    inner_step_size: float | None = setting(
        None, "step of the inner solvers; None: from the curvature of f / gamma + g", minimum=0.0
    )
    inner_steps: int | None = setting(
        None, "inner steps in each iteration; None: until accurate", minimum=1
    )
    max_steps: int = setting(2000, "largest number of iterations for each gamma", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        setup = set_up(run, prox=True)
        f_x, f_y = setup.f_slope("x"), setup.f_slope("y")
        g_x, g_y = setup.g_slope("x"), setup.g_slope("y")
        slopes = setup.shared_directions(
            ([Term(g_y, y="z")], ("x", "y", "z")),
            ([Term(g_y), Term(f_y, weight=0)], ("x", "z", "y")),
            ([Term(f_x), Term(g_x, less="z", weight=1)], ("z", "y", "x")),
            points={"x": setup.x, "z": setup.y, "y": setup.y},
        )
        # The loop moves its points where the slopes read them.
        x, y_g, y_gamma = (point_in(slopes[0], position) for position in (1, 2, 3))
        run.watch(x, y_gamma)
        try:
            self._iterate(setup, slopes, x, y_g, y_gamma)
        finally:
            run.evaluations = setup.n_evaluations
            propose_last(run, x, y_gamma, self.name)

    def _iterate(
        self,
        setup: FirstOrder,
        slopes: Sequence[Direction],
        x: np.ndarray,
        y_g: np.ndarray,
        y_gamma: np.ndarray,
    ) -> None:
        run = setup.run
        settings, work, pace = np.zeros(5), setup.work(), np.zeros(3)
        if self.step_size is None:
            pace[0] = safe_step(setup.constants.upper_curvature)
        amounts, loop = setup.amounts_in(slopes[-1]), setup.loop(alt_pbgd)

        def iterate(n: int) -> float:
            return loop(
                n, *slopes, setup.x_spec, setup.y_spec, setup.penalty,
                settings, x, y_g.size, amounts, pace, work,
            )  # fmt: skip

        def begin(gamma: float, is_last: bool) -> float:
            accuracy = run.tolerance if is_last else max(1e-3, run.tolerance)
            settings[0] = self.step_size or 0.0
            if self.inner_step_size is None:
                constants = setup.constants_at(x, y_gamma)  # costs hundreds of gradients
                settings[1] = safe_step(constants.g_yy + constants.f_yy / gamma)
            settings[1] = self.inner_step_size or settings[1]
            settings[2] = gamma
            settings[3] = self.inner_steps or 1000
            # An error of y enters the slope gamma times.
            settings[4] = 0.0 if self.inner_steps else max(0.1 * accuracy / max(gamma, 1.0), 1e-13)
            pace[1:] = 0.0  # the slope of another gamma says nothing about curvature
            return accuracy

        run_stages(
            run,
            iterate,
            stages=penalty_stages(setup.constants, 0.1, 1e4) if self.gamma is None else [self.gamma],
            begin=begin,
            state=(x, y_g, y_gamma),
            max_iterations=self.max_steps,
            report=lambda: {"gamma": settings[2], "step": pace[0] or settings[0]},
        )


@method
@dataclass(frozen=True, kw_only=True)
class F2sa(AltPbgd):
    """The fully first-order method: both lower problems are followed, not solved."""

    name: ClassVar[str] = "f2sa"
    summary: ClassVar[str] = "ALT-PBGD with a few inner steps in each iteration"
    reference: ClassVar[str] = "Kwon et al. (2023); Jiang et al., penalty-based methods, Theorem 3"
    costs: ClassVar[str] = "a few gradient steps on each of two lower problems, then one step in x"

    inner_steps: int | None = setting(10, "inner steps in each iteration", minimum=1)
