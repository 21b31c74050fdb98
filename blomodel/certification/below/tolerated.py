"""How much of the upper objective the tolerated lower gap can hide: f over the tolerated lower answers.

The tolerance allows every y at which the lower level loses no more than that. Where the lower answer is
unique, its curvature tells how far f can move; where it is not, f is minimised and maximised over the
answers, both of which are convex programs where f is affine in y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from blomodel.basics import limits
from blomodel.basics.deadline import Deadline
from blomodel.certification.neighbourhood import LocalFacts
from blomodel.errors import BlomodelError
from blomodel.model.minimisers import ChoiceAmongMinimisers
from blomodel.model.model import Model
from blomodel.solvers.answer import Answer, InnerStatus

FINEST = 1e-3  # share of the tolerated loss at which answers count as exact
STILL_MOVING = 0.9  # ratio of two differences below which a sequence converges
BOUGHT = 1e-5  # relative; a value that is better than any exact answer's by more is bought


@dataclass(frozen=True)
class Tolerated:
    """f, minimised, over the tolerated answers.

    Attributes
    ----------
    least, largest : float
    how : str
        How they were found, and whether they are estimates.
    attainable : float
        The least f over answers that are exact, as far as numbers allow.
    """

    least: float
    largest: float
    how: str
    attainable: float

    def is_bought(self, value: float) -> bool:
        """Whether a value is better than what any exact lower answer gives."""
        return value < self.attainable - BOUGHT * (1 + abs(value))


def tolerated_answers(
    model: Model,
    p: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    facts: LocalFacts,
    *,
    loss: float,
    lower_value: float,
    deadline: Deadline,
) -> Tolerated | None:
    """f over the answers with which the lower level loses at most ``loss``; None where not known."""
    if facts.y is not None:
        exact = float(model.f(x, facts.y[: y.size], p)[0])
        if facts.spread is None or not np.isfinite(exact):
            return None
        curved, freed = facts.spread
        move = float(np.sqrt(2 * loss * curved) + loss * freed)
        return Tolerated(exact - move, exact + move, "an estimate from the curvature of g", exact)
    if deadline.is_over or not model.is_convex_below or not limits.ASKED_AGAIN.allows(model.lower_size):
        return None
    return _by_programs(model, p, x, y, loss, lower_value)


def _by_programs(
    model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray, loss: float, lower_value: float
) -> Tolerated | None:
    value = float(model.f(x, y, p)[0])
    within = loss / (1 + abs(lower_value))
    here = Answer(InnerStatus.OPTIMAL, lower_value, y)
    choice = model.optimistic_choice
    least = _extreme(model, x, p, lambda: choice.solve_by_level(x, p, here, slack=within))
    if least is None:
        return None
    exact = _extreme(model, x, p, lambda: choice.solve(x, p, here, slack=FINEST * within))
    if exact is not None and not choice.is_face:
        between = np.sqrt(FINEST) * within
        middle = _extreme(model, x, p, lambda: choice.solve_by_level(x, p, here, slack=between))
        exact = exact if middle is None else _limit(least, middle, exact)
    opposite = ChoiceAmongMinimisers(model, -model.f_expression, model.coupling_constraints)
    how = "by two convex programs"
    largest = _extreme(model, x, p, lambda: opposite.solve_by_level(x, p, here, slack=within))
    if largest is None:
        # f is not affine in y: its largest value lies at some corner of the tolerated answers.
        how = "the least by a convex program, the largest an estimate"
        slope = cp.Parameter(y.size, name="slope")
        flat = cp.hstack([cp.vec(leaf, order="F") for leaf in model.y.leaves])
        uphill = ChoiceAmongMinimisers(model, -(slope @ flat), model.coupling_constraints, (slope,))
        along = model.f_grad(x, y, p)[x.size :]
        largest = _extreme(
            model, x, p, lambda: uphill.solve_by_level(x, p, here, slack=within, values=along)
        )
    largest = value if largest is None else largest
    attainable = value if exact is None else exact
    return Tolerated(min(least, value), max(largest, value), how, attainable)


def _limit(first: float, second: float, third: float) -> float:
    """What a sequence of least values tends to when the tolerated loss falls by equal factors.

    They go with a power of the loss, so that their differences fall by equal factors too (Aitken).
    """
    before, last = second - first, third - second
    if not (0 < last < STILL_MOVING * before):
        return third
    return third + last**2 / (before - last)


def _extreme(model: Model, x: np.ndarray, p: np.ndarray, solve: Callable[[], Answer]) -> float | None:
    """f at the answer that a program chooses."""
    try:
        chosen = solve()
    except BlomodelError:
        return None
    return float(model.f(x, chosen.y, p)[0]) if chosen.status.has_point else None
