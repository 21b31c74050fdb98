"""Slices: limits hold, and how long the clock says an iteration takes changes no answer."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace

import numpy as np
import pytest

from blomodel.basics.deadline import Deadline
from blomodel.methods.run.run import Run, StopRun
from blomodel.methods.run.slices import LONG, run_in_slices

DECAY = 0.9  # of the residual, in each iteration


class Loop:
    """Iterations that only count themselves; ``pause`` is how long each of them takes."""

    def __init__(self, pause: float = 0.0) -> None:
        self.pause, self.done = pause, 0
        self.calls: list[int] = []

    def __call__(self, n: int) -> float:
        time.sleep(n * self.pause)
        self.calls.append(n)
        self.done += n
        return DECAY**self.done


def a_run(**limits: float) -> Run:
    """A run whose model nobody asks."""
    nobody = SimpleNamespace(x=SimpleNamespace(size=1))
    return Run(model=nobody, p=np.zeros(0), start=None, tolerance=1e-6, seed=0, **limits)


def iterate(run: Run, loop: Loop, max_iterations: int = 10_000, tolerance: float = 1e-3) -> float:
    return run_in_slices(
        run, loop, max_iterations=max_iterations, tolerance=tolerance, report=lambda: {"done": loop.done}
    )


def test_a_slow_machine_gives_the_same_answer() -> None:
    """Fifty iterations at once would take a second, so that the slow loop is cut into more slices."""
    fast, slow = Loop(), Loop(pause=0.02)
    residuals = [iterate(a_run(), loop) for loop in (fast, slow)]
    assert residuals[0] == residuals[1] <= 1e-3
    assert fast.done == slow.done
    assert len(slow.calls) > len(fast.calls)


def test_slices_of_a_slow_loop_are_short() -> None:
    slow = Loop(pause=0.02)
    iterate(a_run(), slow)
    # The clock of a busy machine may only make them shorter.
    assert max(slow.calls) * slow.pause <= LONG


def test_stops_soon_after_the_residual_is_small() -> None:
    loop = Loop()
    assert iterate(a_run(), loop) <= 1e-3
    needed = math.ceil(math.log(1e-3) / math.log(DECAY))
    assert needed <= loop.done <= 2 * needed


@pytest.mark.parametrize("limit", [1, 2, 17, 100])
def test_iterations_of_the_loop_are_limited(limit: int) -> None:
    run, loop = a_run(), Loop()
    assert iterate(run, loop, max_iterations=limit, tolerance=0.0) == DECAY**limit
    assert loop.done == run.iterations == limit


def test_the_limit_of_the_run_counts_too() -> None:
    run, loop = a_run(max_iterations=23), Loop()
    with pytest.raises(StopRun, match="iteration limit"):
        iterate(run, loop, tolerance=0.0)
    assert loop.done == 23


def test_the_time_limit_ends_a_loop_that_would_go_on() -> None:
    run, loop = a_run(deadline=Deadline.after(0.5)), Loop(pause=0.01)
    with pytest.raises(StopRun, match="time limit"):
        iterate(run, loop, tolerance=0.0)
    assert 0.5 <= run.elapsed < 0.5 + 3 * LONG


def test_every_slice_is_in_the_history() -> None:
    run, loop = a_run(), Loop()
    iterate(run, loop)
    history = run.record()
    np.testing.assert_array_equal(history["iteration"], np.cumsum(loop.calls))
    np.testing.assert_array_equal(history["done"], history["iteration"])
    np.testing.assert_array_equal(history["residual"], DECAY ** history["iteration"])


def test_nan_ends_the_loop_at_once() -> None:
    run = a_run()
    calls: list[int] = []

    def diverges(n: int) -> float:
        calls.append(n)
        return math.nan if len(calls) == 3 else 1.0

    assert math.isnan(
        run_in_slices(run, diverges, max_iterations=1000, tolerance=1e-3, report=lambda: {})
    )
    assert len(calls) == 3


def test_iterations_that_a_loop_does_not_do_are_not_counted() -> None:
    """A loop that ends at its thirtieth iteration, however many it is asked for."""

    class Early(Loop):
        def __call__(self, n: int) -> float:
            super().__call__(min(n, 30 - self.done))
            return 0.0 if self.done == 30 else 1.0

    run, loop = a_run(), Early()
    run_in_slices(run, loop, max_iterations=1000, tolerance=1e-3, report=dict, n_done=lambda: loop.done)
    assert run.iterations == run.history["iteration"][-1] == 30


def test_iterations_count_where_the_end_comes_before_their_row() -> None:
    """An alarm may ring while the figures of a slice are made: the point has moved by then."""
    run, loop = a_run(), Loop()

    def report() -> dict[str, float]:
        if loop.done >= 20:
            raise StopRun("time limit")
        return {}

    with pytest.raises(StopRun):
        run_in_slices(run, loop, max_iterations=1000, tolerance=0.0, report=report)
    assert run.iterations == loop.done >= 20
