"""LV-HBA: a single loop on the proximal Lagrangian value function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from blomodel.kernels.loops.lv_hba import lv_hba
from blomodel.methods.constrained import ConstrainedLower, iterate_safely, scales
from blomodel.methods.needs import check_needs
from blomodel.methods.registry import method, setting
from blomodel.methods.run import Run


@method
@dataclass(frozen=True, kw_only=True)
class LvHba:
    r"""Penalise g less the proximal Lagrangian value, over both levels' constraints.

    .. math:: v(x, y, z) = \min_\theta \max_{\lambda \in [0, r]} L(x, \theta, \lambda)
              + \tfrac{1}{2\gamma_1}\|\theta - y\|^2 - \tfrac{1}{2\gamma_2}\|\lambda - z\|^2

    Each iteration takes one step of descent in theta and ascent in lambda, then one projected step
    on f / c_k + g - v in (x, y) and one in z.
    """

    name: ClassVar[str] = "lv-hba"
    summary: ClassVar[str] = "single loop on the proximal Lagrangian value function, Hessian-free"
    assumes: ClassVar[str] = "lower level convex in y, smooth; all constraints affine in (x, y)"
    claims: ClassVar[str] = "a stationary point of f / c + value-function gap; error of order 1/c"
    reference: ClassVar[str] = (
        "Yao, Yu, Zeng and Zhang, Constrained bi-level optimization: proximal Lagrangian value function "
        "approach and Hessian-free algorithm (ICLR 2024)"
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
        matrix, right, row_low = _rows_of_both_levels(run)
        x, y, multipliers = lower.start()
        point, theta, z = np.concatenate([x, y]), y.copy(), multipliers.copy()
        settings = self._settings(lower, x, y, multipliers[1:])
        memory, duals = np.zeros(1), np.zeros(len(right))
        n_x, n_y, n_rows = x.size, y.size, lower.n_rows
        space = np.zeros((7, max(n_x + n_y, n_rows + 1)))
        oracle = lower.oracle

        def loop(count: int) -> float:
            run.evaluations += 3 * count
            return lv_hba(
                count, oracle.f_grad_x, oracle.f_grad_y, lower.both, lower.slope_x, lower.slope_y,
                matrix, right, row_low, duals, lower.low, settings, point, theta, multipliers, z, memory,
                space,
            )  # fmt: skip

        def report() -> dict[str, float]:
            penalty = settings[6] * (memory[0] + 1) ** settings[7]
            return {"value": float(run.model.f(point[:n_x], point[n_x:], run.p)[0]), "gamma": penalty}

        run.watch(point[:n_x], point[n_x:])
        try:
            iterate_safely(
                run,
                loop,
                report,
                state=(point, theta, multipliers, z, duals, memory),
                steps=settings[:4],
                max_iterations=self.max_steps,
            )
        finally:
            if np.all(np.isfinite(point)):
                lower.propose(point[:n_x].copy(), point[n_x:].copy(), self.name)

    def _settings(
        self, lower: ConstrainedLower, x: np.ndarray, y: np.ndarray, multipliers: np.ndarray
    ) -> np.ndarray:
        size = scales(lower, x, y, multipliers)
        gamma_1 = self.gamma_1 or 1 / size.curvature_y
        gamma_2 = self.gamma_2 or size.curvature_y / size.rows**2
        c = self.c or max(1.0, size.upper / size.curvature)
        steep = 2 * size.curvature + 1 / gamma_1 + size.upper / c
        eta = self.step_theta or 0.25 / (size.curvature_y + 1 / gamma_1)
        return np.array(
            [
                self.step_size or 0.25 / steep,
                self.step_z or 0.5 * gamma_2,
                eta,
                # The dual step in the scale in which rows and curvature are of one size.
                eta * gamma_2 * (size.curvature_y + 1 / gamma_1),
                gamma_1,
                gamma_2,
                c,
                self.exponent,
                self.multiplier_bound,
            ]
        )


def _rows_of_both_levels(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All constraints as rows: matrix (x, y) <= right, and the smallest multiplier of each."""
    model = run.model
    parts = (model.lower_in, model.lower_eq, model.upper_in, model.upper_eq)
    x, y = np.zeros(model.x.size), np.zeros(model.y.size)
    lines = [part.linearise(x, y, run.p) for part in parts]
    matrix = sp.vstack([sp.hstack([line.in_x, line.in_y]) for line in lines]).toarray()
    right = -np.concatenate([line.value for line in lines])
    smallest = (0.0, -np.inf, 0.0, -np.inf)
    low = np.concatenate([np.full(len(part), v) for part, v in zip(parts, smallest, strict=True)])
    return np.ascontiguousarray(matrix), right, low
