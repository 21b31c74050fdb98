"""Implicit gradients by a Neumann series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from blomodel.methods.implicit_cg import run_implicit
from blomodel.methods.registry import method, setting
from blomodel.methods.run import Run


@method
@dataclass(frozen=True, kw_only=True)
class ImplicitNeumann:
    r"""Approximate implicit differentiation (AID) with a truncated Neumann series.

    As implicit-cg, with :math:`v = \eta\sum_{q<Q} (I - \eta\nabla_{yy}^2 g)^q\,\nabla_y f`.
    """

    name: ClassVar[str] = "implicit-neumann"
    summary: ClassVar[str] = "implicit gradients, linear system by a Neumann series"
    assumes: ClassVar[str] = "lower level smooth, unconstrained, strongly convex in y"
    claims: ClassVar[str] = "a stationary point of f(x, y*(x))"
    reference: ClassVar[str] = (
        "Ghadimi and Wang (2018); Lorraine, Vicol and Duvenaud (2020); Ji, Yang and Liang (2021)"
    )

    step_size: float | None = setting(None, "step in x; None: adaptive", minimum=0.0)
    lower_step: float | None = setting(None, "step in y; None: 1/curvature", minimum=0.0)
    lower_steps: int | None = setting(None, "gradient steps in y; None: as many as y needs", minimum=1)
    series_step: float | None = setting(None, "eta; None: 0.9/curvature", minimum=0.0)
    n_terms: int | None = setting(None, "Q, terms of the series; None: until they are small", minimum=1)
    max_steps: int = setting(100000, "largest number of iterations", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate until the projected implicit gradient is small."""
        run_implicit(
            run,
            self.name,
            step_size=self.step_size,
            lower_step=self.lower_step,
            lower_steps=self.lower_steps,
            is_series=True,
            series_step=self.series_step,
            linear_steps=self.n_terms or 10000,
            linear_tolerance=1e-9 if self.n_terms is None else 0.0,
            max_steps=self.max_steps,
        )
