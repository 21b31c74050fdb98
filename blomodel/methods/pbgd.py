"""PBGD with Jacobi or Gauss-Seidel steps, as in the paper on global optimality."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.errors import UnknownSettingError
from blomodel.kernels.loops.pbgd import pbgd_gauss_seidel
from blomodel.methods.constants import safe_step
from blomodel.methods.directions import Term
from blomodel.methods.first_order import FirstOrder, penalty_stages, propose_last, run_stages, set_up
from blomodel.methods.jnt_pbgd import JntPbgd, iterate_jointly
from blomodel.methods.registry import method, setting
from blomodel.methods.run import Run
from blomodel.methods.second_order import refuse_kinks

ORDERS = ("jacobi", "gauss-seidel")


@method
@dataclass(frozen=True, kw_only=True)
class Pbgd(JntPbgd):
    r"""Algorithms 1 (Jacobi) and 2 (Gauss-Seidel) of the paper on global optimality.

    With w near the lower answer by (7a), Jacobi moves x and y at once by (7b) and (7c); Gauss-Seidel
    first minimises f + gamma g in y by (7d) and then moves x by (7e).
    """

    name: ClassVar[str] = "pbgd"
    summary: ClassVar[str] = "gradient steps on f + gamma (g - v), both blocks at once or in turn"
    assumes: ClassVar[str] = "g smooth and PL in y; f + gamma (g - v) jointly or blockwise PL"
    claims: ClassVar[str] = "the global solution up to 1/gamma under those PL conditions"
    reference: ClassVar[str] = (
        "Xiao and Chen, Unlocking global optimality in bilevel optimization, Alg. 1-2, eqs 7a-7e"
    )

    order: str = setting("jacobi", "'jacobi' or 'gauss-seidel'")
    second_step_size: float | None = setting(
        None, "step of (7d) in y, Gauss-Seidel only; None: from the curvature", minimum=0.0
    )

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise UnknownSettingError(f"pbgd: order = {self.order!r}; it must be one of {ORDERS}.")

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        setup = set_up(run, self.name)
        refuse_kinks(run, self.name)
        z, n_x = np.concatenate([setup.x, setup.y]), setup.oracle.n_x
        run.watch(z[:n_x], z[n_x:])
        try:
            if self.order == "jacobi":
                iterate_jointly(self, setup, z)
            else:
                self._iterate_in_turn(setup, z[:n_x], z[n_x:])
        finally:
            run.evaluations = setup.n_evaluations
            propose_last(run, z[:n_x], z[n_x:], f"{self.name}, {self.order}")

    def _iterate_in_turn(self, setup: FirstOrder, x: np.ndarray, y: np.ndarray) -> None:
        run = setup.run
        y_g, at_zero, first_y = y.copy(), np.zeros(y.size), y.copy()
        g_x, g_y = setup.g_slope("x"), setup.g_slope("y")
        lower = setup.direction([Term(g_y)])
        penalised = setup.direction([Term(setup.f_slope("y")), Term(g_y, weight=0)])
        upper = setup.direction(
            [
                Term(setup.f_slope("x")),
                Term(g_x, weight=0),
                Term(g_x, y="z", weight=0, sign=-1.0),
            ],
            points=("x", "z", "y"),
        )
        settings, work, loop = np.zeros(7), setup.work(), setup.loop(pbgd_gauss_seidel)
        pace = np.zeros(3)
        if self.step_size is None:
            pace[0] = safe_step(setup.constants.upper_curvature)

        def iterate(n: int) -> float:
            return loop(
                n, lower, penalised, upper, setup.x_spec, setup.y_spec, setup.penalty,
                settings, x, y, y_g, at_zero, first_y, pace, work,
            )  # fmt: skip

        def begin(gamma: float, is_last: bool) -> float:
            accuracy = self.slope_to_stop_at(run, is_last)
            settings[0] = self.step_size or 0.0
            if None in (self.inner_step_size, self.second_step_size):
                constants = setup.constants_at(x, y)  # costs hundreds of gradients
                settings[1] = safe_step(constants.g_yy)
                settings[6] = safe_step(constants.f_yy + gamma * constants.g_yy)
            settings[1] = self.inner_step_size or settings[1]
            settings[2] = gamma
            settings[3] = self.inner_steps or 1000
            settings[4] = 0.0 if self.inner_steps else max(0.1 * accuracy / max(gamma, 1.0), 1e-13)
            settings[5] = float(self.restart)
            settings[6] = self.second_step_size or settings[6]
            pace[1:] = 0.0
            return accuracy

        run_stages(
            run,
            iterate,
            stages=penalty_stages(setup.constants, 0.1, 1e4) if self.gamma is None else [self.gamma],
            begin=begin,
            state=(x, y, y_g),
            max_iterations=self.max_steps,
            report=lambda: {"gamma": settings[2], "step": settings[0] or pace[0]},
        )
