"""MEHA: single-loop steps on the Moreau-envelope penalty; nonconvex and nonsmooth lower levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.compiler.passes.directions import Direction, Term, point_in
from blomodel.compiler.team import team_of
from blomodel.errors import UnknownSettingError
from blomodel.kernels.loops import meha as kernel
from blomodel.methods.first_order.arrays import given
from blomodel.methods.first_order.batches import run_moreau
from blomodel.methods.first_order.constants import (
    Constants,
    envelope_curvature,
    safe_step,
    weights_curvature,
)
from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.frame import first_order_run
from blomodel.methods.first_order.scheduled import PAPER, VARIANTS, Scheduled
from blomodel.methods.first_order.stages import penalty_stages, run_stages
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule, changes
from blomodel.methods.run.stopping import StopSettings

FIRST_WEIGHT = 0.1  # of the stages; for its unit see penalty_stages
SHARE = 0.9  # of the step that the curvature allows


@method
@dataclass(frozen=True, kw_only=True)
class Meha(StopSettings):
    r"""Algorithm 1 of the MEHA paper, with g = smooth part + nonsmooth part h.

    One proximal gradient step each for :math:`\theta`, x and y on

    .. math:: f(x, y)/c_k + g(x, y) - \min_\theta \{g(x, \theta) + \|\theta - y\|^2/(2\gamma)\},
              \qquad c_k = c\,(k+1)^p.

    Without a penalty weight c it grows in stages, each long enough to settle; without steps they
    follow from the curvature of f and g. ``variant="paper"`` has one stage, with
    :math:`c_k = c\,(k+1)^p` from the first iteration on; its steps, weights and :math:`\theta^0` may be
    given, the steps also as schedules such as the annealing of the paper's section A.11, and its stop
    rules are ``stop_move`` and ``stop_relative_move``.
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

    variant: str = setting(
        "default",
        "'paper': c_k = c (k + 1)^p from the first iteration on, with constant steps, where c is not "
        "given the curvature of f over that of g; 'default': weights in stages, where c is not given",
        choices=VARIANTS,
    )
    penalty: float | Schedule | None = setting(
        None,
        "first penalty weight c, or a schedule of all c_k; None: grows in stages",
        aliases=("c",),
        above=0.0,
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
    step_x: float | Schedule | None = setting(
        None, "step alpha in x; None: from the curvature", aliases=("alpha",), above=0.0
    )
    step_y: float | Schedule | None = setting(
        None, "step beta in y; None: from the curvature", aliases=("beta",), above=0.0
    )
    step_theta: float | Schedule | None = setting(
        None, "step eta in theta; None: from the curvature", aliases=("eta",), above=0.0
    )
    theta: object | None = setting(
        None, "theta^0, a number or one for each entry of y; None: the first y", own=True
    )
    threads: int | None = setting(
        None, "threads that share long products and sums; None: one", minimum=1
    )
    batch_size: int | None = setting(
        None, "rows of data drawn for each step; None: all of them", minimum=1
    )
    max_steps: int = setting(200_000, "largest number of iterations for each weight", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        with team_of(self.threads):
            self._run(run)

    def _run(self, run: Run) -> None:
        if self.batch_size is not None:
            run_moreau(self, run, self.batch_size)
            return
        setup = set_up(run, prox=True)
        f_x, f_y = setup.f_slope("x"), setup.f_slope("y")
        g_x, g_y = setup.g_slope("x"), setup.g_slope("y")
        pull = Term(None, y="theta", less="y", weight=1)  # (theta - y) / gamma
        slopes = setup.shared_directions(
            ([Term(g_y, y="theta"), pull], ("x", "y", "theta")),
            ([Term(g_x, less="theta"), Term(f_x, weight=0)], ("theta", "y", "x")),
            ([Term(g_y), Term(f_y, weight=0), pull], ("x", "theta", "y")),
            points={"x": setup.x, "y": setup.y, "theta": self._first_theta(setup.y)},
        )
        # The loop moves its points where the slopes read them.
        x, y, theta = (point_in(slopes[0], position) for position in (1, 2, 3))
        with first_order_run(setup, self.name, x, y):
            self._iterate(setup, slopes, x, y, theta)

    def _first_theta(self, y: np.ndarray) -> np.ndarray:
        if self.theta is None:
            return y
        try:
            given_theta = np.asarray(self.theta, dtype=float)
            return np.array(np.broadcast_to(given_theta.ravel(order="F"), y.shape))
        except (TypeError, ValueError):
            raise UnknownSettingError(
                f"{self.name}: theta = {self.theta!r} does not fit; it must be a number or {y.size} of "
                "them."
            ) from None

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
            has_power = self.penalty is not None or self.variant == PAPER
            settings[kernel.PENALTY_POWER] = (
                self.penalty_power if has_power and not changes(self.penalty) else 0.0
            )
            state[kernel.DONE] = 0.0
            return 10 * run.tolerance if is_last else max(1e-2, run.tolerance)

        def weight() -> float:
            return settings[kernel.PENALTY] * (state[kernel.DONE] + 1) ** settings[kernel.PENALTY_POWER]

        stages = penalty_stages(setup, self.penalty, FIRST_WEIGHT)
        if self.variant == PAPER and self.penalty is None:
            stages = [stages[0] / FIRST_WEIGHT]
        changing = {
            kernel.STEP_X: self.step_x,
            kernel.STEP_Y: self.step_y,
            kernel.STEP_THETA: self.step_theta,
            kernel.PENALTY: self.penalty,
        }
        run_stages(
            run,
            Scheduled(iterate, settings, changing),
            stages=stages,
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
            kernel.STEP_X: given(self.step_x) or SHARE * safe_step(in_x),
            kernel.STEP_Y: given(self.step_y) or SHARE * safe_step(in_y),
            kernel.STEP_THETA: given(self.step_theta) or SHARE * safe_step(in_theta),
            kernel.PROXIMAL: gamma,
        }
