"""BiC-GAFFA: a single loop on the regularised gap function of the lower Lagrangian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.loops.bic_gaffa import bic_gaffa
from blomodel.methods.constrained import ConstrainedLower, iterate_safely, scales
from blomodel.methods.needs import check_needs
from blomodel.methods.registry import method, setting
from blomodel.methods.run import Run


@method
@dataclass(frozen=True, kw_only=True)
class BicGaffa:
    r"""Penalise the gap of the saddle point problem that the lower level's Lagrangian poses.

    .. math:: G(x, y, z) = \max_{\theta,\, \lambda \ge 0} L(x, y, \lambda) - L(x, \theta, z)
              - \tfrac{1}{2\gamma_1}\|y - \theta\|^2 - \tfrac{1}{2\gamma_2}\|\lambda - z\|^2

    vanishes at lower answers y with multipliers z. Each iteration takes one gradient step in theta,
    the maximising lambda in closed form, and one step on f / c_k + G in (x, y, z).
    """

    name: ClassVar[str] = "bic-gaffa"
    summary: ClassVar[str] = "single loop on the regularised gap function of the lower Lagrangian"
    assumes: ClassVar[str] = "lower level convex in y, smooth, with multipliers; no upper row holds y"
    claims: ClassVar[str] = "a stationary point of f / c + gap; error of order 1/c"
    reference: ClassVar[str] = (
        "Yao, Yin, Zeng and Zhang, Overcoming lower-level constraints in bilevel optimization: a novel "
        "approach with regularized gap functions (ICLR 2025)"
    )

    step_size: float | None = setting(None, "step alpha of (x, y); None: from curvatures", minimum=0.0)
    step_z: float | None = setting(None, "step beta of z; None: from curvatures", minimum=0.0)
    step_theta: float | None = setting(None, "step eta of theta; None: from curvatures", minimum=0.0)
    gamma_1: float | None = setting(None, "proximal weight of theta; None: 1 / curvature", minimum=0.0)
    gamma_2: float | None = setting(None, "proximal weight of lambda; None: by the rows", minimum=0.0)
    c: float | None = setting(None, "first penalty weight; None: from curvatures", minimum=0.0)
    exponent: float = setting(0.45, "p in c_k = c (k + 1)^p", minimum=0.0)
    multiplier_bound: float = setting(1e4, "largest multiplier r", minimum=0.0)
    max_steps: int = setting(200_000, "largest number of iterations", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        check_needs(run, self)
        lower = ConstrainedLower(run, self.name)
        x, y, z = lower.start()
        theta = y.copy()
        settings = self._settings(lower, x, y, z[1:])
        memory = np.zeros(1)
        n_x, n_y, n_rows = x.size, y.size, lower.n_rows
        space = np.zeros((6, max(n_x, n_y, n_rows + 1)))
        oracle = lower.oracle

        def loop(count: int) -> float:
            run.evaluations += 3 * count
            return bic_gaffa(
                count, oracle.f_grad_x, oracle.f_grad_y, lower.both, lower.slope_x, lower.slope_y,
                lower.x_set.spec, lower.low, settings, x, y, theta, z, memory, space,
            )  # fmt: skip

        def report() -> dict[str, float]:
            penalty = settings[5] * (memory[0] + 1) ** settings[6]
            return {"value": float(run.model.f(x, y, run.p)[0]), "gamma": penalty}

        run.watch(x, y)
        try:
            iterate_safely(
                run,
                loop,
                report,
                state=(x, y, theta, z, memory),
                steps=settings[:3],
                max_iterations=self.max_steps,
            )
        finally:
            if np.all(np.isfinite(x)) and np.all(np.isfinite(y)):
                lower.propose(x, y, self.name)

    def _settings(
        self, lower: ConstrainedLower, x: np.ndarray, y: np.ndarray, multipliers: np.ndarray
    ) -> np.ndarray:
        size = scales(lower, x, y, multipliers)
        gamma_1 = self.gamma_1 or 1 / size.curvature_y
        gamma_2 = self.gamma_2 or size.curvature_y / size.rows**2
        c = self.c or max(1.0, size.upper / size.curvature)
        steep = 2 * size.curvature + 1 / gamma_1 + gamma_2 * size.rows**2 + size.upper / c
        return np.array(
            [
                self.step_size or 0.5 / steep,
                self.step_z or 0.5 * gamma_2,
                self.step_theta or 1 / (size.curvature_y + 1 / gamma_1),
                gamma_1,
                gamma_2,
                c,
                self.exponent,
                self.multiplier_bound,
            ]
        )
