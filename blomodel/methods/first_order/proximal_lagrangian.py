"""What lv-hba and bic-gaffa share: settings, default weights, and how their loops are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from blomodel.methods.first_order.constrained import ConstrainedLower, Scales, iterate_safely, scales
from blomodel.methods.run.registry import setting

QUIET = 2  # stretches of iterations in a row over which f must hardly have changed


@dataclass(frozen=True)
class Weights:
    """Proximal weights and first penalty weight, given or from the sizes of derivatives."""

    size: Scales
    gamma_1: float
    gamma_2: float
    c: float


@dataclass(frozen=True, kw_only=True)
class ProximalLagrangian:
    """Settings of the single-loop methods with a proximal term for y and for the multipliers."""

    step_size: float | None = setting(None, "step alpha of (x, y); None: from curvatures", minimum=0.0)
    step_z: float | None = setting(None, "step beta of z; None: from curvatures", minimum=0.0)
    step_theta: float | None = setting(None, "step eta of theta; None: from curvatures", minimum=0.0)
    gamma_1: float | None = setting(None, "proximal weight of theta; None: 1 / curvature", minimum=0.0)
    gamma_2: float | None = setting(None, "proximal weight of lambda; None: by the rows", minimum=0.0)
    c: float | None = setting(None, "first penalty weight; None: from curvatures", minimum=0.0)
    exponent: float = setting(0.45, "p in c_k = c (k + 1)^p", minimum=0.0)
    multiplier_bound: float = setting(1e4, "largest multiplier r", minimum=0.0)
    max_steps: int = setting(200_000, "largest number of iterations", minimum=1)
    settled: float = setting(
        1e-5, "relative change of f, while the iterations grow by half, at which to stop", minimum=0.0
    )

    def weights(
        self, lower: ConstrainedLower, x: np.ndarray, y: np.ndarray, multipliers: np.ndarray
    ) -> Weights:
        """What is not given follows from the derivatives at the start."""
        size = scales(lower, x, y, multipliers)
        return Weights(
            size=size,
            gamma_1=self.gamma_1 or 1 / size.curvature_y,
            gamma_2=self.gamma_2 or size.curvature_y / size.rows**2,
            c=self.c or max(1.0, size.upper / size.curvature),
        )

    def smallest_multipliers(self, lower: ConstrainedLower) -> np.ndarray:
        """0 for inequalities, -r for equalities."""
        return np.maximum(lower.low, -self.multiplier_bound)

    def iterate(
        self,
        lower: ConstrainedLower,
        name: str,
        loop: Callable[[int], float],
        *,
        x: np.ndarray,
        y: np.ndarray,
        state: Sequence[np.ndarray],
        steps: np.ndarray,
        c: float,
        memory: np.ndarray,
    ) -> None:
        """Run the loop, whose ``state`` holds x and y and whose ``memory`` counts its iterations."""
        run = lower.run

        def report() -> dict[str, float]:
            value = float(run.model.f(x, y, run.p)[0])
            return {"value": value, "gamma": c * (memory[0] + 1) ** self.exponent}

        values = [np.inf] * QUIET

        def is_settled() -> bool:
            values.append(report()["value"])
            recent = values[-QUIET - 1 :]
            return bool(max(recent) - min(recent) <= self.settled * (1 + abs(recent[-1])))

        run.watch(x, y)
        try:
            iterate_safely(
                run,
                loop,
                report,
                state=(*state, memory),
                steps=steps,
                max_iterations=self.max_steps,
                is_settled=is_settled,
            )
        finally:
            if np.all(np.isfinite(x)) and np.all(np.isfinite(y)):
                lower.propose(x.copy(), y.copy(), name)
