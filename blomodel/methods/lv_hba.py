"""LV-HBA: a single loop on the proximal Lagrangian value function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from blomodel.analysis.sets import SetSpec
from blomodel.kernels.loops.lv_hba import lv_hba
from blomodel.kernels.projection import POLYHEDRON, build_set
from blomodel.methods.constrained import ConstrainedLower
from blomodel.methods.needs import check_needs
from blomodel.methods.proximal_lagrangian import ProximalLagrangian
from blomodel.methods.registry import method
from blomodel.methods.run import Run


@method
@dataclass(frozen=True, kw_only=True)
class LvHba(ProximalLagrangian):
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

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        check_needs(run, self)
        lower = ConstrainedLower(run, self.name)
        rows = _set_of_both_levels(run)
        x, y, multipliers = lower.start()
        point, theta, z = np.concatenate([x, y]), y.copy(), multipliers.copy()
        settings = self._settings(lower, x, y, multipliers[1:])
        low, memory, n_x = self.smallest_multipliers(lower), np.zeros(1), x.size
        space = np.zeros((7, max(point.size, lower.n_rows + 1)))
        oracle = lower.oracle

        def loop(count: int) -> float:
            return lv_hba(
                count, oracle.f_grad_x, oracle.f_grad_y, lower.both, lower.slope_x, lower.slope_y, rows,
                low, settings, point, theta, multipliers, z, memory, space,
            )  # fmt: skip

        self.iterate(
            lower,
            self.name,
            loop,
            x=point[:n_x],
            y=point[n_x:],
            state=(point, theta, multipliers, z),
            steps=settings[:4],
            c=settings[6],
            memory=memory,
        )

    def _settings(
        self, lower: ConstrainedLower, x: np.ndarray, y: np.ndarray, multipliers: np.ndarray
    ) -> np.ndarray:
        w = self.weights(lower, x, y, multipliers)
        pull = w.size.curvature_y + 1 / w.gamma_1
        steep = 2 * w.size.curvature + 1 / w.gamma_1 + w.size.upper / w.c
        # The paper has one step for theta and lambda; the default is in the scale in which rows and
        # curvature are of one size.
        eta, eta_dual = self.step_theta, self.step_theta
        if eta is None or eta_dual is None:
            eta, eta_dual = 0.25 / pull, 0.25 * w.gamma_2
        return np.array(
            [
                self.step_size or 0.25 / steep,
                self.step_z or 0.5 * w.gamma_2,
                eta,
                eta_dual,
                w.gamma_1,
                w.gamma_2,
                w.c,
                self.exponent,
                self.multiplier_bound,
            ]
        )


def _set_of_both_levels(run: Run) -> SetSpec:
    """All constraints of both levels as one polyhedron of (x, y)."""
    model = run.model
    parts = (model.lower_in, model.lower_eq, model.upper_in, model.upper_eq)
    x, y = np.zeros(model.x.size), np.zeros(model.y.size)
    lines = [part.linearise(x, y, run.p) for part in parts]
    matrix = sp.vstack([sp.hstack([line.in_x, line.in_y]) for line in lines]).toarray()
    right = -np.concatenate([line.value for line in lines])
    low = np.repeat([0.0, -np.inf, 0.0, -np.inf], [len(part) for part in parts])
    numbers = [[right.size], right, low, np.zeros(right.size), matrix.ravel()]
    return build_set([(POLYHEDRON, np.arange(x.size + y.size), np.concatenate(numbers))])
