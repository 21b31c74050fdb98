"""Implicit gradients by a Neumann series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from blomodel.methods.implicit import ImplicitGradient
from blomodel.methods.registry import method, setting
from blomodel.methods.run import Run


@method
@dataclass(frozen=True, kw_only=True)
class ImplicitNeumann(ImplicitGradient):
    r"""Approximate implicit differentiation (AID) with a truncated Neumann series.

    As implicit-cg, with :math:`v = \eta\sum_{q<Q} (I - \eta\nabla_{yy}^2 g)^q\,\nabla_y f`.
    """

    name: ClassVar[str] = "implicit-neumann"
    summary: ClassVar[str] = "implicit gradients, linear system by a Neumann series"
    reference: ClassVar[str] = (
        "Ghadimi and Wang (2018); Lorraine, Vicol and Duvenaud (2020); Ji, Yang and Liang (2021)"
    )

    series_step: float | None = setting(None, "eta; None: 0.9/curvature", minimum=0.0)
    n_terms: int | None = setting(None, "Q, terms of the series; None: until they are small", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate until the projected implicit gradient is small."""
        self.iterate(
            run,
            is_series=True,
            series_step=self.series_step,
            linear_steps=self.n_terms or 10000,
            linear_tolerance=1e-9 if self.n_terms is None else 0.0,
        )
