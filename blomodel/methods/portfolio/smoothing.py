"""Descent on the smoothed lower level, each end improved on the pieces of the KKT conditions."""

from __future__ import annotations

import numpy as np

from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import has_only_bounds
from blomodel.methods.search.descent import minimise_in_box, minimise_in_set
from blomodel.methods.search.pieces import ExactPieces
from blomodel.model.model import Model
from blomodel.reformulations.forms.smoothed_lower import SmoothedEvaluation, SmoothedLower

# Smoothing, relative to the typical product of slack and multiplier. Large weights lead every start
# to the same place, so that they serve only once; the last two are near enough to polish from.
ROUGH_WEIGHTS = (30.0, 3.0)
FINE_WEIGHTS = (0.3, 0.03)
SLOPE = 1e-4  # relative slope at which descent stops: the pieces make the end exact
MAX_STEPS = 60


class SmoothedSearch:
    """Searches a problem with exact pieces whose upper rows hold no y."""

    run: Run
    exact: ExactPieces
    lower: SmoothedLower
    has_box: bool

    def __init__(self, run: Run, exact: ExactPieces) -> None:
        self.run, self.exact = run, exact
        self.lower = SmoothedLower(run.model, run.p)
        self.has_box = has_only_bounds(run)

    @staticmethod
    def why_not(model: Model) -> str | None:
        """What keeps descent in x alone from this problem; None where nothing does."""
        if not model.conditions.multipliers_are_unknowns:
            return "the upper level uses multipliers of the lower one"
        if model.coupling_constraints:
            return "an upper constraint contains y, which descent in x alone would not keep"
        if len(model.lower_in) == 0:
            return "the lower level has no inequalities whose kinks could be smoothed"
        return None

    def search(self, x: np.ndarray, *, is_first: bool) -> float:
        """Follow falling weights from x; the best upper objective reached, infinite without a path."""
        run, model = self.run, self.run.model
        typical = self._typical_product(x)
        if typical is None:
            return np.inf
        reached = np.inf
        for weight in (*ROUGH_WEIGHTS, *FINE_WEIGHTS) if is_first else FINE_WEIGHTS:
            end = self._descend(x, weight * typical)
            if end is None:
                break
            x = end.x
            answer = model.lower_program.solve(x, run.p)
            if not answer.status.has_point:
                break
            gap = float(model.g(x, end.y, run.p)[0]) - answer.value
            run.step(value=end.value, gap=gap, mu=weight * typical)
            if weight in FINE_WEIGHTS:
                # The smoothed answer and the exact one often lead to different pieces.
                exact_pair = answer.y, model.split_duals(answer.duals)
                for y, multipliers in ((end.y, end.multipliers), exact_pair):
                    reached = min(reached, self.exact.improve(run, x, y, multipliers))
        return reached

    def _typical_product(self, x: np.ndarray) -> float | None:
        """Size of slack times multiplier at the lower answer at x, with the zeros evened out."""
        model, p = self.run.model, self.run.p
        answer = model.lower_program.solve(x, p)
        self.run.tried.append((x, answer.status))
        if not answer.status.has_point:
            return None
        slack = float(np.median(np.abs(model.lower_in.values(x, answer.y, p))))
        pressure = float(np.mean(model.split_duals(answer.duals)[: len(model.lower_in)]))
        steepness = 1 + np.abs(model.g_grad(x, answer.y, p)[model.x.size :]).max(initial=0)
        return max(slack, 1e-2 * (1 + np.abs(answer.y).max(initial=0))) * max(pressure, 1e-2 * steepness)

    def _descend(self, x: np.ndarray, mu: float) -> SmoothedEvaluation | None:
        run = self.run
        before = self.lower.evaluations

        def evaluate(point: np.ndarray) -> SmoothedEvaluation:
            run.check_limits()
            return self.lower(point, mu)

        first = evaluate(x)
        end: SmoothedEvaluation | None = None
        if first.is_finite:
            steepness = 1 + np.abs(first.gradient).max(initial=0)
            limits = {"tolerance": SLOPE * steepness, "max_iterations": MAX_STEPS}
            if self.has_box:
                end = minimise_in_box(evaluate, x, run.model.bounds(run.p), **limits)
            else:
                end = minimise_in_set(evaluate, first, run, **limits)
            end = end if end.value < first.value else first
        run.evaluations += self.lower.evaluations - before
        return end
