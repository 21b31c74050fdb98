"""Run a compiled loop in slices of about a tenth of a second.

Between slices Ctrl-C, limits, progress and history have their turn, at no cost that can be measured.
Whether the loop has converged is asked only after numbers of iterations that do not depend on the
clock, so that a busy machine gives the same answer as an idle one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

from blomodel.methods.run.run import Run
from blomodel.methods.run.watched_gap import watched_gap

SLICE = 0.1  # seconds
LONG = 3 * SLICE  # a stretch that would take longer is done in several slices
GROWTH = 1.5  # of the stretches between two tests


def run_in_slices(
    run: Run,
    loop: Callable[[int], float],
    *,
    max_iterations: int,
    tolerance: float,
    report: Callable[[], dict[str, float]],
    first_slice: int = 1,
    begin_stretch: Callable[[], None] | None = None,
    is_settled: Callable[[], bool] | None = None,
    n_done: Callable[[], int] | None = None,
) -> float:
    """Call ``loop(n)`` until its residual is small or the iterations are used up.

    Parameters
    ----------
    loop : callable
        Does n iterations on the state it holds and returns the last residual (a stationarity measure).
    max_iterations : int
        Of this loop; the run's own limit counts too.
    tolerance : float
        Residual at which to stop; 0 to do all iterations.
    report : callable
        Figures for the history, asked once for each slice.
    first_slice : int
        Iterations before the first test.
    begin_stretch : callable, optional
        Called where the iterations up to the next test begin.
    is_settled : callable, optional
        Another reason to stop, asked at each test.
    n_done : callable, optional
        Iterations done so far, for a loop that may end before it has done all that it was asked for.

    Returns
    -------
    float
        The last residual; infinite or NaN when the iteration has diverged.
    """
    limit = max_iterations if run.max_iterations is None else min(max_iterations, run.max_iterations)
    residual, pace = float("inf"), 0.0  # pace: seconds for an iteration
    for stretch in _stretches(max(1, first_slice), limit):
        if begin_stretch is not None:
            begin_stretch()
        while stretch > 0:
            # Iterations may become slower: near a time limit the slices are short.
            room = max(run.remaining, 0.0) / 4
            is_long = stretch * pace > min(LONG, room)
            length = min(SLICE, room)
            count = min(stretch, max(1, int(length / pace))) if is_long else stretch
            if run.history_every is not None:  # up to the next row
                count = min(count, run.history_every - run.iterations % run.history_every)
            if run.stop_rule is not None:  # which compares every iteration with the next
                count = 1
            began = time.perf_counter()
            before = 0 if n_done is None else n_done()
            residual = loop(count)
            pace = (time.perf_counter() - began) / count
            stretch -= count
            done = count if n_done is None else n_done() - before
            gap = watched_gap(run, done) if stretch == 0 else {}
            run.step(count=done, x=None, residual=residual, **(gap | report()))
            if math.isnan(residual):
                return residual
        if tolerance > 0 and residual <= tolerance:
            break
        if is_settled is not None and is_settled():
            break
    return residual


def _stretches(first: int, total: int) -> Iterator[int]:
    """Numbers of iterations that grow from ``first`` and sum up to ``total``."""
    length = first
    while total > 0:
        stretch = min(length, total)
        total -= stretch
        yield stretch
        length = math.ceil(GROWTH * length)
