"""Shared by bome and perturbed-gd: stages of ever smaller steps, and their limit at step 0.

Both methods end in a zigzag across the set of lower answers whose width, and with it the error, is of
the order of the step. Mostly the errors are smooth in the step, and the ends of stages tell the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from blomodel.kernels.fields import LAST_WEIGHT, MEAN_DIRECTION, MEAN_MEASURE
from blomodel.methods.first_order.first_order import FirstOrder
from blomodel.methods.first_order.frame import first_order_run, propose_lower_answer
from blomodel.methods.run.slices import run_in_slices

STAGES = 12  # steps tried, where none is given and iterations are left
FACTOR = 0.5  # from one to the next
ENOUGH = 4  # settled stages, after which one that has not settled is the last
FIRST_SHARE = 16  # the first stage has this part of the iterations, the next ones as their steps need
FIRST_SLICE = 1000  # iterations over which a mean direction says something


def run_barrier(
    setup: FirstOrder,
    name: str,
    advance: Callable[[int, float], float],
    figures: np.ndarray,
    *,
    measure: str,
    step: float,
    is_given: bool,
    max_iterations: int,
) -> None:
    """Run a loop with one step after another, or with the step that was given.

    Parameters
    ----------
    advance : callable
        Does n iterations with a step.
    figures : array
        What the loop leaves, see kernels/fields.py; ``measure`` names what the barrier makes fall.
    """
    run, x, y = setup.run, setup.x, setup.y

    def report(step: float) -> dict[str, float]:
        return {
            "step": step,
            "value": run.model.f(x, y, run.p)[0],
            measure: figures[MEAN_MEASURE],
            "direction": figures[MEAN_DIRECTION],
            "lambda": figures[LAST_WEIGHT],
        }

    first_x, first_y, done = x.copy(), y.copy(), np.zeros(1)

    def begin_stretch() -> None:
        first_x[:], first_y[:], done[0] = x, y, 0

    def mean_direction(n: int, step: float) -> float:
        advance(n, step)
        done[0] += n
        moved = max(np.abs(x - first_x).max(initial=0), np.abs(y - first_y).max(initial=0))
        return float(moved / (done[0] * step))

    settled: list[float] = []  # the steps whose zigzag has come to rest, and where
    ends: list[np.ndarray] = []
    limits: list[np.ndarray] = []
    left, first = max_iterations, run.iterations
    try:
        with first_order_run(setup, name, x, y):
            for stage in range(1 if is_given else STAGES):
                each = step * FACTOR**stage
                share = max_iterations / (FIRST_SHARE * FACTOR**stage)
                size = run_in_slices(
                    run,
                    lambda n, step=each: mean_direction(n, step),  # type: ignore[misc]
                    max_iterations=left if is_given else int(min(np.ceil(left / 2), share)),
                    tolerance=run.tolerance,
                    report=lambda step=each: report(step),  # type: ignore[misc]
                    first_slice=FIRST_SLICE,
                    begin_stretch=begin_stretch,
                )
                left = max_iterations - (run.iterations - first)
                if left <= 0 or not np.isfinite(size):
                    break
                if size > run.tolerance:
                    if len(ends) >= ENOUGH:
                        break  # smaller steps need still more iterations
                    continue
                settled.append(each)
                ends.append(np.concatenate([x, y]))
                before = limits[-1:]
                limits = [
                    limit
                    for rational in (False, True)
                    for limit in extrapolate(settled, ends, rational=rational)
                ]
                change = np.abs(limits[-1] - before[0]).max() if before else np.inf
                if change <= run.tolerance * (1 + np.abs(x).max()):
                    break
    finally:
        for limit in limits:
            _propose_limit(setup, limit)


def _propose_limit(setup: FirstOrder, limit: np.ndarray) -> None:
    if np.all(np.isfinite(limit)):
        x, y = setup.place(limit[: setup.x.size], limit[setup.x.size :])
        setup.run.propose(x, y, "extrapolated to step 0")
        propose_lower_answer(setup.run, x, y, "extrapolated to step 0, lower minimiser")


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
