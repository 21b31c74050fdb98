"""Run a compiled loop in slices of about a tenth of a second.

Between slices Ctrl-C, limits, progress and history have their turn, at no cost that can be measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from blomodel.methods.run import Run

SLICE = 0.1  # seconds


def run_in_slices(
    run: Run,
    loop: Callable[[int], float],
    *,
    max_iterations: int,
    tolerance: float,
    report: Callable[[], dict[str, float]],
    first_slice: int = 1,
) -> float:
    """Call ``loop(n)`` until its residual is small or the iterations are used up.

    Parameters
    ----------
    loop : callable
        Does n iterations on the state it holds and returns the last residual (a stationarity measure).
    max_iterations : int
        Of this loop; the run's own limit counts too.
    tolerance : float
        Residual at which to stop.
    report : callable
        Figures for the history, asked once for each slice.

    Returns
    -------
    float
        The last residual; infinite or NaN when the iteration has diverged.
    """
    limit = max_iterations if run.max_iterations is None else min(max_iterations, run.max_iterations)
    done, count, residual = 0, max(1, first_slice), float("inf")
    while done < limit:
        count = min(count, limit - done)
        began = time.perf_counter()
        residual = loop(count)
        spent = time.perf_counter() - began
        done += count
        run.step(count=count, x=None, residual=residual, **report())
        if not residual > tolerance:  # also true for NaN
            break
        growth = 10.0 if spent <= SLICE / 10 else SLICE / spent
        count = max(1, int(count * growth))
    return residual
