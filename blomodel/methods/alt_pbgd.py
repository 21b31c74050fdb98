"""ALT-PBGD: gradient steps on the reduced penalty F_gamma, whose smoothness does not grow with gamma."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from blomodel.compiler.passes.directions import Direction, Term, point_in
from blomodel.compiler.team import team_of
from blomodel.kernels.fields import N_PACE, STEP
from blomodel.kernels.loops import alt_pbgd as kernel
from blomodel.methods.first_order.arrays import given
from blomodel.methods.first_order.batches import run_alternating
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.frame import first_order_run
from blomodel.methods.first_order.scheduled import VARIANTS
from blomodel.methods.first_order.stages import PAPER_WEIGHT, PenaltyMethod
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule, power, value_at


@method
@dataclass(frozen=True, kw_only=True)
class AltPbgd(PenaltyMethod):
    r"""Algorithm 2 of the ALT-PBGD paper.

    .. math:: y^g \approx \arg\min_y g(x, y), \quad
              y^\gamma \approx \arg\min_y f(x, y)/\gamma + g(x, y), \quad
              x \leftarrow \mathrm{Proj}_X(x - \eta\,[\nabla_x f(x, y^\gamma)
              + \gamma(\nabla_x g(x, y^\gamma) - \nabla_x g(x, y^g))]).

    Without a penalty the weight grows from a small one to a large one, so that the error of order
    1/gamma falls below what matters; without a step the step adapts to the curvature it meets.
    """

    name: ClassVar[str] = "alt-pbgd"
    summary: ClassVar[str] = "both lower problems by gradient steps, then a step in x on F_gamma"
    assumes: ClassVar[str] = "g strongly convex (or PL) in y; X and Y simple sets"
    claims: ClassVar[str] = "a stationary point of F_gamma; error of order 1/gamma"
    reference: ClassVar[str] = "Jiang, Xiao, Chen and Chen (2025), Alg. 2, eqs 18-21"
    costs: ClassVar[str] = "inner gradient steps on two lower problems, then one step in x"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.NONCONVEX_LOWER, Capability.LOWER_CONSTRAINTS, Capability.PROX_TERMS}
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.STRONGLY_CONVEX_OR_PL})
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    threads: int | None = setting(
        None, "threads that share long products and sums; None: one", minimum=1
    )
    batch_size: int | None = setting(
        None, "rows of data drawn for each step; None: all of them", minimum=1
    )
    step_y_penalised: float | Schedule | None = setting(
        None,
        "step of the inner solver of f / penalty + g where it differs; None: step_y",
        above=0.0,
    )

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        with team_of(self.threads):
            self._run(run)

    def _run(self, run: Run) -> None:
        if self.batch_size is not None:
            run_alternating(self, run, self.batch_size)
            return
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
        with first_order_run(setup, self.name, x, y_gamma):
            self._iterate(setup, slopes, x, y_g, y_gamma)

    def _iterate(
        self,
        setup: FirstOrder,
        slopes: Sequence[Direction],
        x: np.ndarray,
        y_g: np.ndarray,
        y_gamma: np.ndarray,
    ) -> None:
        settings, pace = np.zeros(kernel.N_SETTINGS), np.zeros(N_PACE)
        work = setup.work(kernel.N_ROWS)
        if self.step_x is None:
            pace[STEP] = safe_step(setup.constants.upper_curvature)
        amounts, loop = setup.amounts_in(slopes[-1]), setup.loop(kernel.alt_pbgd)

        def iterate(n: int) -> float:
            return loop(
                n, *slopes, *setup.sets, setup.penalty,
                settings, x, y_g.size, amounts, pace, work,
            )  # fmt: skip

        def choose_steps(weight: float) -> None:
            if self.step_y is None:
                constants = setup.constants_at(x, y_gamma)  # costs hundreds of gradients
                settings[kernel.STEP_Y] = safe_step(constants.g_yy + constants.f_yy / weight)
            second = given(self.step_y if self.step_y_penalised is None else self.step_y_penalised)
            settings[kernel.STEP_Y_PENALISED] = second or settings[kernel.STEP_Y]

        second = self.step_y if self.step_y_penalised is None else self.step_y_penalised
        self.run_stages(
            setup,
            iterate,
            settings,
            pace,
            state=(x, y_g, y_gamma),
            choose_steps=choose_steps,
            schedules={kernel.STEP_Y_PENALISED: second},
        )


@method
@dataclass(frozen=True, kw_only=True)
class F2sa(AltPbgd):
    r"""The fully first-order method: both lower problems are followed, not solved.

    By default it is what the ALT-PBGD paper compares with under this name: ALT-PBGD with a few inner
    steps. ``variant="paper"`` is Algorithm 1 of Kwon et al. without noise: the weight grows as
    :math:`\lambda_k = \lambda_0 (k + 1)^{1/3}`, y_g has the step :math:`\gamma`, the penalised y the
    step :math:`\alpha_k = \gamma / (2 \lambda_k)` on :math:`f + \lambda_k g`, and x the same
    :math:`\alpha_k`. Each of these can be given: ``penalty``, ``step_y``, ``step_y_penalised`` (on
    :math:`f / \lambda_k + g`, so :math:`\alpha_k \lambda_k`) and ``step_x``, as numbers or as schedules.
    """

    name: ClassVar[str] = "f2sa"
    summary: ClassVar[str] = "ALT-PBGD with a few inner steps in each iteration"
    reference: ClassVar[str] = (
        "Kwon, Kwon, Wright and Nowak (2023); Jiang, Xiao, Chen and Chen (2025), Theorem 3"
    )
    costs: ClassVar[str] = "a few gradient steps on each of two lower problems, then one step in x"

    variant: str = setting(
        "default",
        "'paper': Kwon et al.'s weight that grows as (k + 1)^(1/3), with one step for each sequence; "
        "'default': ALT-PBGD with few inner steps, its weights in stages",
        choices=VARIANTS,
    )
    inner_steps: int | Schedule | None = setting(10, "inner steps in each iteration", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        AltPbgd.run(self._as_printed(run) if self.is_printed else self, run)

    def _as_printed(self, run: Run) -> F2sa:
        """The same with the paper's schedules in the places of what is not given."""
        weight: Any = power(PAPER_WEIGHT, 1 / 3) if self.penalty is None else self.penalty
        step: Any = self.step_y
        if step is None:
            step = safe_step(set_up(run, prox=True).constants.g_yy)
        in_x, second = self.step_x, self.step_y_penalised
        if in_x is None:
            in_x = Schedule(
                lambda k: value_at(step, k) / (2 * value_at(weight, k)), "step_y / (2 penalty)"
            )
        if second is None:
            second = Schedule(lambda k: value_at(step, k) / 2, "step_y / 2")
        return replace(self, penalty=weight, step_y=step, step_x=in_x, step_y_penalised=second)
