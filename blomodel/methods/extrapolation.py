"""Limits of sequences whose error is a smooth function of a step that goes to 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def extrapolate(
    steps: Sequence[float], points: Sequence[np.ndarray], *, rational: bool = False
) -> list[np.ndarray]:
    """Values at step 0 by the last two, three, ... points: Neville's table, entry by entry.

    With ``rational`` the points are taken for values of rational functions (Stoer and Bulirsch), which
    also fit the curve of a penalty's minimisers, x(s) = a / (1 + b s).
    """
    table = [np.array(point, dtype=float) for point in points]  # the last column, then each finer one
    before = [np.zeros_like(table[0]) for _ in table]
    limits = []
    for order in range(1, len(table)):
        finer = []
        for k in range(order, len(points)):
            new, old = table[k - order + 1], table[k - order]
            ratio, change = steps[k - order] / steps[k], new - old
            factor = np.full_like(change, ratio)
            if rational:
                with np.errstate(divide="ignore", invalid="ignore"):
                    bent = ratio * (1 - change / (new - before[k - order + 1]))
                factor = np.where(np.isfinite(bent) & (np.abs(bent - 1) > 1e-3), bent, ratio)
            finer.append(new + change / (factor - 1))
        before, table = table, finer
        limits.append(table[-1])
    return limits
