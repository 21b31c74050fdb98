"""IGJO: gradient-based joint optimisation of penalty weights, by implicit differentiation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.methods.first_order.first_order import first_point
from blomodel.methods.first_order.frame import propose_end
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.reformulations.forms.answer_value import AnswerEvaluation, AnswerValue

SHORTEST = 1e-14  # step, relative to the first, below which no descent is to be had
FLAT = 1e-7  # slope, relative to f, that is rounding of the lower answer
MOVES = 8  # tenfold moves of a start at which all norms are 0, towards the lower bounds


@method
@dataclass(frozen=True, kw_only=True)
class Igjo:
    r"""Gradient descent on :math:`\varphi(x) = f(x, y^*(x))` with a backtracking line search.

    The lower objective is a smooth loss plus penalties with kinks, such as
    :math:`x_j\|y^{(j)}\|_2`. Around a lower answer those entries and groups that are 0 stay 0; on the
    rest, the *differentiable space* with the orthonormal basis U, everything is smooth and

    .. math:: \frac{\partial y^*}{\partial x} = -U\,(U^{\top}\nabla_{yy}^2 g\,U)^{-1}
              U^{\top}\nabla_{yx}^2 g,

    which is put into the chain rule; then :math:`x \leftarrow \mathrm{Proj}_X(x - t\,\nabla\varphi)`,
    with t shortened until f falls enough. The lower level is solved exactly. Where all norms are 0 at
    the start, as for weights that are too large, f does not change with x: the start is then
    moved towards the lower bounds of x.
    """

    name: ClassVar[str] = "igjo"
    summary: ClassVar[str] = "gradient descent on penalty weights, implicit gradients off the kinks"
    assumes: ClassVar[str] = (
        "lower level convex, without constraints, smooth but for weighted norms; the entries that are 0 "
        "stay 0 near a lower answer"
    )
    claims: ClassVar[str] = "a stationary point of f(x, y*(x)), if none of its kinks stops the descent"
    reference: ClassVar[str] = "Feng and Simon (2018)"
    costs: ClassVar[str] = "one exact lower solve for each trial step, and one linear solve for a step"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.PROX_TERMS})
    assumptions: ClassVar[frozenset[Assumption]] = frozenset()
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    step_x: float | None = setting(
        None, "first step t tried; None: a tenth of x along the slope", aliases=("t",), above=0.0
    )
    shrinkage: float = setting(
        0.5, "factor by which a step that fails is shortened", above=0.0, own=True
    )
    decrease: float = setting(
        1e-3,
        "share of the decrease that the slope promises, which a step must give",
        above=0.0,
        own=True,
    )
    settled: float = setting(1e-9, "relative change of f at which the descent stops", minimum=0.0)
    max_steps: int = setting(500, "largest number of steps", minimum=1)

    def run(self, run: Run) -> None:
        """Descend from the user's start, or from the middle of the box of x."""
        value = AnswerValue(run.model, run.p)
        x, y = first_point(run)
        here = self._start(run, value, run.x_set.project(x))
        if here is None:
            return
        try:
            self._descend(run, value, here)
        finally:
            best = run.best()
            if best is None:
                propose_end(run, here.x, y, self.name)

    def _start(self, run: Run, value: AnswerValue, x: np.ndarray) -> AnswerEvaluation | None:
        """The first point at which f changes with x; said, where it is not the one given."""
        low = np.where(np.isfinite(run.model.bounds(run.p)[0]), run.model.bounds(run.p)[0], 0.0)
        for count in range(MOVES + 1):
            here = self._look(run, value, run.x_set.project(low + (x - low) * 10.0**-count))
            small = FLAT * (1 + abs(here.value))
            if here.is_finite and here.has_gradient and np.abs(here.gradient).max(initial=0) > small:
                if count:
                    run.note(f"igjo: f does not change with x at the start; x was divided by 1e{count}")
                return here
        if not here.is_finite:
            run.note("igjo: the lower level has no answer at the start")
            return None
        run.propose(here.x, here.y, self.name, here.answer, here.value)
        run.note("igjo: f has no slope in x at the start, nor on the way to the lower bounds")
        run.step(x=here.x, value=here.value)
        return None

    def _look(self, run: Run, value: AnswerValue, x: np.ndarray) -> AnswerEvaluation:
        run.check_limits()
        found = value(x)
        run.evaluations += 1
        run.tried.append((found.x, found.lower_status))
        if found.is_finite:
            run.offer(found.x, found.y, self.name, found.answer, found.value)
        return found

    def _descend(self, run: Run, value: AnswerValue, here: AnswerEvaluation) -> None:
        size = float(np.linalg.norm(here.gradient))
        step = self.step_x or 0.1 * (1 + float(np.linalg.norm(here.x))) / size
        shortest = SHORTEST * step
        for _ in range(self.max_steps):
            trial, step = self._search(run, value, here, step, shortest)
            if trial is None:
                break
            moved = float(np.abs(trial.x - here.x).max(initial=0)) / step
            change = here.value - trial.value
            here = trial
            run.step(x=here.x, value=here.value, step=step, stationarity=moved)
            if change <= self.settled * (1 + abs(here.value)) or not here.has_gradient:
                break
            step /= self.shrinkage  # longer again, where the slope allows it

    def _search(
        self,
        run: Run,
        value: AnswerValue,
        here: AnswerEvaluation,
        step: float,
        shortest: float,
    ) -> tuple[AnswerEvaluation | None, float]:
        """The first step, ever shorter, that gives its share of the decrease; None where none does."""
        while step > shortest:
            x = run.x_set.project(here.x - step * here.gradient)
            way = x - here.x
            if not np.any(way):
                return None, step
            trial = self._look(run, value, x)
            if trial.value <= here.value - self.decrease * float(way @ way) / step:
                return trial, step
            step *= self.shrinkage
        return None, step
