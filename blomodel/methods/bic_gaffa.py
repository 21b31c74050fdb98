"""BiC-GAFFA: a single loop on the regularised gap function of the lower Lagrangian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.loops import bic_gaffa as kernel
from blomodel.methods.first_order.arrays import filled, given
from blomodel.methods.first_order.constrained import ConstrainedLower
from blomodel.methods.first_order.proximal_lagrangian import ProximalLagrangian
from blomodel.methods.requirements.needs import formula_for_x
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method
from blomodel.methods.run.run import Run


@method
@dataclass(frozen=True, kw_only=True)
class BicGaffa(ProximalLagrangian):
    r"""Penalise the gap of the saddle point problem that the lower level's Lagrangian poses.

    .. math:: G(x, y, z) = \max_{\theta,\, \lambda \ge 0} L(x, y, \lambda) - L(x, \theta, z)
              - \tfrac{1}{2\gamma_1}\|y - \theta\|^2 - \tfrac{1}{2\gamma_2}\|\lambda - z\|^2

    vanishes at lower answers y with multipliers z. Each iteration takes one gradient step in theta,
    the maximising lambda in closed form, and one step on f / c_k + G in (x, y, z).
    """

    name: ClassVar[str] = "bic-gaffa"
    summary: ClassVar[str] = "single loop on the regularised gap function of the lower Lagrangian"
    assumes: ClassVar[str] = "lower level convex in y, smooth, with multipliers; no upper row contains y"
    claims: ClassVar[str] = "a stationary point of f / c + gap; error of order 1/c"
    reference: ClassVar[str] = "Yao, Yin, Zeng and Zhang (2025)"
    costs: ClassVar[str] = (
        "one gradient step each in theta and (x, y, z); no projection onto coupled rows"
    )
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.COUPLED_LOWER, Capability.LOWER_CONSTRAINTS, Capability.PROX_TERMS, Capability.KINKS}
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})
    needs: ClassVar[tuple[Need, ...]] = (formula_for_x,)

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        lower = ConstrainedLower(run)
        x, y, z = lower.start()
        theta = y.copy()
        settings = self._settings(lower, x, y, z[1:])
        low, memory = self.smallest_multipliers(lower), np.zeros(kernel.N_MEMORY)
        space = np.zeros((kernel.N_ROWS, max(x.size, y.size, lower.n_rows + 1)))
        oracle = lower.oracle

        def loop(count: int) -> float:
            return kernel.bic_gaffa(
                count, oracle.f_grad_x, oracle.f_grad_y, lower.both, lower.slope_x, lower.slope_y,
                lower.x_set.spec, low, settings, x, y, theta, z, memory, space,
            )  # fmt: skip

        self.iterate(
            lower,
            self.name,
            loop,
            x=x,
            y=y,
            state=(x, y, theta, z, memory),
            steps=settings[: kernel.N_STEPS],
            weight=lambda: settings[kernel.PENALTY] * (memory[kernel.DONE] + 1) ** self.power,
            schedules=(
                settings,
                {
                    kernel.STEP_X: self.step_x,
                    kernel.STEP_MULTIPLIER: self.step_multiplier,
                    kernel.STEP_THETA: self.step_theta,
                    kernel.PENALTY: self.penalty,
                },
            ),
        )

    def _settings(
        self, lower: ConstrainedLower, x: np.ndarray, y: np.ndarray, multipliers: np.ndarray
    ) -> np.ndarray:
        w = self.weights(lower, x, y, multipliers)
        turning = w.proximal_multiplier * w.size.rows**2
        steep = 2 * w.size.curvature + 1 / w.proximal + turning + w.size.upper / w.penalty
        return filled(
            kernel.N_SETTINGS,
            {
                kernel.STEP_X: given(self.step_x) or 0.5 / steep,
                kernel.STEP_MULTIPLIER: given(self.step_multiplier) or 0.5 * w.proximal_multiplier,
                kernel.STEP_THETA: given(self.step_theta) or 1 / (w.size.curvature_y + 1 / w.proximal),
                kernel.PROXIMAL: w.proximal,
                kernel.PROXIMAL_MULTIPLIER: w.proximal_multiplier,
                kernel.PENALTY: w.penalty,
                kernel.PENALTY_POWER: self.power,
                kernel.MULTIPLIER_BOUND: self.multiplier_bound,
            },
        )
