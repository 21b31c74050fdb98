"""LV-HBA: a single loop on the proximal Lagrangian value function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.passes.derivatives import hessian
from blomodel.kernels.loops import lv_hba as kernel
from blomodel.kernels.projection import POLYHEDRON, build_set, polyhedron
from blomodel.methods.first_order.arrays import filled, given
from blomodel.methods.first_order.constrained import ConstrainedLower, spectral_norm
from blomodel.methods.first_order.proximal_lagrangian import ProximalLagrangian, Weights
from blomodel.methods.requirements.needs import affine_rows
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method
from blomodel.methods.run.run import Run
from blomodel.structure.sets import SetSpec

LATER = 4.0  # growth of c_k in the first 20 iterations, for which the unit of x is chosen


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
    reference: ClassVar[str] = "Yao, Yu, Zeng and Zhang (2024)"
    costs: ClassVar[str] = (
        "one gradient step each in theta, lambda, (x, y) and z; one projection onto both levels' rows"
    )
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.COUPLED_LOWER,
            Capability.COUPLED_UPPER,
            Capability.LOWER_CONSTRAINTS,
            Capability.PROX_TERMS,
            Capability.KINKS,
        }
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})
    needs: ClassVar[tuple[Need, ...]] = (affine_rows,)

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        lower = ConstrainedLower(run)
        x, y, multipliers = lower.start()
        point, theta, z = np.concatenate([x, y]), y.copy(), multipliers.copy()
        settings = self._settings(lower, x, y, multipliers[1:])
        rows = _set_of_both_levels(run, settings[kernel.UNIT])
        low, memory, n_x = self.smallest_multipliers(lower), np.zeros(kernel.N_MEMORY), x.size
        space = np.zeros((kernel.N_ROWS, max(point.size, lower.n_rows + 1)))
        oracle = lower.oracle

        def loop(count: int) -> float:
            return kernel.lv_hba(
                count, oracle.f_grad_x, oracle.f_grad_y, lower.both, lower.slope_x, lower.slope_y, rows,
                low, settings, point, theta, multipliers, z, memory, space,
            )  # fmt: skip

        self.iterate(
            lower,
            self.name,
            loop,
            x=point[:n_x],
            y=point[n_x:],
            state=(point, theta, multipliers, z, memory),
            steps=settings[: kernel.N_STEPS],
            weight=lambda: settings[kernel.PENALTY] * (memory[kernel.DONE] + 1) ** self.power,
            schedules=(
                settings,
                {
                    kernel.STEP_X: self.step_x,
                    kernel.STEP_MULTIPLIER: self.step_multiplier,
                    kernel.STEP_THETA: self.step_theta,
                    kernel.STEP_ASCENT: self.step_theta,
                    kernel.PENALTY: self.penalty,
                },
            ),
        )

    def _settings(
        self, lower: ConstrainedLower, x: np.ndarray, y: np.ndarray, multipliers: np.ndarray
    ) -> np.ndarray:
        w = self.weights(lower, x, y, multipliers)
        pull = w.size.curvature_y + 1 / w.proximal
        steep, unit = _steepness(lower, w, x, y)
        if self.step_x is not None:
            unit = 1.0  # the paper's step is for (x, y) as they are
        # The paper has one step for theta and lambda; the default is in the scale in which rows and
        # curvature are of one size.
        eta = eta_dual = given(self.step_theta)
        if not eta:
            eta, eta_dual = 0.25 / pull, 0.25 * w.proximal_multiplier
        return filled(
            kernel.N_SETTINGS,
            {
                kernel.STEP_X: given(self.step_x) or 0.25 / steep,
                kernel.STEP_MULTIPLIER: given(self.step_multiplier) or 0.5 * w.proximal_multiplier,
                kernel.STEP_THETA: eta,
                kernel.STEP_ASCENT: eta_dual,
                kernel.PROXIMAL: w.proximal,
                kernel.PROXIMAL_MULTIPLIER: w.proximal_multiplier,
                kernel.PENALTY: w.penalty,
                kernel.PENALTY_POWER: self.power,
                kernel.MULTIPLIER_BOUND: self.multiplier_bound,
                kernel.UNIT: unit,
            },
        )


def _steepness(lower: ConstrainedLower, w: Weights, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Curvature of what (x / unit, y) descends on, and the unit that makes both parts as steep.

    The paper has one step for x and y, which the steeper of them limits; x is often much less so.
    """
    model, n_x, point = lower.model, x.size, (x, y, lower.p)
    below, above = (hessian(tape, ("x", "y"), point) for tape in (model.g, model.f))
    parts = [rows.linearise(x, y, lower.p).in_x for rows in (model.lower_in, model.lower_eq)]
    turning = w.proximal_multiplier * spectral_norm(sp.vstack(parts)) ** 2  # x moves the multipliers
    by_x = 2 * spectral_norm(below[:n_x, :n_x]) + turning
    by_x += spectral_norm(above[:n_x, :n_x]) / (LATER * w.penalty)
    own = 2 * w.size.curvature_y + 1 / w.proximal
    by_y = own + spectral_norm(above[n_x:, n_x:]) / w.penalty
    unit = float(np.clip(np.sqrt(by_y / by_x), 1e-3, 1e3)) if by_x > 0 else 1.0
    scale = sp.diags_array(np.repeat([unit, 1.0], [n_x, y.size]))
    steep = max(2 * spectral_norm(sp.csr_array(scale @ below @ scale)), 2 * w.size.curvature_y)
    steep += spectral_norm(sp.csr_array(scale @ above @ scale)) / w.penalty
    return steep + 1 / w.proximal + turning * unit**2, unit


def _set_of_both_levels(run: Run, unit: float) -> SetSpec:
    """All constraints of both levels as one polyhedron of (x / unit, y)."""
    model = run.model
    parts = (model.lower_in, model.lower_eq, model.upper_in, model.upper_eq)
    x, y = np.zeros(model.x.size), np.zeros(model.y.size)
    lines = [part.linearise(x, y, run.p) for part in parts]
    matrix = sp.vstack([sp.hstack([unit * line.in_x, line.in_y]) for line in lines]).toarray()
    right = -np.concatenate([line.value for line in lines])
    low = np.repeat([0.0, -np.inf, 0.0, -np.inf], [len(part) for part in parts])
    return build_set([(POLYHEDRON, np.arange(x.size + y.size), polyhedron(matrix, right, low))])
