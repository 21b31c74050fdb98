"""The frame of every first-order run: its point is watched on the way and proposed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from blomodel.methods.run.run import Run
from blomodel.methods.run.slices import run_in_slices
from blomodel.methods.run.starts import nearest_allowed

NO_ANSWER = 1e15  # a point with an entry beyond this has diverged
FAR = 1e6  # relative to the start: an iterate beyond it with a larger f has run away


class SetUp(Protocol):
    """What is ready before a loop begins."""

    run: Run

    @property
    def n_evaluations(self) -> int:
        """Gradients that the loops have taken so far."""


@contextmanager
def first_order_run(setup: SetUp, source: str, x: np.ndarray, y: np.ndarray) -> Iterator[None]:
    """Watch the arrays that a loop moves; however it ends, count its gradients and propose its end."""
    run = setup.run
    run.watch(x, y)
    run.diverged_at = None
    reach = FAR * (1 + max(np.abs(x).max(initial=0), np.abs(y).max(initial=0)))
    value = float(run.model.f(x, y, run.p)[0])
    try:
        yield
    finally:
        run.evaluations += setup.n_evaluations
        if run.diverged_at is None and _has_run_away(run, x, y, reach, value):
            run.diverged_at = run.iterations
        propose_end(run, x, y, source)


def iterate_until_small(
    setup: SetUp,
    source: str,
    loop: Callable[[int], float],
    *,
    x: np.ndarray,
    y: np.ndarray,
    max_steps: int,
    report: Callable[[], dict[str, float]] = dict,
) -> None:
    """Run one loop within the frame until its residual is as small as the run's tolerance.

    Parameters
    ----------
    report : callable
        Figures for the history beside the value of f.
    """
    run = setup.run
    with first_order_run(setup, source, x, y):
        run_in_slices(
            run,
            loop,
            max_iterations=max_steps,
            tolerance=run.tolerance,
            report=lambda: {"value": run.model.f(x, y, run.p)[0]} | report(),
        )


def propose_end(run: Run, x: np.ndarray, y: np.ndarray, source: str) -> None:
    """Leave the last point of a method, and its x with a lower minimiser.

    Where the iteration has diverged, that is said: what it left is no answer, and an answer that the
    library finds elsewhere is not the method's. An x that has not diverged still gets its lower
    minimiser.
    """
    has_run_away = run.diverged_at is not None
    if has_run_away or not (_is_near(x) and _is_near(y)):
        run.diverged_at = run.iterations if run.diverged_at is None else run.diverged_at
        run.note(
            f"{source}: the iteration has diverged; take smaller steps, or leave them out. This was "
            f"seen after {run.diverged_at} iterations; solution.iterate is where it ended, with entries "
            "that are no numbers if it has such, and there is no answer of the method's own"
        )
        if has_run_away or not _is_near(x):
            return
        y = np.zeros(y.size)
    else:
        run.propose(x, y, source)
    propose_lower_answer(run, x, y, f"{source}, lower minimiser at its x")


def _has_run_away(run: Run, x: np.ndarray, y: np.ndarray, reach: float, value: float) -> bool:
    """Whether a point is far from its start and has a larger f than that.

    Where f falls on the way, the problem itself may be unbounded, or its answer far away.
    """
    size = max(np.abs(x).max(initial=0), np.abs(y).max(initial=0))
    return bool(size > reach) and not float(run.model.f(x, y, run.p)[0]) <= value


def _is_near(point: np.ndarray) -> bool:
    """Whether no entry is NaN or so large that it belongs to no answer."""
    return bool(np.abs(point).max(initial=0) < NO_ANSWER)


def propose_lower_answer(run: Run, x: np.ndarray, near: np.ndarray, source: str) -> None:
    """The lower minimiser at x, searched from a point nearby where there may be several.

    A method may end a little outside of where the lower level has answers: then at the nearest x.
    """
    answer, _ = run.solve_lower(x, near)
    if not answer.status.has_point:
        allowed = nearest_allowed(run, x)
        if allowed is None:
            return
        x, near = allowed
        answer, _ = run.solve_lower(x, near)
    if answer.status.has_point:
        run.propose(x, answer.y, source)
