"""What lv-hba and bic-gaffa share: settings, default weights, and how their loops are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blomodel.methods.first_order.arrays import given
from blomodel.methods.first_order.constrained import ConstrainedLower, Scales, iterate_safely, scales
from blomodel.methods.first_order.frame import first_order_run
from blomodel.methods.first_order.scheduled import Scheduled
from blomodel.methods.run.registry import setting
from blomodel.methods.run.schedules import Schedule, changes
from blomodel.methods.run.stopping import StopSettings

QUIET = 2  # stretches of iterations in a row over which f must hardly have changed


@dataclass(frozen=True)
class Weights:
    """Proximal weights and first penalty weight, given or from the sizes of derivatives."""

    size: Scales
    proximal: float
    proximal_multiplier: float
    penalty: float


@dataclass(frozen=True, kw_only=True)
class ProximalLagrangian(StopSettings):
    """Settings of the single-loop methods with a proximal term for y and for the multipliers."""

    step_x: float | Schedule | None = setting(
        None,
        "step alpha of (x, y); None: from curvatures",
        aliases=("alpha", "step_size"),
        above=0.0,
    )
    step_multiplier: float | Schedule | None = setting(
        None,
        "step beta of the multipliers z; None: from curvatures",
        aliases=("beta", "step_z"),
        above=0.0,
    )
    step_theta: float | Schedule | None = setting(
        None, "step eta of theta; None: from curvatures", aliases=("eta",), above=0.0
    )
    proximal: float | None = setting(
        None, "proximal parameter of theta; None: 1 / curvature", aliases=("gamma_1",), above=0.0
    )
    proximal_multiplier: float | None = setting(
        None, "proximal parameter of lambda; None: by the rows", aliases=("gamma_2",), above=0.0
    )
    penalty: float | Schedule | None = setting(
        None,
        "first penalty weight c, or a schedule of all c_k; None: from curvatures",
        aliases=("c",),
        above=0.0,
    )
    penalty_power: float = setting(
        0.45, "power p of c_k = c (k + 1)^p", aliases=("p", "exponent"), minimum=0.0
    )
    multiplier_bound: float = setting(1e4, "largest multiplier r", aliases=("r",), above=0.0)
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
            proximal=self.proximal or 1 / size.curvature_y,
            proximal_multiplier=self.proximal_multiplier or size.curvature_y / size.rows**2,
            penalty=given(self.penalty) or max(1.0, size.upper / size.curvature),
        )

    @property
    def power(self) -> float:
        """With which c_k grows; a schedule says itself how."""
        return 0.0 if changes(self.penalty) else self.penalty_power

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
        weight: Callable[[], float],
        schedules: tuple[np.ndarray, Mapping[int, Any]],
    ) -> None:
        """Run the loop.

        Parameters
        ----------
        x, y : array
            The point, a part of the state.
        state : sequence of arrays
            What the loop moves, which is put back where it diverges.
        steps : array
            The part of its settings that is then made smaller.
        weight : callable
            The penalty weight that the loop has come to.
        schedules : tuple
            The settings of the loop, and what was given for some of their places.
        """
        run = lower.run

        def report() -> dict[str, float]:
            return {"value": float(run.model.f(x, y, run.p)[0]), "gamma": weight()}

        values = [np.inf] * QUIET

        def is_settled() -> bool:
            values.append(report()["value"])
            recent = values[-QUIET - 1 :]
            return bool(max(recent) - min(recent) <= self.settled * (1 + abs(recent[-1])))

        with first_order_run(lower, name, x, y):
            iterate_safely(
                run,
                Scheduled(loop, *schedules),
                report,
                state=state,
                steps=steps,
                max_iterations=self.max_steps,
                is_settled=is_settled,
                has_given_steps=any(
                    step is not None for step in (self.step_x, self.step_multiplier, self.step_theta)
                ),
            )
