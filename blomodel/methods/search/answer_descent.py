"""Descent on phi(x) = f(x, y*(x)): every better lower answer on the way is offered at once."""

from __future__ import annotations

import numpy as np

from blomodel.basics import limits
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import has_only_bounds
from blomodel.methods.search.descent import minimise_in_box, minimise_in_set
from blomodel.methods.search.kinked_descent import minimise_across_kinks
from blomodel.methods.search.newton_descent import minimise_by_newton
from blomodel.model.model import Model
from blomodel.reformulations.forms.answer_curvature import AnswerCurvature
from blomodel.reformulations.forms.answer_value import AnswerEvaluation, AnswerValue

SLOPE = 1e-8  # relative slope, within the bounds, at which descent stops
FLAT = 1e-7  # slopes below this, relative to that of the start, are those of a plateau
PLATEAU_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)  # of the way from a start to a plateau
LEAST_GAIN = 1e-12  # of a step, relative to phi
BEFORE_NEWTON = 1e-7  # the same where Newton steps follow
NEWTON_STEPS = 30
KINK_EVALUATIONS, KINK_EVALUATIONS_EACH = 30, 15  # at a kink, and further ones for each variable
STALLED = 1e-4  # relative slope above which an end is a kink, not a smooth minimum
SOURCE = "descent on phi"


class AnswerDescent:
    """Quasi-Newton descent on phi from one x after another.

    Attributes
    ----------
    is_smooth : bool
        Whether phi has had a gradient wherever it was asked for, and no kink.
    has_ended : bool
        Whether the last descent came to an end of its own, before its steps were used up.
    """

    run: Run
    phi: AnswerValue
    has_box: bool
    bounds: tuple[np.ndarray, np.ndarray]
    is_smooth: bool
    has_ended: bool

    def __init__(self, run: Run) -> None:
        self.run, self.phi = run, AnswerValue(run.model, run.p)
        self.has_box = has_only_bounds(run)
        self.bounds = run.model.bounds(run.p)
        self.curvature: AnswerCurvature | None = None
        if AnswerCurvature.applies(run.model):
            self.curvature = AnswerCurvature(run.model, run.p)
        self._is_wide = not limits.SIX_STARTS.allows(run.model.x.size)
        self.is_smooth = self.has_ended = True
        self._is_smooth_here = True  # the same for the descent at work
        self._best = np.inf  # of the descent at work
        self.trail: list[float] = []  # its values, one after another

    @staticmethod
    def why_not(model: Model) -> str | None:
        """What keeps descent in x alone from this problem; None where nothing does."""
        if model.x.size == 0:
            return "there is no upper variable"
        if not model.conditions.multipliers_are_unknowns:
            return "the upper level uses multipliers of the lower one, which need not be unique"
        if model.coupling_constraints:
            return "an upper constraint contains y, which descent in x alone would not keep"
        return AnswerValue.why_not(model)

    def evaluate(self, x: np.ndarray) -> AnswerEvaluation:
        """Phi at x; what is better than all before is kept."""
        run = self.run
        run.check_limits()
        run.evaluations += 1
        found = self.phi(x)
        if not found.is_finite:
            run.tried.append((found.x, found.lower_status))
            return found
        self._is_smooth_here &= found.has_gradient and found.is_smooth
        self.is_smooth &= self._is_smooth_here
        kept = run.offer(found.x, found.y, SOURCE, found.answer, found.value)
        if kept is not None and found.has_gradient:
            _unique_answers(run).add(found.x.tobytes())
        self.trail.append(found.value)
        if found.value < self._best:
            self._best = found.value
            run.step(x=found.x, value=found.value)
        return found

    def descend(
        self, x: np.ndarray, max_steps: int, *, crosses_kinks: bool = True, uses_newton: bool = True
    ) -> AnswerEvaluation | None:
        """The best point of the descent from x; None where the lower level has no answer there.

        Parameters
        ----------
        max_steps : int
            Quasi-Newton steps; some evaluations follow where the end is a kink.
        crosses_kinks : bool
            Whether a descent that ended at a kink goes on there.
        uses_newton : bool
            Whether a smooth one ends with Newton steps.
        """
        self._best, self.has_ended, self._is_smooth_here, self.trail = np.inf, True, True, []
        first = self.evaluate(np.clip(x, *self.bounds) if self.has_box else x)
        if not first.is_finite:
            return None
        if not first.has_gradient:
            return first
        tolerance = SLOPE * (1 + np.abs(first.gradient).max(initial=0))
        if not self.has_box:
            end = minimise_in_set(
                self.evaluate, first, self.run, tolerance=tolerance, max_iterations=max_steps
            )
            self.has_ended = self._is_stationary(end, first)
            return end if end.value < first.value else first
        again = [first]  # the descent asks for the start once more

        def evaluate(point: np.ndarray) -> AnswerEvaluation:
            return again.pop() if again else self.evaluate(point)

        end = minimise_in_box(
            evaluate,
            first.x,
            self.bounds,
            tolerance=tolerance,
            max_iterations=max_steps,
            least_gain=BEFORE_NEWTON if self._is_wide and self.curvature is not None else LEAST_GAIN,
        )
        if self._is_plateau(first, end):
            end = self._before_plateau(first, end, tolerance, max_steps)
        # In few dimensions a descent that has ended is as good as Newton's, whose matrices take a while.
        is_due = uses_newton and (self._is_wide or not self._is_stationary(end, first))
        if is_due and self._is_smooth_here and self.curvature is not None:
            newton = minimise_by_newton(
                self.evaluate,
                self.curvature,
                end,
                self.bounds,
                tolerance=tolerance,
                max_iterations=NEWTON_STEPS,
            )
            end = newton.point
        self.has_ended = self._is_stationary(end, first)
        if self.has_ended or not crosses_kinks or self._is_smooth_here:
            return end
        budget = min(max_steps, KINK_EVALUATIONS + KINK_EVALUATIONS_EACH * end.x.size)
        return minimise_across_kinks(
            self.evaluate, end, self.bounds, max_evaluations=budget, seed=self.run.seed
        )

    def _before_plateau(
        self, first: AnswerEvaluation, end: AnswerEvaluation, tolerance: float, max_steps: int
    ) -> AnswerEvaluation:
        """Where a long step has led onto a plateau: the best descent from points before it, or its end.

        A lower answer at which every row holds it fast does not move with x, and phi is flat there.
        """
        shares = PLATEAU_SHARES
        between = [self.evaluate(first.x + share * (end.x - first.x)) for share in shares]
        small = FLAT * _steepness(first)
        slopes = [point for point in between if point.is_finite and _steepness(point) > small]
        if not slopes:
            return end
        start = min(slopes, key=lambda point: point.value)
        other = minimise_in_box(
            self.evaluate, start.x, self.bounds, tolerance=tolerance, max_iterations=max_steps
        )
        return other if other.value < end.value else end

    def _is_plateau(self, first: AnswerEvaluation, end: AnswerEvaluation) -> bool:
        """Whether phi is flat at the end of a descent and on the last part of the way to it."""
        small = FLAT * _steepness(first)
        if not end.has_gradient or not _steepness(end) <= small < _steepness(first):
            return False
        before = self.evaluate(first.x + PLATEAU_SHARES[-1] * (end.x - first.x))
        return before.has_gradient and _steepness(before) <= small

    def _is_stationary(self, end: AnswerEvaluation, first: AnswerEvaluation) -> bool:
        return not end.has_gradient or self.slope_at(end) <= STALLED * (1e-3 + self.slope_at(first))

    def slope_at(self, point: AnswerEvaluation) -> float:
        """The largest slope that bounds do not hold back."""
        moved = np.clip(point.x - point.gradient, *self.bounds) - point.x
        return float(np.abs(moved).max(initial=0))


def _steepness(point: AnswerEvaluation) -> float:
    return float(np.abs(point.gradient).max(initial=0))


def _unique_answers(run: Run) -> set[bytes]:
    unique: set[bytes] = run.once("x with one lower answer", set)
    return unique


def has_one_answer(run: Run, x: np.ndarray) -> bool:
    """Whether a descent has found that the lower answer at x leaves the upper level no choice."""
    return x.tobytes() in _unique_answers(run)
