"""Local minimisation of a smooth function under smooth rows, by SciPy's SLSQP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SmoothProgram:
    """Minimise ``value`` over ``inequalities <= 0``, ``equalities == 0`` and bounds."""

    value: Callable[[np.ndarray], float]
    gradient: Function
    inequalities: Function
    inequalities_jacobian: Function
    equalities: Function
    equalities_jacobian: Function
    bounds: tuple[np.ndarray, np.ndarray]

    def violation(self, z: np.ndarray) -> float:
        """Largest violation of a row."""
        over = self.inequalities(z).max(initial=0)
        return float(max(over, np.abs(self.equalities(z)).max(initial=0)))


def minimise_smooth(
    program: SmoothProgram,
    start: np.ndarray,
    *,
    max_iterations: int = 60,
    check: Callable[[], object] = lambda: None,
) -> np.ndarray:
    """The end of a local search; the start itself where the search meets undefined values.

    ``check`` is called before every evaluation and ends the search by an exception.
    """
    from scipy.optimize import minimize

    def finite(function: Function) -> Function:
        # SLSQP has no way to step back from NaN, but does so from a large number.
        return lambda z: np.nan_to_num(function(z), nan=1e10, posinf=1e10, neginf=-1e10)

    rows: list[dict[str, Any]] = [
        {
            "type": "ineq",
            "fun": finite(lambda z: -program.inequalities(z)),
            "jac": finite(lambda z: -program.inequalities_jacobian(z)),
        },
        {
            "type": "eq",
            "fun": finite(program.equalities),
            "jac": finite(program.equalities_jacobian),
        },
    ]
    low, high = program.bounds

    def value(z: np.ndarray) -> float:
        check()
        return float(np.nan_to_num(program.value(z), nan=1e20, posinf=1e20))

    found = minimize(
        value,
        np.clip(start, low, high),
        jac=finite(program.gradient),
        method="SLSQP",
        bounds=list(zip(low, high, strict=True)),
        constraints=[row for row in rows if len(row["fun"](start))],
        options={"maxiter": max_iterations, "ftol": 1e-11},
    )
    point = np.clip(np.asarray(found.x, dtype=float), low, high)
    return point if np.all(np.isfinite(point)) else start
