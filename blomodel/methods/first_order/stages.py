"""Stages of growing penalty weight, and the settings of the methods that run in such stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from blomodel.kernels.fields import (
    GROWTH,
    INNER_STEPS,
    INNER_TOLERANCE,
    PENALTY,
    STEP,
    STEP_X,
    STEP_Y,
)
from blomodel.methods.first_order.arrays import given
from blomodel.methods.first_order.first_order import FirstOrder
from blomodel.methods.first_order.scheduled import PAPER, VARIANTS, Scheduled
from blomodel.methods.run.registry import setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule, changes, value_at
from blomodel.methods.run.slices import run_in_slices
from blomodel.methods.run.stopping import StopSettings
from blomodel.methods.search.pieces import optimistic_candidate

NEARLY = 1e-3  # share of the first distance to the least value from which it may be reached
FAR = 1e6  # an iterate this much larger than the start, relative, has run away
ROUGH = 1e-3  # slope at which a stage ends that is not the last
MANY_STEPS = 1000  # inner steps at most, where they go on until they are short
INNER_SHARE = 0.1  # of the slope at which a stage ends: what the inner steps may leave
WEIGHT_GROWTH = 10.0  # from one stage to the next
PAPER_WEIGHT = 10.0  # of the papers' examples, for their variant where no weight is given
LAST_WEIGHT = 1e4  # of the stages, in units of the curvature of f over that of g


def penalty_stages(setup: FirstOrder, asked: Any, first: float) -> list[float]:
    """The weight that is asked for, or growing ones from a small one that lets f choose the basin.

    ``first`` counts in units of the curvature of f over that of g, as LAST_WEIGHT does. Of a schedule
    only the first weight counts, as the others come with the iterations.
    """
    if asked is not None:
        return [float(value_at(asked, 0))]
    constants = setup.constants
    above, below = max(constants.f_yy, constants.f_xx), max(constants.g_yy, constants.g_xy)
    unit = above / below if above > 0 and below > 0 else 1.0
    unit = float(np.clip(unit, 1e-3, 1e3)) if np.isfinite(unit) else 1.0
    count = max(1, round(np.log(LAST_WEIGHT / first) / np.log(WEIGHT_GROWTH)))
    return [unit * first * WEIGHT_GROWTH**k for k in range(count + 1)]


@dataclass(frozen=True, kw_only=True)
class PenaltyMethod(StopSettings):
    """Settings of the methods that step on f + penalty * (g - v), and how their stages are run.

    With ``variant="paper"`` there is one weight and one step: those that are given, else a weight of 10
    and the step that the curvature at the start allows.
    """

    first_weight: ClassVar[float] = 0.1  # of the stages, in units as LAST_WEIGHT

    variant: str = setting(
        "default",
        "'paper': one weight (10 where none is given) and a constant step; 'default': weights in stages",
        choices=VARIANTS,
    )
    penalty: float | Schedule | None = setting(
        None, "penalty weight gamma; None: grows in stages", aliases=("gamma",), above=0.0
    )
    step_x: float | Schedule | None = setting(
        None, "step eta in x; None: adaptive", aliases=("eta", "step_size"), above=0.0
    )
    step_y: float | Schedule | None = setting(
        None,
        "step of the inner solvers; None: from the curvature of f / penalty + g",
        aliases=("inner_step_size",),
        above=0.0,
    )
    inner_steps: int | Schedule | None = setting(
        None, "inner steps in each iteration; None: until accurate", minimum=1
    )
    max_steps: int = setting(2000, "largest number of iterations for each penalty weight", minimum=1)

    def slope_to_stop_at(self, run: Run, is_last: bool) -> float:
        """What ends a stage; those before the last one need no more than a rough answer."""
        return run.tolerance if is_last else max(ROUGH, run.tolerance)

    def inner_accuracy(self, accuracy: float, weight: float) -> float:
        """Slope at which the inner steps end; an error of y enters the slope ``weight`` times."""
        return max(INNER_SHARE * accuracy / max(weight, 1.0), 1e-13)

    def run_stages(
        self,
        setup: FirstOrder,
        loop: Callable[[int], float],
        settings: np.ndarray,
        pace: np.ndarray,
        *,
        state: Sequence[np.ndarray],
        choose_steps: Callable[[float], None],
        schedules: Mapping[int, Any] | None = None,
    ) -> None:
        """Run a loop for the weight that is given, or for growing ones.

        Parameters
        ----------
        settings : array
            What the loop reads: the fields that all loops with a penalty weight have are set here.
        pace : array
            What the adaptive step remembers.
        state : sequence of arrays
            What the loop moves.
        choose_steps : callable
            Sets for a weight what else the loop reads; a given step_y is put into its place afterwards.
        schedules : dict, optional
            Further settings that may change with the iterations, by their places.
        """

        def begin(weight: float, is_last: bool) -> float:
            accuracy = self.slope_to_stop_at(setup.run, is_last)
            # The slope of another weight says nothing about curvature.
            pace[GROWTH:] = 0.0
            settings[STEP_X] = given(self.step_x)
            settings[PENALTY] = weight
            settings[INNER_STEPS] = value_at(self.inner_steps, 0) or MANY_STEPS
            settings[INNER_TOLERANCE] = (
                0.0 if self.inner_steps else self.inner_accuracy(accuracy, weight)
            )
            choose_steps(weight)
            if self.step_y is not None:
                settings[STEP_Y] = given(self.step_y)
            if self.is_printed and self.step_x is None:
                settings[STEP_X] = pace[STEP]
            # A small slope for one weight of a schedule says nothing about the weights to come.
            return 0.0 if changes(self.penalty) else accuracy

        fields = {
            STEP_X: self.step_x,
            STEP_Y: self.step_y,
            PENALTY: self.penalty,
            INNER_STEPS: self.inner_steps,
        }
        asked = PAPER_WEIGHT if self.is_printed and self.penalty is None else self.penalty
        run_stages(
            setup.run,
            Scheduled(loop, settings, fields | dict(schedules or {})),
            stages=penalty_stages(setup, asked, self.first_weight),
            begin=begin,
            state=state,
            max_iterations=self.max_steps,
            report=lambda: {"gamma": settings[PENALTY], "step": settings[STEP_X] or pace[STEP]},
        )

    @property
    def is_printed(self) -> bool:
        """Whether the paper's own variant is asked for."""
        return self.variant == PAPER


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
    Where several weights are tried, one with which the iteration runs away is undone and left out; a
    single one, and the last one where it ran away with all, leaves its point where it ended.

    Parameters
    ----------
    stages : sequence of float
        The weights.
    begin : callable
        Sets the loop to a weight, told whether it is the last; returns the residual to stop at.
    state : sequence of arrays
        What the loop moves.
    max_iterations : int
        Of each stage.
    """
    n_left_out = 0
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
        if not np.isfinite(residual) and n_left_out == len(stages) - 1:
            run.diverged_at = run.iterations
        elif not np.isfinite(residual):
            n_left_out += 1
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
