"""Implicit gradients by conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from blomodel.methods.implicit import ImplicitGradient
from blomodel.methods.registry import method, setting
from blomodel.methods.run import Run


@method
@dataclass(frozen=True, kw_only=True)
class ImplicitCg(ImplicitGradient):
    r"""Approximate implicit differentiation (AID) with conjugate gradients.

    Gradient steps on g(x, .) from the last y, conjugate gradients on
    :math:`\nabla_{yy}^2 g\, v = \nabla_y f` from the last v, then a step in x along
    :math:`\nabla_x f - \nabla_{xy}^2 g\, v`.
    """

    name: ClassVar[str] = "implicit-cg"
    summary: ClassVar[str] = "implicit gradients, linear system by conjugate gradients"
    reference: ClassVar[str] = (
        "Pedregosa (2016); Grazzi, Franceschi, Pontil and Salzo (2020); Ji, Yang and Liang (2021)"
    )

    linear_steps: int = setting(100, "largest number of conjugate gradient steps", minimum=1)
    linear_tolerance: float = setting(
        1e-10, "relative residual at which conjugate gradients stop", minimum=0.0
    )

    def run(self, run: Run) -> None:
        """Iterate until the projected implicit gradient is small."""
        self.iterate(
            run,
            is_series=False,
            linear_steps=self.linear_steps,
            linear_tolerance=self.linear_tolerance,
        )
