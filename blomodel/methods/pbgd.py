"""PBGD with Jacobi or Gauss-Seidel steps, as in the paper on global optimality."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.compiler.passes.directions import Term, point_in
from blomodel.errors import UnknownSettingError
from blomodel.kernels.loops.pbgd import pbgd_gauss_seidel, pbgd_together
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.stages import penalty_stages, propose_last, run_stages
from blomodel.methods.jnt_pbgd import JntPbgd, iterate_jointly
from blomodel.methods.run.capabilities import Assumption
from blomodel.methods.run.registry import method, setting
from blomodel.methods.run.run import Run

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
    costs: ClassVar[str] = (
        "inner gradient steps on the lower problem, then one step in x and y, together or in turn"
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})

    order: str = setting("jacobi", "'jacobi' or 'gauss-seidel'")
    second_step_size: float | None = setting(
        None, "step of (7d) in y, Gauss-Seidel only; None: from the curvature", minimum=0.0
    )

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise UnknownSettingError(f"pbgd: order = {self.order!r}; it must be one of {ORDERS}.")

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        setup = set_up(run)
        n_x = setup.oracle.n_x
        if self.order == "jacobi":
            z = np.concatenate([setup.x, setup.y])
            x, y, iterate = z[:n_x], z[n_x:], lambda: iterate_jointly(self, setup, z)
        else:
            turns = _InTurn(self, setup)
            x, y, iterate = turns.x, turns.y, turns.iterate
        run.watch(x, y)
        try:
            iterate()
        finally:
            run.evaluations = setup.n_evaluations
            propose_last(run, x, y, f"{self.name}, {self.order}")


class _InTurn:
    """The Gauss-Seidel order: w and y, each by its own steps, then x."""

    def __init__(self, method: Pbgd, setup: FirstOrder) -> None:
        self.method, self.setup = method, setup
        self.settings, self.pace = np.zeros(7), np.zeros(3)
        f_x, f_y = setup.f_slope("x"), setup.f_slope("y")
        g_x, g_y = setup.g_slope("x"), setup.g_slope("y")
        of_x = [Term(f_x), Term(g_x, weight=0), Term(g_x, y="z", weight=0, sign=-1.0)]
        at_zero, first_y, work = np.zeros(setup.y.size), setup.y.copy(), setup.work()
        sets, rest = (setup.x_spec, setup.y_spec), (at_zero, first_y, self.pace, work)
        self.run_loop: Callable[[int], float]
        if method.inner_steps is None:
            self.x, self.y, self.y_g = setup.x.copy(), setup.y.copy(), setup.y.copy()
            lower = setup.direction([Term(g_y)])
            penalised = setup.direction([Term(f_y), Term(g_y, weight=0)])
            upper = setup.direction(of_x, points=("x", "z", "y"))
            loop = setup.loop(pbgd_gauss_seidel)
            self.run_loop = lambda n: loop(
                n, lower, penalised, upper, *sets, setup.penalty, self.settings,
                self.x, self.y, self.y_g, *rest,
            )  # fmt: skip
        else:
            both, upper = setup.shared_sums(
                ([[Term(g_y, y="z")], [Term(f_y), Term(g_y, weight=0)]], ("z", "y", "x")),
                ([of_x], ("z", "y", "x")),
                points={"x": setup.x, "z": setup.y, "y": setup.y},
            )
            self.x, self.y_g, self.y = (point_in(both, position) for position in (1, 2, 3))
            loop = setup.loop(pbgd_together)
            self.run_loop = lambda n: loop(
                n, both, upper, *sets, self.settings, self.x, self.y_g, self.y, *rest
            )

    def iterate(self) -> None:
        """Run the loop, for one penalty weight after another where none is given."""
        method, setup, settings = self.method, self.setup, self.settings
        if method.step_size is None:
            self.pace[0] = safe_step(setup.constants.upper_curvature)
        gamma = method.gamma
        run_stages(
            setup.run,
            self.run_loop,
            stages=penalty_stages(setup.constants, 0.1, 1e4) if gamma is None else [gamma],
            begin=self._begin,
            state=(self.x, self.y, self.y_g),
            max_iterations=method.max_steps,
            report=lambda: {"gamma": settings[2], "step": settings[0] or self.pace[0]},
        )

    def _begin(self, gamma: float, is_last: bool) -> float:
        method, settings = self.method, self.settings
        accuracy = method.slope_to_stop_at(self.setup.run, is_last)
        settings[0] = method.step_size or 0.0
        if None in (method.inner_step_size, method.second_step_size):
            constants = self.setup.constants_at(self.x, self.y)  # costs hundreds of gradients
            settings[1] = safe_step(constants.g_yy)
            settings[6] = safe_step(constants.f_yy + gamma * constants.g_yy)
        settings[1] = method.inner_step_size or settings[1]
        settings[2] = gamma
        settings[3] = method.inner_steps or 1000
        settings[4] = 0.0 if method.inner_steps else max(0.1 * accuracy / max(gamma, 1.0), 1e-13)
        settings[5] = float(method.restart)
        settings[6] = method.second_step_size or settings[6]
        self.pace[1:] = 0.0
        return accuracy
