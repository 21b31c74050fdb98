"""Continuation on the reduced value-function penalty: F_gamma for growing gamma."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.errors import NonconvexLowerError
from blomodel.methods.requirements.needs import convex_penalised_level
from blomodel.methods.run.capabilities import ALL_BUT_NONCONVEX, Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import Start, find_starts, has_only_bounds
from blomodel.methods.search.descent import minimise_in_box, minimise_in_set
from blomodel.methods.search.pieces import has_one_minimiser
from blomodel.reformulations.forms.reduced_penalty import PenaltyEvaluation, ReducedPenalty

FAR = 1e5  # steps beyond this, relative to the start, count as running away


@method
@dataclass(frozen=True, kw_only=True)
class ReducedPenaltyMethod:
    """Follow the minimisers of F_gamma from a small penalty weight to a large one.

    A small gamma lets y please the upper level, so the first problems are smooth and have few
    local minima; each minimiser starts the next. The step in x is quasi-Newton: L-BFGS-B when x
    lives in a box, otherwise sequential quadratic programming over both levels' rows.
    """

    name: ClassVar[str] = "reduced-penalty"
    summary: ClassVar[str] = "continuation on F_gamma(x), quasi-Newton steps in x"
    assumes: ClassVar[str] = "lower level convex in y; upper objective convex in y"
    claims: ClassVar[str] = "stationary points of F_gamma; error of order 1/gamma"
    reference: ClassVar[str] = (
        "Jiang, Xiao, Chen and Chen (2025), the reduced penalty of eqs 18-21 and 54-56"
    )
    costs: ClassVar[str] = (
        "two lower solves for each evaluation of F_gamma, a few evaluations for each step"
    )
    capabilities: ClassVar[frozenset[Capability]] = ALL_BUT_NONCONVEX
    assumptions: ClassVar[frozenset[Assumption]] = frozenset()
    needs: ClassVar[tuple[Need, ...]] = (convex_penalised_level(lambda method: method.penalty_last),)

    penalty_first: float = setting(0.1, "smallest penalty weight", aliases=("gamma_first",), above=0.0)
    penalty_last: float = setting(1e4, "largest penalty weight", aliases=("gamma_last",), above=0.0)
    penalty_growth: float = setting(
        10.0, "growth of the penalty weight", aliases=("gamma_factor",), above=1.0
    )
    n_starts: int = setting(1, "number of start points", minimum=1)
    path_tolerance: float = setting(
        1e-7, "relative slope at which the last penalty weight stops", minimum=0.0, own=True
    )
    max_steps: int = setting(
        100, "quasi-Newton steps for each penalty weight", aliases=("inner_iterations",), minimum=1
    )

    def run(self, run: Run) -> None:
        """Follow the path from each start."""
        for start in find_starts(run, self.n_starts):
            self.follow(run, start)

    def follow(
        self,
        run: Run,
        start: Start,
        at_each_gamma: Callable[[PenaltyEvaluation], object] | None = None,
    ) -> PenaltyEvaluation | None:
        """The end of the path from one start, or None where F_gamma cannot be evaluated."""
        penalty = ReducedPenalty(run.model, run.p)
        x, last = start[0], None
        gamma = self.penalty_first
        while gamma <= self.penalty_last * (1 + 1e-9):
            evaluation = self._minimise(run, penalty, x, gamma)
            if evaluation is None or not evaluation.is_finite:
                if last is not None:
                    break
                # f may be nonconvex in y: a larger gamma can make the sum convex again.
                gamma *= self.penalty_growth
                continue
            moved = np.abs(evaluation.x - x).max(initial=0)
            if moved > FAR * (1 + np.abs(start[0]).max(initial=0)):
                # F_gamma falls without limit while gamma is too small to hold y back.
                gamma *= self.penalty_growth
                continue
            x, last = evaluation.x, evaluation
            run.step(x=x, value=evaluation.value, gap=evaluation.gap, gamma=gamma)
            if at_each_gamma is not None:
                at_each_gamma(evaluation)
            # x may stand still only because gamma is too small to tell the answers at different x apart.
            is_answer = evaluation.gap <= run.tolerance
            if gamma > 1 and is_answer and moved <= 1e-9 * (1 + np.abs(x).max(initial=0)):
                break
            gamma *= self.penalty_growth
        run.evaluations += penalty.evaluations
        if last is not None:
            run.propose(last.x, last.lower_y, f"reduced penalty, gamma = {last.gamma:g}")
            # Where there is one lower answer, another y only uses up what the tolerance leaves it.
            if run.model.coupling_constraints or not has_one_minimiser(run, last.x):
                run.propose(last.x, last.y, f"reduced penalty, gamma = {last.gamma:g}")
        return last

    def _minimise(
        self, run: Run, penalty: ReducedPenalty, x: np.ndarray, gamma: float
    ) -> PenaltyEvaluation | None:
        def evaluate(point: np.ndarray) -> PenaltyEvaluation:
            run.check_limits()
            found = penalty(point, gamma)
            if found.is_finite:  # its lower answer is a point of the problem, whatever gamma is
                run.offer(found.x, found.lower_y, f"reduced penalty, gamma = {gamma:g}")
            return found

        try:
            first = evaluate(x)
        except NonconvexLowerError:
            return None
        run.tried.append((first.x, first.lower_status))
        if not first.is_finite:
            return None
        # Only the end of the path must be accurate, and there only if nothing polishes it.
        is_last = gamma * self.penalty_growth > self.penalty_last * (1 + 1e-9)
        accuracy = self.path_tolerance if is_last else max(1e-4, self.path_tolerance)
        steepness = 1 + np.abs(first.gradient).max(initial=0)
        limits = {"tolerance": accuracy * steepness, "max_iterations": self.max_steps}
        if has_only_bounds(run):
            found = minimise_in_box(evaluate, x, run.model.bounds(run.p), **limits)
            # A large step of the line search may have met x without a lower answer.
            return found if found.value < first.value else first
        return minimise_in_set(evaluate, first, run, **limits)
