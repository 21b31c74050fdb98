"""Where a sampled curve bends sharply or jumps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SHARP = 0.02  # bend that counts, as a share of the curve's range over the width of the grid
LEAP = 1e-3  # jump that counts, as a share of the curve's range
ROUNDS = 4  # of zooming in, each by a factor of 4
MAX_LOOKED_AT = 24


@dataclass(frozen=True)
class Kink:
    """A sharp bend or a jump of one or more of the curves."""

    place: float
    is_jump: bool
    curves: tuple[int, ...]


def find_kinks(
    evaluate: Callable[[float], np.ndarray], grid: np.ndarray, samples: np.ndarray
) -> list[Kink]:
    """Zoom in where the curves bend most; a kink keeps its bend under the glass, a smooth bend flattens.

    Parameters
    ----------
    evaluate : callable
        The curves' values at one place.
    grid : array (n,)
        Places, equally spaced.
    samples : array (n, n_curves)
        Their values there, NaN where there are none.

    Examples
    --------
    >>> grid = np.linspace(-1, 1, 101)
    >>> curve = lambda t: np.array([abs(t - 0.3) + t**2])
    >>> [kink] = find_kinks(curve, grid, np.array([curve(t) for t in grid]))
    >>> round(kink.place, 2), kink.is_jump
    (0.3, False)
    """
    scale = np.array([_range(column) for column in samples.T])
    span = grid[-1] - grid[0]
    bends = _bends(grid, samples, span, scale)
    strength = np.asarray(bends.max(axis=1, initial=0.0))
    around = np.pad(strength, 1)
    is_peak = (strength >= around[:-2]) & (strength > around[2:]) & (strength > SHARP)
    peaks = np.flatnonzero(is_peak)
    peaks = peaks[np.argsort(-strength[peaks])][:MAX_LOOKED_AT]
    found: list[Kink] = []
    for peak in sorted(int(place) for place in peaks):
        # One place more on either side: at a tie the answer may flip on a node of the grid itself.
        ends = float(grid[max(peak - 1, 0)]), float(grid[min(peak + 3, len(grid) - 1)])
        kink = _look_closer(evaluate, ends, bends[peak], span, scale)
        if kink is not None and all(abs(kink.place - k.place) > 1e-3 * span for k in found):
            found.append(kink)
    return found


def _look_closer(
    evaluate: Callable[[float], np.ndarray],
    ends: tuple[float, float],
    first: np.ndarray,
    span: float,
    scale: np.ndarray,
) -> Kink | None:
    stays = first > SHARP  # curves whose bend is as sharp in every round
    values = np.empty(0)
    for _ in range(ROUNDS):
        places = np.linspace(*ends, 9)
        values = np.array([evaluate(place) for place in places])
        bends = _bends(places, values, span, scale)
        sharpest = int(np.argmax(bends.max(axis=1)))
        here = bends[sharpest]
        stays &= here > 0.25 * first
        ends = places[sharpest], places[sharpest + 2]
    if not stays.any():
        return None
    middle = float(ends[0] + ends[1]) / 2
    leaps = np.abs(np.diff(values, axis=0)).max(axis=0) / scale > LEAP
    grows = here > 4 * first
    is_jump = bool(np.any(leaps & grows & stays))
    # Rounding also bends more and more under the glass, but leads nowhere.
    if not is_jump and not np.any(stays & ~grows):
        return None
    return Kink(middle, is_jump, tuple(int(k) for k in np.flatnonzero(stays)))


def _bends(places: np.ndarray, values: np.ndarray, span: float, scale: np.ndarray) -> np.ndarray:
    """Change of slope at each inner place, in units of the curve's range over the whole width."""
    step = (places[1] - places[0]) / span
    bends = np.abs(values[2:] - 2 * values[1:-1] + values[:-2]) / (step * scale)
    return np.nan_to_num(bends, nan=0.0)


def _range(column: np.ndarray) -> float:
    known = column[np.isfinite(column)]
    spread = float(np.ptp(known)) if known.size else 0.0
    # A curve that hardly moves has no bends worth a mark.
    return spread if spread > 1e-6 * (1 + np.abs(known).max(initial=0)) else np.inf
