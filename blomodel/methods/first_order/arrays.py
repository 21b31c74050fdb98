"""The arrays of numbers that compiled loops are given, filled by the names of their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from blomodel.methods.run.schedules import value_at

AUTOMATIC = 0.0  # in place of a step: the loop finds one


def given(step: Any) -> float:
    """A step as the loops take it; the first one of a schedule."""
    first = value_at(step, 0)
    return AUTOMATIC if first is None else float(first)


def filled(count: int, fields: Mapping[int, float]) -> np.ndarray:
    """An array with a number in every place; ``fields`` holds the numbers by the names of the places."""
    if sorted(fields) != list(range(count)):
        missing = set(range(count)) ^ set(fields)
        raise ValueError(f"each of the {count} places needs one number; look at {sorted(missing)}")
    return np.array([float(fields[place]) for place in range(count)])
