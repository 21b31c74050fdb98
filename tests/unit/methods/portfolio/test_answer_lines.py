"""Lines of answers in the plan of auto."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

import blomodel as bm
from blomodel.methods.portfolio.answer_lines import LinesOfAnswers
from blomodel.methods.portfolio.situation import Situation
from blomodel.methods.portfolio.step import Omission, Outlook
from blomodel.methods.run.run import Run


def jump(*, rows_hold_x: bool = False) -> bm.BilevelProblem:
    """The lower level takes y = 1 up to x = 3, where it is indifferent: the best price."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    rows = [y >= 0, y <= 1 + (0.1 * x if rows_hold_x else 0)]
    lower = bm.Lower(cp.Minimize((x - 3) * y), rows, variables=[y])
    return bm.BilevelProblem(cp.Maximize(x * y), [x >= 0, x <= 10], lower)


def test_it_is_planned_for_linear_lower_levels_with_rows_of_their_own() -> None:
    step = LinesOfAnswers.consider(Situation(jump().model, np.zeros(0)))
    assert isinstance(step, LinesOfAnswers) and "one block" in step.text
    omitted = LinesOfAnswers.consider(Situation(jump(rows_hold_x=True).model, np.zeros(0)))
    assert isinstance(omitted, Omission) and omitted.reason == "lower constraints contain x"


def test_the_price_at_the_tie_is_found_exactly() -> None:
    problem = jump()
    run = Run(model=problem.model, p=np.zeros(0), start=None, tolerance=1e-6, seed=0)
    assert LinesOfAnswers(1).run(run, 0) is Outlook.MORE
    best = run.best()
    assert best is not None and -best.value == 3.0
