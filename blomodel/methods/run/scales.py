"""Points spread over the range of each variable: evenly, and evenly over its orders of magnitude."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DECADE = 10.0  # ends whose sizes differ by more than this factor are spread over magnitudes too
FINEST = 1e-4  # of the largest size: where zero is in the range, magnitudes below it count as zero
FAR = 1e3  # how far an open side is looked at, relative to the size of the center


@dataclass(frozen=True)
class Scale:
    """How a variable is spread.

    Attributes
    ----------
    low, high : float
        The range; an open side is closed at some distance.
    unit : float
        Sizes beyond it are spread over their logarithm, as ``origin + unit * sinh(t)``; infinite where
        the range spans no orders of magnitude.
    origin : float
        Where magnitudes are counted from.
    """

    low: float
    high: float
    unit: float
    origin: float = 0.0

    @property
    def has_magnitudes(self) -> bool:
        """Whether the range spans orders of magnitude."""
        return bool(np.isfinite(self.unit))

    def even(self, share: np.ndarray) -> np.ndarray:
        """Shares of [0, 1] spread evenly over the range."""
        return self.low + share * (self.high - self.low)

    def by_magnitude(self, share: np.ndarray) -> np.ndarray:
        """Shares of [0, 1] spread evenly over orders of magnitude; evenly where there are none."""
        if not self.has_magnitudes:
            return self.even(share)
        first, last = (np.arcsinh((end - self.origin) / self.unit) for end in (self.low, self.high))
        return np.clip(
            self.origin + self.unit * np.sinh(first + share * (last - first)), self.low, self.high
        )

    def share_of(self, x: np.ndarray) -> np.ndarray:
        """Where x lies in the range: the mean of its even share and its share of magnitudes."""
        even = (x - self.low) / max(self.high - self.low, np.finfo(float).tiny)
        if not self.has_magnitudes:
            return even
        first, last = (np.arcsinh((end - self.origin) / self.unit) for end in (self.low, self.high))
        return (even + (np.arcsinh((x - self.origin) / self.unit) - first) / (last - first)) / 2

    def step_at(self, x: float, share: float) -> float:
        """The smaller of the two moves at x that make up so large a share of the range."""
        even = share * (self.high - self.low)
        if not self.has_magnitudes:
            return even
        first, last = (np.arcsinh((end - self.origin) / self.unit) for end in (self.low, self.high))
        slope = (last - first) * np.hypot(self.unit, x - self.origin)
        return float(min(even, share * slope))


def find_scales(bounds: tuple[np.ndarray, np.ndarray], center: np.ndarray) -> list[Scale]:
    """The scale of each variable.

    Parameters
    ----------
    bounds : tuple of arrays
    center : array
        Where to look around where a side is open.
    """
    return [_scale(*entry) for entry in zip(*bounds, center, strict=True)]


def _scale(low: float, high: float, center: float) -> Scale:
    if np.isfinite(low) and np.isfinite(high):
        return _closed(float(low), float(high))
    center = float(np.clip(center, low, high))
    reach = FAR * (1 + abs(center))
    origin = low if np.isfinite(low) else (high if np.isfinite(high) else center)
    first = float(low) if np.isfinite(low) else center - reach
    last = float(high) if np.isfinite(high) else center + reach
    return Scale(first, last, (1 + abs(center)) / 2, float(origin))


def _closed(low: float, high: float) -> Scale:
    large, small = max(abs(low), abs(high)), min(abs(low), abs(high))
    if low < 0 < high:
        return Scale(low, high, np.inf if large <= DECADE else FINEST * large)
    if small == 0.0:
        return Scale(low, high, min(1.0, FINEST * large) if large > 0 else np.inf)
    return Scale(low, high, small / 2 if large > DECADE * small else np.inf)
