"""JNT-PBGD (V-PBGD): gradient steps on the penalty in x and y together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.compiler.passes.directions import Term
from blomodel.kernels.fields import N_PACE, STEP
from blomodel.kernels.loops import jnt_pbgd as kernel
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.frame import first_order_run
from blomodel.methods.first_order.stages import PenaltyMethod
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule


@method
@dataclass(frozen=True, kw_only=True)
class JntPbgd(PenaltyMethod):
    r"""Algorithm 1 of the ALT-PBGD paper: eq. 19 on f + gamma (g - v) in (x, y).

    Its smoothness grows with gamma, so its steps are of order 1/gamma, and ALT-PBGD saves a factor of
    order gamma in the number of iterations. The inner steps go on from the last lower answer: the paper
    leaves their start to its "Min Solver".
    """

    name: ClassVar[str] = "jnt-pbgd"
    summary: ClassVar[str] = "the lower problem by gradient steps, then one step in (x, y) together"
    assumes: ClassVar[str] = "g smooth, strongly convex (or PL) in y; X and Y simple sets"
    claims: ClassVar[str] = "a stationary point of f + gamma (g - v); error of order 1/gamma"
    reference: ClassVar[str] = (
        "Shen, Xiao and Chen (2023); Jiang, Xiao, Chen and Chen (2025), Alg. 1, eq. 19"
    )
    costs: ClassVar[str] = "inner gradient steps on the lower problem, then one step in (x, y)"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.NONCONVEX_LOWER, Capability.LOWER_CONSTRAINTS}
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset(
        {Assumption.SMOOTH_LOWER, Assumption.STRONGLY_CONVEX_OR_PL}
    )
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    step_x: float | Schedule | None = setting(
        None, "step eta in (x, y); None: adaptive", aliases=("eta", "step_size"), above=0.0
    )
    step_y: float | Schedule | None = setting(
        None,
        "step of the lower solver; None: from the curvature of g",
        aliases=("inner_step_size",),
        above=0.0,
    )
    restart: bool | None = setting(
        None,
        "whether the lower solver begins at 0 in every iteration, not where it ended in the last one; "
        "None: no",
    )
    max_steps: int = setting(100_000, "largest number of iterations for each penalty weight", minimum=1)
    stop_at: float | None = setting(
        None, "largest slope at which to stop; None: the solve's tolerance", minimum=0.0
    )

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        setup = set_up(run)
        z, n_x = np.concatenate([setup.x, setup.y]), setup.oracle.n_x
        with first_order_run(setup, self.name, z[:n_x], z[n_x:]):
            iterate_jointly(self, setup, z)

    @property
    def restarts(self) -> bool:
        """Whether the inner steps begin anew in every iteration."""
        return bool(self.restart)

    def slope_to_stop_at(self, run: Run, is_last: bool) -> float:
        """What ends a stage: the slope that is given, or one by the tolerance."""
        if self.stop_at is not None:
            return self.stop_at
        return super().slope_to_stop_at(run, is_last)


def iterate_jointly(method: JntPbgd, setup: FirstOrder, z: np.ndarray) -> None:
    """Move z = (x, y) by joint steps; also the Jacobi order of PBGD."""
    n_x = setup.oracle.n_x
    y_g, at_zero = setup.y.copy(), np.zeros(setup.oracle.n_y)
    lower = setup.direction([Term(setup.g_slope("y"))])
    joint = setup.direction(
        [
            Term(setup.f_slope("x")),
            Term(setup.g_slope("x"), weight=0),
            Term(setup.g_slope("x"), y="z", weight=0, sign=-1.0),
        ],
        [Term(setup.f_slope("y")), Term(setup.g_slope("y"), weight=0)],
        points=("x", "z", "y"),
    )
    settings, pace = np.zeros(kernel.N_SETTINGS), np.zeros(N_PACE)
    settings[kernel.RESTART] = float(method.restarts)
    work, loop = np.zeros((kernel.N_ROWS, z.size)), setup.loop(kernel.jnt_pbgd)

    def iterate(n: int) -> float:
        return loop(
            n, lower, joint, *setup.sets, setup.penalty,
            settings, z, n_x, y_g, at_zero, pace, work,
        )  # fmt: skip

    def choose_steps(weight: float) -> None:
        if method.step_x is None or method.step_y is None:
            constants = setup.constants_at(z[:n_x], z[n_x:])  # costs hundreds of gradients
            settings[kernel.STEP_Y] = safe_step(constants.g_yy)
            above = constants.f_xx + constants.f_xy + constants.f_yy
            below = constants.g_xx + constants.g_xy * (1 + constants.sensitivity) + constants.g_yy
            pace[STEP] = safe_step(above + weight * below)

    method.run_stages(setup, iterate, settings, pace, state=(z, y_g), choose_steps=choose_steps)


@method
@dataclass(frozen=True, kw_only=True)
class VPbgd(JntPbgd):
    """JNT-PBGD under the name of its first paper."""

    name: ClassVar[str] = "v-pbgd"
