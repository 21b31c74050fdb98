"""What is measured at a point, by cvxpy and a lower solve of its own, and what speaks against it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from blomodel.basics.alarm import in_time
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.basics.kept_values import kept_values
from blomodel.certification.below.best_responses import best_response_gaps
from blomodel.certification.below.lower_check import LowerCheck, check_lower
from blomodel.certification.judged import Judged, Violation
from blomodel.certification.study import APART, looks_unique
from blomodel.declare.followers import follower_name, follower_values
from blomodel.declare.point import Point
from blomodel.declare.row_values import value_of
from blomodel.model.flat_lower import gap_unit, loss_in_own_units
from blomodel.solvers.answer import InnerStatus
from blomodel.text.layout import array
from blomodel.transformations.scales import rescaling_advice

CLEARLY = 100.0  # times the tolerance: a gap so far below zero contradicts feasibility


@dataclass(frozen=True)
class Checks:
    """What is measured at a point, by cvxpy and a lower solve of its own; in the units of judgement."""

    point: Point
    objective: float  # as it was stated, in the user's sense
    lower_objective: float  # minimised
    above: Violation
    below: Violation
    lower: LowerCheck
    gap: float  # what the lower level can gain, relative
    follower_gaps: dict[str, float]


def measure(judged: Judged, point: Point, deadline: Deadline, known: LowerCheck | None = None) -> Checks:
    """Objectives, violations and gaps, evaluated by cvxpy; ``known``: the lower solve."""
    problem, stated = judged.problem, judged.invert(point)
    with kept_values(problem.variables):
        stated.assign()
        objective = value_of(problem.objective.args[0])
        lower_objective = problem.lower.sign * value_of(problem.lower.objective.args[0])
        above, below = judged.violations(point)
        own_values = follower_values(problem.followers)
    lower_objective /= judged.unit_g
    lower = known or check_lower(judged.model, judged.p, point.x, point.y, deadline)
    gap, follower_gaps = np.inf, {}
    if lower.y is not None:
        unit = gap_unit(judged.model, point.x, point.y, judged.p, lower.value)
        gap = (lower_objective - lower.value) / unit
        if problem.is_game:
            follower_gaps = best_response_gaps(problem, stated, deadline)
        elif len(problem.followers) > 1:
            best = judged.invert(replace(point, y=lower.y))
            follower_gaps = _follower_gaps(judged, best, own_values)
    return Checks(point, objective, lower_objective, above, below, lower, gap, follower_gaps)


def objections(judged: Judged, checks: Checks, tolerance: float) -> list[str]:
    """Why the point is no answer, each reason in a sentence; empty where it is one."""
    found = []
    if not (np.isfinite(checks.objective) and np.isfinite(checks.lower_objective)):
        found.append("an objective is not finite at this point")
    elif not _lies_in_domains(judged, checks.point):
        found.append(
            "an objective or a row is not defined at this point (1 / y, say, needs a positive y)"
        )
    if not checks.above.relative <= tolerance:
        found.append(f"infeasible above: {checks.above.text}")
    if not checks.below.relative <= tolerance:
        found.append(f"infeasible below: {checks.below.text}")
    found += _lower_objections(judged, checks, tolerance)
    if not found and _is_another_answer(judged, checks.point, checks.lower):
        assert checks.lower.y is not None
        answer = judged.invert_y(checks.point, checks.lower.y)
        found.append(
            f"the lower level has one answer at this x, y = {array(answer)}, and the point "
            f"contains another y; the lower objective is so flat that the gap does not show it"
        )
    # A large objective of one follower must not hide what another one leaves to gain.
    found += [
        f"{name} can do better by {own_gap:.3g} of its own objective"
        for name, own_gap in checks.follower_gaps.items()
        if not own_gap <= tolerance
    ]
    return found


def _lies_in_domains(judged: Judged, point: Point) -> bool:
    """Whether all functions have values in the model; cvxpy has some of ``inv_pos`` below zero."""
    model, at = judged.model, (point.x, point.y, judged.p)
    rows = (model.upper_in, model.upper_eq, model.lower_in, model.lower_eq)
    values = [model.f(*at), model.g(*at), *(part.values(*at) for part in rows if len(part))]
    return not any(np.isnan(part).any() for part in values)


def _lower_objections(judged: Judged, checks: Checks, tolerance: float) -> list[str]:
    """What the lower level has against the point: no answer at this x at all, or a better one."""
    lower, sign, unit = checks.lower, judged.problem.lower.sign, judged.unit_g
    if lower.status is InnerStatus.INFEASIBLE:
        return ["the lower level has no feasible answer at this x"]
    if lower.status is InnerStatus.UNBOUNDED:
        return ["the lower objective improves without limit at this x"]
    if lower.y is None:
        about = f": {lower.reason}" if lower.reason else ""
        advice = in_time(lambda: rescaling_advice(judged.model, judged.p), NEVER)
        about += f"; {advice}" if advice else ""
        return [f"the lower level's optimal value at this x could not be computed{about}"]
    if not checks.gap <= tolerance:
        return [
            f"the lower level can do better by {unit * (checks.lower_objective - lower.value):.6g}: it "
            f"reaches {sign * unit * lower.value:.6g} at y = "
            f"{array(judged.invert_y(checks.point, lower.y))}, not "
            f"{sign * unit * checks.lower_objective:.6g}"
        ]
    # A point that breaks a lower row is told so already.
    if checks.gap < -CLEARLY * tolerance and checks.below.relative <= tolerance:
        return [
            f"the lower level is better off by {unit * (lower.value - checks.lower_objective):.6g} than "
            "at its optimum, which cannot be: the point lives on the tolerance of a row, or the optimal "
            "value is not accurate"
        ]
    at = judged.model, checks.point.x, checks.point.y
    loss = loss_in_own_units(*at, lower.y, judged.p, tolerance)
    if loss > tolerance:
        return [
            f"the lower level prefers y = {array(judged.invert_y(checks.point, lower.y))}: little is at "
            f"stake for it at this x, but the point loses a share of {loss:.2g}"
        ]
    return []


def _follower_gaps(judged: Judged, best: Point, values: list[float]) -> dict[str, float]:
    """Each follower's own gap to the best point, relative to its value there, by its name."""
    problem, unit = judged.problem, min(judged.unit_g, 1.0)
    with kept_values(problem.variables):
        best.assign()
        best_values = follower_values(problem.followers)
    return {
        follower_name(problem.followers, k): (value - best_value) / (unit + abs(best_value))
        for k, (value, best_value) in enumerate(zip(values, best_values, strict=True))
    }


def _is_another_answer(judged: Judged, point: Point, lower: LowerCheck) -> bool:
    """Whether y lies visibly away from the one minimiser that the lower level has."""
    if lower.y is None or not lower.is_convex:
        return False
    if np.abs(point.y - lower.y).max(initial=0) <= APART * (1 + np.abs(lower.y).max(initial=0)):
        return False
    model, p = judged.model, judged.p
    if model.integer_y.any():  # whose minimisers lie apart
        return False
    return bool(looks_unique(model, p, point.x, lower.y, model.split_duals(lower.duals)))
