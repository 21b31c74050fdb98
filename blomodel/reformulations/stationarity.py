"""The stationarity reformulation: the gradient of an unconstrained lower level is zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blomodel.errors import ReformulationError
from blomodel.reformulations.kkt import WithConditions
from blomodel.reformulations.reformulation import (
    EQUIVALENT,
    RELAXATION,
    Requirement,
    documented,
    reformulation,
)
from blomodel.text.shorten import shorten


@reformulation
class Stationarity(WithConditions):
    """min f(x, y) subject to grad_y g(x, y) = 0."""

    name = "stationarity"
    title = "Stationarity reformulation"
    abstract_text = "min over x, y of f(x, y)  s.t.  grad_y g(x, y) = 0, x in X"
    abstract_latex = r"\min_{x,y} f(x,y) \;\text{s.t.}\; \nabla_y g(x,y) = 0,\; x \in X"

    def judge(self) -> tuple[str, str]:
        """Exact where stationary points of the lower level are minimisers."""
        if self.lower_kind == "nonconvex":
            return RELAXATION, (
                "the lower level is not convex: saddle points and maxima are stationary too, unless "
                "g satisfies the Polyak-Lojasiewicz inequality"
            )
        return EQUIVALENT, (
            "the lower level is convex and unconstrained, where stationary points are minimisers"
        )

    def check(self) -> Sequence[Requirement]:
        """No lower constraints, and a lower objective without kinks."""
        constraints = self.model.lower_constraints
        if constraints:
            raise ReformulationError(
                f"stationarity: the lower level must be unconstrained, but {shorten(constraints[0])!r} "
                "constrains it; 'kkt' is the same with multipliers."
            )
        if self.conditions.rows or self.conditions.smooth.parts:
            raise ReformulationError(
                f"stationarity: the lower objective {shorten(self.model.g_expression)!r} has kinks, "
                "where it has no gradient; 'kkt' and 'moreau' take such lower levels."
            )
        _ = self.problem
        return [
            Requirement("the lower level is unconstrained", "no lower constraints"),
            Requirement("the lower objective is smooth in y", "it has a symbolic gradient"),
        ]

    def make_functions(self) -> dict[str, Callable[..., Any]]:
        """The gradient that must vanish, and its squared length with a gradient of its own."""
        model, n_x = self.model, self.model.x.size

        def gradient(x: Any, y: Any) -> np.ndarray:
            return model.g_grad(self.x(x), self.y(y), self.p)[n_x:]

        def residual(x: Any, y: Any) -> float:
            return float(np.sum(gradient(x, y) ** 2))

        def residual_gradient(x: Any, y: Any) -> np.ndarray:
            cross, hessian = model.lower_hessian(self.x(x), self.y(y), self.p, np.zeros(0))
            slope = gradient(x, y)
            return 2.0 * np.concatenate([cross.T @ slope, hessian.T @ slope])

        return {
            "objective": super().make_functions()["objective"],
            "gradient": documented(gradient, "grad_y g(x, y), which must be zero"),
            "residual": documented(residual, "h(x, y) = |grad_y g(x, y)|^2"),
            "residual_gradient": documented(residual_gradient, "gradient of h in (x, y)"),
        }
