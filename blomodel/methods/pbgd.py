"""PBGD with Jacobi or Gauss-Seidel steps, as in the paper on global optimality."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from blomodel.compiler.passes.directions import Term, point_in
from blomodel.kernels.fields import N_PACE, STEP
from blomodel.kernels.loops import pbgd as kernel
from blomodel.methods.first_order.arrays import given
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.frame import first_order_run
from blomodel.methods.first_order.scheduled import VARIANTS
from blomodel.methods.jnt_pbgd import JntPbgd, iterate_jointly
from blomodel.methods.run.capabilities import Assumption
from blomodel.methods.run.registry import method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule, changes, value_at

ORDERS = ("jacobi", "gauss-seidel")


@method
@dataclass(frozen=True, kw_only=True)
class Pbgd(JntPbgd):
    r"""Algorithms 1 (Jacobi) and 2 (Gauss-Seidel) of the paper on global optimality.

    With w near the lower answer by (7a), Jacobi moves x and y at once by (7b) and (7c); Gauss-Seidel
    first minimises f + gamma g in y by (7d) and then moves x by (7e).

    The paper begins the inner steps anew in every iteration, w at 0 and the y of (7d) at its first
    value; its proofs need T_k steps from there. ``variant="paper"`` does so. By default the inner steps
    go on from where they ended, which reaches the same accuracy with a few of them.
    """

    name: ClassVar[str] = "pbgd"
    summary: ClassVar[str] = "gradient steps on f + gamma (g - v), both blocks at once or in turn"
    assumes: ClassVar[str] = "g smooth and PL in y; f + gamma (g - v) jointly or blockwise PL"
    claims: ClassVar[str] = "the global solution up to order 1/gamma^2 under those PL conditions"
    reference: ClassVar[str] = "Xiao and Chen (2024), Alg. 1-2, eqs 7a-7e"
    costs: ClassVar[str] = (
        "inner gradient steps on the lower problem, then one step in x and y, together or in turn"
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})

    variant: str = setting(
        "default",
        "'paper': inner loops begin anew in every iteration (w at 0; in the Gauss-Seidel order y at its "
        "first value), one weight (10 where none is given), a constant step; 'default': warm starts",
        choices=VARIANTS,
    )
    step_x: float | Schedule | None = setting(
        None,
        "step alpha in (x, y), in x with Gauss-Seidel; None: adaptive",
        aliases=("alpha", "step_size"),
        above=0.0,
    )
    step_y: float | Schedule | None = setting(
        None,
        "step beta of the lower solver; None: from the curvature of g",
        aliases=("beta", "inner_step_size"),
        above=0.0,
    )
    order: str = setting("jacobi", "'jacobi' or 'gauss-seidel'", choices=ORDERS, own=True)
    step_y_penalised: float | Schedule | None = setting(
        None,
        "step of (7d) in y, Gauss-Seidel only; None: from the curvature",
        aliases=("second_step_size",),
        above=0.0,
    )

    restart: bool | None = setting(
        None,
        "whether the inner loops begin anew in every iteration, w of (7a) at 0 and y of (7d) at its "
        "first value, as the paper has it; None: with variant='paper' only",
    )

    @property
    def restarts(self) -> bool:
        """Whether the inner steps begin anew in every iteration."""
        return self.is_printed if self.restart is None else self.restart

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
        with first_order_run(setup, f"{self.name}, {self.order}", x, y):
            iterate()


class _InTurn:
    """The Gauss-Seidel order: w and y, each by its own steps, then x."""

    def __init__(self, method: Pbgd, setup: FirstOrder) -> None:
        self.method, self.setup = method, setup
        self.settings, self.pace = np.zeros(kernel.N_SETTINGS), np.zeros(N_PACE)
        self.settings[kernel.RESTART] = float(method.restarts)
        f_x, f_y = setup.f_slope("x"), setup.f_slope("y")
        g_x, g_y = setup.g_slope("x"), setup.g_slope("y")
        of_x = [Term(f_x), Term(g_x, weight=0), Term(g_x, y="z", weight=0, sign=-1.0)]
        at_zero, first_y, work = np.zeros(setup.y.size), setup.y.copy(), setup.work(kernel.N_ROWS)
        rest = (at_zero, first_y, self.pace, work)
        self.run_loop: Callable[[int], float]
        if method.inner_steps is None:
            self.x, self.y, self.y_g = setup.x.copy(), setup.y.copy(), setup.y.copy()
            lower = setup.direction([Term(g_y)])
            penalised = setup.direction([Term(f_y), Term(g_y, weight=0)])
            upper = setup.direction(of_x, points=("x", "z", "y"))
            loop = setup.loop(kernel.pbgd_gauss_seidel)
            self.run_loop = lambda n: loop(
                n, lower, penalised, upper, *setup.sets, setup.penalty, self.settings,
                self.x, self.y, self.y_g, *rest,
            )  # fmt: skip
        else:
            both, upper = setup.shared_sums(
                ([[Term(g_y, y="z")], [Term(f_y), Term(g_y, weight=0)]], ("z", "y", "x")),
                ([of_x], ("z", "y", "x")),
                points={"x": setup.x, "z": setup.y, "y": setup.y},
            )
            self.x, self.y_g, self.y = (point_in(both, position) for position in (1, 2, 3))
            loop = setup.loop(kernel.pbgd_together)
            self.run_loop = lambda n: loop(
                n, both, upper, *setup.sets, self.settings, self.x, self.y_g, self.y, *rest
            )

    def iterate(self) -> None:
        """Run the loop, for one penalty weight after another where none is given."""
        method, setup = self.method, self.setup
        if method.step_x is None:
            self.pace[STEP] = safe_step(setup.constants.upper_curvature)
        method.run_stages(
            setup,
            self.run_loop,
            self.settings,
            self.pace,
            state=(self.x, self.y, self.y_g),
            choose_steps=self._choose_steps,
            schedules={kernel.STEP_Y_PENALISED: self._step_penalised()},
        )

    def _step_penalised(self) -> Any:
        """The step of (7d), which must become shorter where the weight grows."""
        method = self.method
        if method.step_y_penalised is not None or not changes(method.penalty):
            return method.step_y_penalised
        c = self.setup.constants
        return lambda k: safe_step(c.f_yy + value_at(method.penalty, k) * c.g_yy)

    def _choose_steps(self, weight: float) -> None:
        method, settings = self.method, self.settings
        if method.step_y is None or method.step_y_penalised is None:
            constants = self.setup.constants_at(self.x, self.y)  # costs hundreds of gradients
            settings[kernel.STEP_Y] = safe_step(constants.g_yy)
            settings[kernel.STEP_Y_PENALISED] = safe_step(constants.f_yy + weight * constants.g_yy)
        if method.step_y_penalised is not None:
            settings[kernel.STEP_Y_PENALISED] = given(method.step_y_penalised)
