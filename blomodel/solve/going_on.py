"""From a point at which the certificate sees f fall to a better one.

The certificate hands over a move of x. Along it f is looked at with exact lower answers; where it does
fall, the usual local search goes on from the best point seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blomodel.basics.deadline import Deadline
from blomodel.certification.certificate import Certificate
from blomodel.declare.point import Point
from blomodel.errors import BlomodelError
from blomodel.methods.run.run import Candidate, Run, StopRun
from blomodel.methods.search.answer_descent import AnswerDescent
from blomodel.methods.search.pieces import choose_optimistically, improve_by_pieces, is_large

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

DESCENTS = 12  # moves that the certificate may ask for
SHORTER = 0.25  # factor from one trial along a move to the next
TRIALS = 14  # along one move
STEPS = 300  # of a descent on phi from the best point along a move
PAYS = 1e-9  # relative; what a move must gain


def upper_direction(problem: BilevelProblem, point: Point, direction: np.ndarray) -> np.ndarray | None:
    """A move of the stated upper variables as one of the solved model's; None where it has none."""
    chain = problem.chain
    stated = chain.invert_upper(point.x)
    levels, p = problem.levels, problem.parameter_values()
    ends = []
    for x in (stated, stated + direction):
        values = chain.forward_values(levels.x.unpack(x), p)
        if not all(leaf in values for leaf in chain.end.levels.upper):
            return None
        ends.append(chain.end.levels.x.join(values))
    return np.asarray(ends[1] - ends[0])


def is_better(sign: float, one: Certificate, other: Certificate) -> bool:
    """Whether a certified value is better than another one."""
    return sign * one.objective < sign * other.objective - PAYS * (1 + abs(other.objective))


def descend(
    run: Run,
    point: Point,
    direction: np.ndarray | None,
    deadline: Deadline,
    *,
    is_exchanged: bool = False,
) -> Candidate | None:
    """The best point found along a move and from there on; None where f does not fall.

    ``is_exchanged``: whether the certificate has put the exact lower answer in the place of the point's
    y, so that f is what this answer gives, and points like it are no better.
    """
    if direction is None or not np.abs(direction).max(initial=0.0) > 0:
        return None
    whole = run.deadline
    run.deadline = deadline
    try:
        here = float(run.model.f(point.x, point.y, run.p)[0])
        own = _answered(run, point.x, point.y) if is_exchanged else None
        here = here if own is None else max(here, own.value)
        found = _along(run, point, direction, here)
        if found is None:
            found = _along(run, point, -direction, here)  # a curvature has no sign
        if found is None:
            return None
        return _searched_from(run, found, is_exchanged)
    except (StopRun, BlomodelError):
        return None
    finally:
        run.deadline = whole


def _searched_from(run: Run, found: Candidate, is_exchanged: bool) -> Candidate:
    """The end of the local searches from a point, or the point itself."""
    ends: list[Candidate | None] = [None if is_exchanged else run.best()]
    if AnswerDescent.why_not(run.model) is None:
        end = AnswerDescent(run).descend(found.x, STEPS)  # offers what it finds to the run
        ends.append(None if end is None or not is_exchanged else _answered(run, end.x, found.y))
    elif run.model.is_convex_below and not is_large(run.model):
        ends.append(improve_by_pieces(run, found.x, found.y))
    good = [end for end in ends if end is not None and run.is_acceptable(end)]
    return min([found, *good], key=lambda candidate: candidate.cautious_value)


def _along(run: Run, point: Point, direction: np.ndarray, here: float) -> Candidate | None:
    """The best acceptable point along a move: shorter steps until f falls, then on while it pays."""
    low, high = run.model.bounds(run.p)
    small = PAYS * (1 + abs(here))
    length = 0.5 * (1 + float(np.abs(point.x).max(initial=0.0))) / float(np.abs(direction).max())
    best: Candidate | None = None
    for _ in range(TRIALS):
        run.check_limits()
        trial = _answered(run, np.clip(point.x + length * direction, low, high), point.y)
        if trial is not None and trial.value < here - small:
            if best is None or trial.value < best.value:
                best, length = trial, length * SHORTER
                continue
        if best is not None:
            break  # shorter is no longer better
        length *= SHORTER
    if best is not None:
        run.keep(best)
    return best


def _answered(run: Run, x: np.ndarray, near: np.ndarray) -> Candidate | None:
    """The exact lower answer at x, or the one of several that suits the upper level best."""
    answer, is_proven = run.solve_lower(x, near)
    if not answer.status.has_point:
        return None
    found = run.measure(x, answer.y, "along a move of the certificate")
    if is_proven and not run.is_acceptable(found):
        chosen = choose_optimistically(run, x)
        return chosen if chosen is not None and run.is_acceptable(chosen) else None
    return found if run.is_acceptable(found) else None
