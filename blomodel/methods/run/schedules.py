"""Settings that change from one iteration to the next: steps, weights, numbers of inner steps.

Every setting whose table says "Schedule" takes a number, one of the schedules below, or any function of
the iteration k = 0, 1, 2, ... Every loop asks for the value of iteration k just before it does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from blomodel.errors import UnknownSettingError

__all__ = ["Schedule", "annealing", "constant", "cosine", "geometric", "power"]


@dataclass(frozen=True)
class Schedule:
    """A number for every iteration.

    Attributes
    ----------
    at : callable
        The value at iteration k, which counts from 0.
    text : str
        How it was made.
    """

    at: Callable[[int], float]
    text: str

    def __call__(self, k: int) -> float:
        """The value at iteration k."""
        return float(self.at(k))

    def __repr__(self) -> str:
        return self.text


def constant(value: float) -> Schedule:
    """The same value in every iteration, as a plain number gives."""
    return Schedule(partial(_power, value, 0.0), f"constant({value!r})")


def power(first: float, exponent: float) -> Schedule:
    """A power of the iteration: first * (k + 1) ** exponent, such as MEHA's c_k."""
    return Schedule(partial(_power, first, exponent), f"power({first!r}, {exponent!r})")


def annealing(first: float, rate: float = 1e-2, exponent: float = 0.75) -> Schedule:
    """Inverse power annealing: first / (1 + rate * k) ** exponent.

    MEHA's paper names this strategy without its two numbers; the defaults are the ones that are usual
    for learning rates.
    """
    text = f"annealing({first!r}, {rate!r}, {exponent!r})"
    return Schedule(partial(_annealed, first, rate, exponent), text)


def cosine(first: float, last: float, steps: int) -> Schedule:
    """From first to last along half a wave of the cosine, within so many iterations, then last."""
    if steps < 1:
        raise UnknownSettingError(f"cosine: steps = {steps!r} must be at least 1.")
    return Schedule(partial(_cosine, first, last, steps), f"cosine({first!r}, {last!r}, {steps!r})")


def geometric(first: float, factor: float, every: int = 1, last: float | None = None) -> Schedule:
    """A factor after every so many iterations, until ``last`` is reached: a weight that grows slowly."""
    if every < 1:
        raise UnknownSettingError(f"geometric: every = {every!r} must be at least 1.")
    text = f"geometric({first!r}, {factor!r}, {every!r}, {last!r})"
    return Schedule(partial(_geometric, first, factor, every, last), text)


# Functions and not lambdas, so that a solution that remembers its settings can be pickled.


def _power(first: float, exponent: float, k: int) -> float:
    return float(first * (k + 1.0) ** exponent)


def _annealed(first: float, rate: float, exponent: float, k: int) -> float:
    return float(first / (1.0 + rate * k) ** exponent)


def _cosine(first: float, last: float, steps: int, k: int) -> float:
    return last + (first - last) * (1.0 + math.cos(math.pi * min(k, steps) / steps)) / 2.0


def _geometric(first: float, factor: float, every: int, last: float | None, k: int) -> float:
    try:
        value = float(first * factor ** (k // every))
    except OverflowError:
        value = math.inf
    if last is None:
        return value
    return min(value, last) if factor > 1.0 else max(value, last)


def changes(setting: Any) -> bool:
    """Whether a setting is a schedule and not a number."""
    return callable(setting)


def value_at(setting: Any, k: int) -> Any:
    """The value of a setting at iteration k; None stays None."""
    return setting(k) if callable(setting) else setting
