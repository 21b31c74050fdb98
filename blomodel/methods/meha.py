"""MEHA: single-loop steps on the Moreau-envelope penalty; nonconvex and nonsmooth lower levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.compiler.passes.directions import Direction, Term, point_in
from blomodel.kernels.loops.meha import meha
from blomodel.methods.first_order.constants import (
    Constants,
    envelope_curvature,
    safe_step,
    weights_curvature,
)
from blomodel.methods.first_order.first_order import FirstOrder, set_up
from blomodel.methods.first_order.stages import penalty_stages, propose_last, run_stages
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run


@method
@dataclass(frozen=True, kw_only=True)
class Meha:
    r"""Algorithm 1 of the MEHA paper, with g = smooth part + nonsmooth part h.

    One proximal gradient step each for :math:`\theta`, x and y on

    .. math:: f(x, y)/c_k + g(x, y) - \min_\theta \{g(x, \theta) + \|\theta - y\|^2/(2\gamma)\},
              \qquad c_k = c\,(k+1)^p.

    Without c the penalty grows in stages, each long enough to settle; without steps they follow from
    the curvature of f and g.
    """

    name: ClassVar[str] = "meha"
    summary: ClassVar[str] = "single-loop proximal steps on the Moreau-envelope penalty"
    assumes: ClassVar[str] = "g smooth and weakly convex in y, plus terms with a prox; X, Y simple"
    claims: ClassVar[str] = "a stationary point of the Moreau-envelope penalty; error of order 1/c"
    reference: ClassVar[str] = "Liu et al. (2024), MEHA, Alg. 1, eqs 9-13"
    costs: ClassVar[str] = "one gradient or proximal step each in theta, x and y; no inner loop"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.NONCONVEX_LOWER, Capability.LOWER_CONSTRAINTS, Capability.PROX_TERMS}
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset()
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    c: float | None = setting(None, "first penalty weight; None: grows in stages", minimum=0.0)
    p: float = setting(0.49, "exponent of c_k = c (k + 1)^p; only with c", minimum=0.0)
    gamma: float | None = setting(
        None, "parameter of the Moreau envelope; None: from the curvature of g", minimum=0.0
    )
    alpha: float | None = setting(None, "step in x; None: from the curvature", minimum=0.0)
    beta: float | None = setting(None, "step in y; None: from the curvature", minimum=0.0)
    eta: float | None = setting(None, "step in theta; None: from the curvature", minimum=0.0)
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
        run.watch(x, y)
        try:
            self._iterate(setup, slopes, x, y, theta)
        finally:
            run.evaluations += setup.n_evaluations
            propose_last(run, x, y, self.name)

    def _iterate(
        self,
        setup: FirstOrder,
        slopes: Sequence[Direction],
        x: np.ndarray,
        y: np.ndarray,
        theta: np.ndarray,
    ) -> None:
        run = setup.run
        settings, state, work = np.zeros(6), np.zeros(1), setup.work(2)
        amounts, loop = setup.amounts_in(slopes[-1]), setup.loop(meha)

        def iterate(n: int) -> float:
            return loop(
                n, *slopes, setup.x_spec, setup.y_spec, setup.penalty,
                settings, x, y, amounts, state, work,
            )  # fmt: skip

        def begin(c: float, is_last: bool) -> float:
            constants = setup.constants_at(x, y)
            settings[:4] = self.steps(setup, constants, c, x, y)
            settings[4], settings[5] = c, 0.0 if self.c is None else self.p
            state[0] = 0.0
            return 10 * run.tolerance if is_last else max(1e-2, run.tolerance)

        run_stages(
            run,
            iterate,
            stages=penalty_stages(setup.constants, 0.1, 1e4) if self.c is None else [self.c],
            begin=begin,
            state=(x, y, theta),
            max_iterations=self.max_steps,
            report=lambda: {"c": settings[4] * (state[0] + 1) ** settings[5]},
        )

    def steps(
        self, setup: FirstOrder, constants: Constants, c: float, x: np.ndarray, y: np.ndarray
    ) -> tuple[float, float, float, float]:
        """alpha, beta, eta and gamma for a penalty weight c, where they are not given."""
        gamma, split = self.gamma, setup.split
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
        alpha = 0.9 * safe_step(in_x) if self.alpha is None else self.alpha
        beta = 0.9 * safe_step(in_y) if self.beta is None else self.beta
        eta = 0.9 * safe_step(constants.g_yy + 1 / gamma) if self.eta is None else self.eta
        return alpha, beta, eta, gamma
