"""JNT-PBGD (V-PBGD): gradient steps on the penalty in x and y together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.compiler.passes.directions import Term
from blomodel.kernels.loops.jnt_pbgd import jnt_pbgd
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.stages import penalty_stages, propose_last, run_stages
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run


@method
@dataclass(frozen=True, kw_only=True)
class JntPbgd:
    r"""Algorithm 1 of the ALT-PBGD paper: eq. 19 on f + gamma (g - v) in (x, y).

    Its smoothness grows with gamma, so its steps are of order 1/gamma, and so is the number of
    iterations that ALT-PBGD saves.
    """

    name: ClassVar[str] = "jnt-pbgd"
    summary: ClassVar[str] = "the lower problem by gradient steps, then one step in (x, y) together"
    assumes: ClassVar[str] = "g smooth, strongly convex (or PL) in y; X and Y simple sets"
    claims: ClassVar[str] = "a stationary point of f + gamma (g - v); error of order 1/gamma"
    reference: ClassVar[str] = "Shen et al. (2023); Jiang et al., penalty-based methods, Alg. 1, eq. 19"
    costs: ClassVar[str] = "inner gradient steps on the lower problem, then one step in (x, y)"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.NONCONVEX_LOWER, Capability.LOWER_CONSTRAINTS}
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset(
        {Assumption.SMOOTH_LOWER, Assumption.STRONGLY_CONVEX_OR_PL}
    )
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    gamma: float | None = setting(None, "penalty weight; None: grows in stages", minimum=0.0)
    step_size: float | None = setting(None, "step eta in (x, y); None: adaptive", minimum=0.0)
    inner_step_size: float | None = setting(
        None, "step of the lower solver; None: from the curvature of g", minimum=0.0
    )
    inner_steps: int | None = setting(
        None, "inner steps in each iteration; None: until accurate", minimum=1
    )
    restart: bool = setting(False, "whether the lower solver begins at 0 in every iteration")
    max_steps: int = setting(100_000, "largest number of iterations for each gamma", minimum=1)
    stop_at: float | None = setting(
        None, "largest slope at which to stop; None: the solve's tolerance", minimum=0.0
    )

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        setup = set_up(run)
        z, n_x = np.concatenate([setup.x, setup.y]), setup.oracle.n_x
        run.watch(z[:n_x], z[n_x:])
        try:
            iterate_jointly(self, setup, z)
        finally:
            run.evaluations = setup.n_evaluations
            propose_last(run, z[:n_x], z[n_x:], self.name)

    def slope_to_stop_at(self, run: Run, is_last: bool) -> float:
        """What ends a stage; those before the last one need no more than a rough answer."""
        if self.stop_at is not None:
            return self.stop_at
        return run.tolerance if is_last else max(1e-3, run.tolerance)


def iterate_jointly(method: JntPbgd, setup: FirstOrder, z: np.ndarray) -> None:
    """Move z = (x, y) by joint steps; also the Jacobi order of PBGD."""
    run, n_x = setup.run, setup.oracle.n_x
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
    settings, pace, work = np.zeros(6), np.zeros(3), np.zeros((3, z.size))
    loop = setup.loop(jnt_pbgd)

    def iterate(n: int) -> float:
        return loop(
            n, lower, joint, setup.x_spec, setup.y_spec, setup.penalty,
            settings, z, n_x, y_g, at_zero, pace, work,
        )  # fmt: skip

    def begin(gamma: float, is_last: bool) -> float:
        accuracy = method.slope_to_stop_at(run, is_last)
        pace[:] = 0.0
        settings[0] = method.step_size or 0.0
        if None in (method.step_size, method.inner_step_size):
            constants = setup.constants_at(z[:n_x], z[n_x:])  # costs hundreds of gradients
            settings[1] = safe_step(constants.g_yy)
            above = constants.f_xx + constants.f_xy + constants.f_yy
            below = constants.g_xx + constants.g_xy * (1 + constants.sensitivity) + constants.g_yy
            pace[0] = safe_step(above + gamma * below)
        settings[1] = method.inner_step_size or settings[1]
        settings[2] = gamma
        settings[3] = method.inner_steps or 1000
        settings[4] = 0.0 if method.inner_steps else max(0.1 * accuracy / max(gamma, 1.0), 1e-13)
        settings[5] = float(method.restart)
        return accuracy

    run_stages(
        run,
        iterate,
        stages=penalty_stages(setup.constants, 0.1, 1e4) if method.gamma is None else [method.gamma],
        begin=begin,
        state=(z, y_g),
        max_iterations=method.max_steps,
        report=lambda: {"gamma": settings[2], "step": settings[0] or pace[0]},
    )


@method
@dataclass(frozen=True, kw_only=True)
class VPbgd(JntPbgd):
    """JNT-PBGD under the name of its first paper."""

    name: ClassVar[str] = "v-pbgd"
