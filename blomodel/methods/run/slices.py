"""Run a compiled loop in slices of about a tenth of a second.

Between slices Ctrl-C, limits, progress and history have their turn, at no cost that can be measured.
Whether the loop has converged is asked only after numbers of iterations that do not depend on the
clock, so that a busy machine gives the same answer as an idle one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from blomodel.basics.alarm import enter_shelter, leave_shelter
from blomodel.compiler.team import shared
from blomodel.methods.run.journal import Call, Journal, Memory
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
    journal = Journal() if run.journal is None else run.journal
    memory = Memory(loop, report, begin_stretch, is_settled, n_done)
    call = journal.begin(run, memory, max(1, first_slice), max_iterations)
    try:
        if not call.is_finished:
            _go_on(run, call, loop, tolerance, report, begin_stretch, is_settled, n_done)
            call.is_finished = True
    finally:
        if run.journal is not None:
            journal.end(memory)
    return call.residual


def _go_on(
    run: Run,
    call: Call,
    loop: Callable[[int], float],
    tolerance: float,
    report: Callable[[], dict[str, float]],
    begin_stretch: Callable[[], None] | None,
    is_settled: Callable[[], bool] | None,
    n_done: Callable[[], int] | None,
) -> None:
    """Do the slices that are left of a call."""
    pace = 0.0  # seconds for an iteration
    while not math.isnan(call.residual):
        if not call.awaits_test and call.left == 0:
            if call.total == 0:
                break
            call.left = min(call.length, call.total)
            call.total -= call.left
            call.length = math.ceil(GROWTH * call.length)
            if begin_stretch is not None:
                begin_stretch()
        while call.left > 0 and not math.isnan(call.residual):
            count = _slice(run, call.left, pace)
            began = time.perf_counter()
            before = 0 if n_done is None else n_done()
            # Nothing comes between the iterations and their count: a run may be resumed from here.
            enter_shelter()
            try:
                call.residual = shared(loop, count)
                call.left -= count
                done = count if n_done is None else n_done() - before
                call.done += done
            finally:
                leave_shelter()
            pace = (time.perf_counter() - began) / count
            call.awaits_test = call.left == 0
            counted = run.iterations + done
            try:
                gap = {}
                if call.awaits_test:
                    gap = watched_gap(run, done)
                    call.next_gap = run.next_gap
                run.step(count=done, x=None, residual=call.residual, **(gap | report()))
            except BaseException:  # which may come before they are counted
                run.iterations = counted
                raise
        if math.isnan(call.residual):
            break
        call.awaits_test = False
        if tolerance > 0 and call.residual <= tolerance:
            break
        if is_settled is not None and is_settled():
            break


def _slice(run: Run, stretch: int, pace: float) -> int:
    """Iterations of the next slice."""
    # Iterations may become slower: near a time limit the slices are short.
    room = max(run.remaining, 0.0) / 4
    is_long = stretch * pace > min(LONG, room)
    length = min(SLICE, room)
    count = min(stretch, max(1, int(length / pace))) if is_long else stretch
    if run.history_every is not None:  # up to the next row
        count = min(count, run.history_every - run.iterations % run.history_every)
    if run.max_iterations is not None:
        count = min(count, max(1, run.max_iterations - run.iterations))
    # A stop rule compares every iteration with the next.
    return 1 if run.stop_rule is not None else count
