"""Stages of growing penalty weight, and how a first-order run ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from blomodel.methods.first_order.constants import Constants
from blomodel.methods.first_order.first_order import FirstOrder
from blomodel.methods.run.run import Run
from blomodel.methods.run.slices import run_in_slices
from blomodel.methods.search.pieces import optimistic_candidate

NEARLY = 1e-3  # share of the first distance to the least value from which it may be reached
NO_ANSWER = 1e15  # entries beyond this belong to no answer
FAR = 1e6  # an iterate this much larger than the start, relative, has run away


def penalty_stages(constants: Constants, first: float, last: float, factor: float = 10.0) -> list[float]:
    """Growing weights for g against f, from a small one that lets f choose the basin.

    ``first`` and ``last`` count in units of the curvature of f over that of g.
    """
    above, below = max(constants.f_yy, constants.f_xx), max(constants.g_yy, constants.g_xy)
    unit = above / below if above > 0 and below > 0 else 1.0
    unit = float(np.clip(unit, 1e-3, 1e3)) if np.isfinite(unit) else 1.0
    count = max(1, round(np.log(last / first) / np.log(factor)))
    return [unit * first * factor**k for k in range(count + 1)]


def run_stages(
    run: Run,
    loop: Callable[[int], float],
    *,
    stages: Sequence[float],
    begin: Callable[[float, bool], float],
    state: Sequence[np.ndarray],
    max_iterations: int,
    report: Callable[[], dict[str, float]],
) -> None:
    """Run a loop for one penalty weight after another, each from where the last one ended.

    It ends early at a bilevel feasible point at which f has its least value, as no weight leads on.

    Parameters
    ----------
    stages : sequence of float
        The weights.
    begin : callable
        Sets the loop to a weight, told whether it is the last; returns the residual to stop at.
    state : sequence of arrays
        What the loop moves; a stage that runs away is undone and left out.
    max_iterations : int
        Of each stage.
    """
    for number, weight in enumerate(stages):
        before = [array.copy() for array in state]
        reach = FAR * (1 + max((np.abs(array).max(initial=0) for array in before), default=0.0))
        tolerance = begin(weight, number == len(stages) - 1)

        def guarded(n: int, reach: float = reach) -> float:
            residual = loop(n)
            inside = all(np.abs(array).max(initial=0) <= reach for array in state)
            return residual if inside else float("nan")

        residual = run_in_slices(
            run, guarded, max_iterations=max_iterations, tolerance=tolerance, report=report
        )
        if not np.isfinite(residual):
            run.note(f"the iteration ran away with penalty weight {weight:g}; that weight was left out")
            for array, old in zip(state, before, strict=True):
                array[:] = old
        elif number < len(stages) - 1 and _is_settled(run):
            break


def _is_settled(run: Run) -> bool:
    """Whether f has its least value at one of the lower answers at the x that is watched.

    Where the lower level has many answers, a first-order method comes near the one that f likes best
    long before it is as accurate as the choice among the minimisers at the same x.
    """
    values = run.history.get("value")
    if run.watched is None or not values or not np.isfinite(run.least_value):
        return False
    x, y = run.watched
    value, first = float(run.model.f(x, y, run.p)[0]), values[0]
    if not value - run.least_value <= NEARLY * (first - run.least_value):
        return False
    if not run.model.is_convex_below:
        return False
    chosen = optimistic_candidate(run, x)
    # Near its least value f is flat: the square of the tolerance there is the tolerance in the point.
    small = run.tolerance**2 * (1 + abs(run.least_value))
    if chosen is None or not run.is_acceptable(chosen) or chosen.value > run.least_value + small:
        return False
    run.keep(chosen)
    return True


def propose_last(run: Run, x: np.ndarray, y: np.ndarray, source: str) -> None:
    """Leave the last point of a method, and its x with a lower minimiser."""
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        run.note(f"{source}: the iteration diverged; take smaller steps")
        return
    run.propose(x, y, source)
    answer, _ = run.solve_lower(x, y)
    if answer.status.has_point:
        run.propose(x, answer.y, f"{source}, lower minimiser at its x")


# Where the steps are chosen here, y is found until its slope is this part of the slope in x.
ACCURACY = 0.01
AUTOMATIC = 0.0  # in place of a step: the loop finds one


def given(step: float | None) -> float:
    """A step as the loops take it."""
    return AUTOMATIC if step is None else float(step)


def unrolled_steps(problem: FirstOrder, asked: int | None) -> int:
    """Inner steps after which the first point is forgotten, as far as the curvatures tell."""
    if asked is not None:
        return asked
    c = problem.constants
    if not c.is_strongly_convex:
        return 100
    return int(np.clip(np.ceil(10 * c.g_yy / c.strong_convexity), 20, 2000))


def probe(work: np.ndarray, row: int, seed: int) -> None:
    """Put the first vector of the power steps into its row."""
    work[row] = np.random.default_rng(seed).standard_normal(work.shape[1])


def finish(problem: FirstOrder, name: str, x: np.ndarray, y: np.ndarray) -> None:
    """Propose the last point of a loop, and the lower minimiser at its x; count its gradients."""
    run = problem.run
    run.evaluations = problem.oracle.n_evaluations
    if not max(np.abs(x).max(initial=0), np.abs(y).max(initial=0)) < NO_ANSWER:  # also true for NaN
        run.note(f"{name} has diverged; take smaller steps, or leave them out")
        return
    run.propose(x, y, name)
    propose_lower_answer(run, x, y, f"{name}, lower minimiser at its x")


def propose_lower_answer(run: Run, x: np.ndarray, near: np.ndarray, source: str) -> None:
    """The lower minimiser at x, searched from a point nearby where there may be several."""
    answer, _ = run.solve_lower(x, near)
    if answer.status.has_point:
        run.propose(x, answer.y, source)
