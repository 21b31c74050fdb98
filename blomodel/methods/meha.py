"""MEHA: single-loop steps on the Moreau-envelope penalty; nonconvex and nonsmooth lower levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.compiler.passes.directions import Direction, Term, point_in
from blomodel.kernels.loops import meha as kernel
from blomodel.methods.first_order.constants import (
    Constants,
    envelope_curvature,
    safe_step,
    weights_curvature,
)
from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.frame import first_order_run
from blomodel.methods.first_order.stages import penalty_stages, run_stages
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run

FIRST_WEIGHT = 0.1  # of the stages; for its unit see penalty_stages
SHARE = 0.9  # of the step that the curvature allows


@method
@dataclass(frozen=True, kw_only=True)
class Meha:
    r"""Algorithm 1 of the MEHA paper, with g = smooth part + nonsmooth part h.

    One proximal gradient step each for :math:`\theta`, x and y on

    .. math:: f(x, y)/c_k + g(x, y) - \min_\theta \{g(x, \theta) + \|\theta - y\|^2/(2\gamma)\},
              \qquad c_k = c\,(k+1)^p.

    Without a penalty weight c it grows in stages, each long enough to settle; without steps they
    follow from the curvature of f and g.
    """

    name: ClassVar[str] = "meha"
    summary: ClassVar[str] = "single-loop proximal steps on the Moreau-envelope penalty"
    assumes: ClassVar[str] = "g smooth and weakly convex in y, plus terms with a prox; X, Y simple"
    claims: ClassVar[str] = "a stationary point of the Moreau-envelope penalty; error of order 1/c"
    reference: ClassVar[str] = "Liu, Liu, Yao, Zeng and Zhang (2024), Alg. 1, eqs 9-13"
    costs: ClassVar[str] = "one gradient or proximal step each in theta, x and y; no inner loop"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.NONCONVEX_LOWER, Capability.LOWER_CONSTRAINTS, Capability.PROX_TERMS}
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset()
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    penalty: float | None = setting(
        None, "first penalty weight c; None: grows in stages", aliases=("c",), above=0.0
    )
    penalty_power: float = setting(
        0.49, "power p of c_k = c (k + 1)^p; only with a given c", aliases=("p",), minimum=0.0
    )
    proximal: float | None = setting(
        None,
        "parameter gamma of the Moreau envelope; None: from the curvature of g",
        aliases=("gamma",),
        above=0.0,
    )
    step_x: float | None = setting(
        None, "step alpha in x; None: from the curvature", aliases=("alpha",), above=0.0
    )
    step_y: float | None = setting(
        None, "step beta in y; None: from the curvature", aliases=("beta",), above=0.0
    )
    step_theta: float | None = setting(
        None, "step eta in theta; None: from the curvature", aliases=("eta",), above=0.0
    )
    max_steps: int = setting(200_000, "largest number of iterations for each weight", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        setup = set_up(run, prox=True)
        f_x, f_y = setup.f_slope("x"), setup.f_slope("y")
        g_x, g_y = setup.g_slope("x"), setup.g_slope("y")
        pull = Term(None, y="theta", less="y", weight=1)  # (theta - y) / gamma
        slopes = setup.shared_directions(
            ([Term(g_y, y="theta"), pull], ("x", "y", "theta")),
            ([Term(g_x, less="theta"), Term(f_x, weight=0)], ("theta", "y", "x")),
            ([Term(g_y), Term(f_y, weight=0), pull], ("x", "theta", "y")),
            points={"x": setup.x, "y": setup.y, "theta": setup.y},
        )
        # The loop moves its points where the slopes read them.
        x, y, theta = (point_in(slopes[0], position) for position in (1, 2, 3))
        with first_order_run(setup, self.name, x, y):
            self._iterate(setup, slopes, x, y, theta)

    def _iterate(
        self,
        setup: FirstOrder,
        slopes: Sequence[Direction],
        x: np.ndarray,
        y: np.ndarray,
        theta: np.ndarray,
    ) -> None:
        run = setup.run
        settings, state = np.zeros(kernel.N_SETTINGS), np.zeros(kernel.N_STATE)
        work, loop = setup.work(kernel.N_ROWS), setup.loop(kernel.meha)
        amounts = setup.amounts_in(slopes[-1])

        def iterate(n: int) -> float:
            return loop(
                n, *slopes, *setup.sets, setup.penalty,
                settings, x, y, amounts, state, work,
            )  # fmt: skip

        def begin(c: float, is_last: bool) -> float:
            for place, value in self.steps(setup, setup.constants_at(x, y), c, x, y).items():
                settings[place] = value
            settings[kernel.PENALTY] = c
            settings[kernel.PENALTY_POWER] = 0.0 if self.penalty is None else self.penalty_power
            state[kernel.DONE] = 0.0
            return 10 * run.tolerance if is_last else max(1e-2, run.tolerance)

        def weight() -> float:
            return settings[kernel.PENALTY] * (state[kernel.DONE] + 1) ** settings[kernel.PENALTY_POWER]

        run_stages(
            run,
            iterate,
            stages=penalty_stages(setup, self.penalty, FIRST_WEIGHT),
            begin=begin,
            state=(x, y, theta),
            max_iterations=self.max_steps,
            report=lambda: {"c": weight()},
        )

    def steps(
        self, setup: FirstOrder, constants: Constants, c: float, x: np.ndarray, y: np.ndarray
    ) -> dict[int, float]:
        """The loop's steps and proximal parameter for a penalty weight c, where they are not given."""
        gamma, split = self.proximal, setup.split
        has_weights = split is not None and split.weights.depends_on("x")
        if gamma is None:
            # Weakly convex g needs gamma < 1 / (2 rho); elsewhere theta must come near the lower answer,
            # which lies farther away where x may take away the weights that hold it.
            reach = 100.0 if has_weights else 10.0
            gamma = reach * safe_step(constants.g_yy)
            if constants.weak_convexity > 1e-6 * constants.g_yy:
                gamma = min(gamma, 1 / (2.5 * constants.weak_convexity))
        coupling = envelope_curvature(setup.oracle, x, y, gamma, setup.run.seed)
        if split is not None and has_weights:
            coupling += weights_curvature(split, x, y, setup.run.p, gamma, setup.run.seed)
        in_x = constants.f_xx / c + constants.g_xx + coupling
        in_y = constants.f_yy / c + constants.g_yy + 1 / gamma
        in_theta = constants.g_yy + 1 / gamma
        return {
            kernel.STEP_X: self.step_x or SHARE * safe_step(in_x),
            kernel.STEP_Y: self.step_y or SHARE * safe_step(in_y),
            kernel.STEP_THETA: self.step_theta or SHARE * safe_step(in_theta),
            kernel.PROXIMAL: gamma,
        }
