"""From a point and the stated problem to a certificate: every check, and the claim that follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from blomodel.basics import limits
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.basics.kept_values import kept_values
from blomodel.certification.best_responses import best_response_gaps
from blomodel.certification.certificate import Certificate
from blomodel.certification.equilibria import find_another, named_values
from blomodel.certification.judged import Judged, Violation
from blomodel.certification.lower_check import LowerCheck, check_lower, variation
from blomodel.certification.neighbourhood import LocalFacts, study_neighbourhood
from blomodel.certification.norms import Manifold, manifold_of_norms
from blomodel.certification.reserve import local_seconds
from blomodel.certification.surroundings import Place, look_around
from blomodel.certification.tolerated import Tolerated, tolerated_answers
from blomodel.declare.followers import follower_name, follower_values
from blomodel.declare.point import Point, read_level
from blomodel.methods.run.run import OPTIMALITY_GAP
from blomodel.model.model import Model
from blomodel.reformulations.forms.pieces import convex_objective
from blomodel.solvers.answer import InnerStatus
from blomodel.status import Status
from blomodel.text.layout import array
from blomodel.transformations.kinks import rows_for_kinks
from blomodel.transformations.scales import rescaling_advice

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

ACCURATE = 1e-3  # of the optimal value: the smallest unit in which lower gaps are measured
LEFT_OVER = 1e-9  # violation that solvers leave in their best answers
ROUNDING = 1e-13  # relative; differences of g below this say nothing
SAME = 1e-6  # relative distance at which two solvers' answers are one
APART = 1e-2  # relative distance at which two lower answers count as different
CONTRADICTION = 1e-3  # relative; a point that beats its bound by more disproves the bound
WHOLE = "with integer variables only a bound can show that no better point exists, and none is reached"
GRACE = 0.2  # seconds that the local tests may take beyond a time limit


@dataclass(frozen=True)
class _Checks:
    """What is measured at a point, by cvxpy and a lower solve of its own; in the units of judgement."""

    point: Point
    objective: float  # as it was stated, in the user's sense
    lower_objective: float  # minimised
    above: Violation
    below: Violation
    lower: LowerCheck
    gap: float  # what the lower level can gain, relative
    follower_gaps: dict[str, float]


def certify_point(
    problem: BilevelProblem,
    point: Point,
    *,
    tolerance: float,
    optimality_gap: float = OPTIMALITY_GAP,
    bound: float | None = None,
    bound_source: str = "",
    deadline: Deadline = NEVER,
    adopts_exact_answer: bool = False,
) -> Certificate:
    """Check a point of ``problem.levels``. ``bound`` is for the minimised upper objective.

    After ``deadline`` nothing is claimed beyond feasibility. ``adopts_exact_answer``: where the lower
    answer is unique, it takes the place of the point's y.
    """
    judged = Judged.of(problem)
    checks = _measure(judged, judged.forward(point), deadline)
    lower, point = checks.lower, checks.point
    reasons = _objections(judged, checks, tolerance)
    accepted = not reasons
    claim, stationarity, unique = Status.FAILED, None, None
    tolerated, descent, exact_y, distance = None, None, None, None
    other = None
    if accepted:
        sign, least = problem.sign / judged.unit_f, None if bound is None else bound / judged.unit_f
        room = np.inf if least is None else sign * checks.objective - least
        # A large unit may be due to one steep variable, and is not what a gap is compared with.
        whole = np.inf if least is None else min(1.0, 1.0 / judged.unit_f) + abs(least)
        reached = least is not None and room <= optimality_gap * whole
        size = point.x.size + judged.model.lower_size
        if judged.model.has_integers:
            unique, facts = None, LocalFacts(None, False, WHOLE)
        elif reached and lower.is_proven and not limits.STUDIED_WHEN_PROVEN.allows(size):
            unique, facts = None, LocalFacts(None, False, "the bound settles it")
        else:
            unique, facts = _study(judged, point.x, point.y, lower, deadline)
        stationarity = facts.stationarity
        if facts.direction is not None:
            descent = judged.invert_x(facts.direction[: point.x.size])
        has_better = facts.y is not None and not _is_as_exact(
            judged, point.x, point.y, facts.y[: point.y.size]
        )
        if adopts_exact_answer and unique and facts.y is not None and has_better:
            exact = _measure(judged, replace(point, y=facts.y[: point.y.size]), deadline, lower)
            if not _objections(judged, exact, tolerance):
                checks, point = exact, exact.point
                exact_y = judged.invert_y(point, point.y)
        tolerated = _tolerated(judged, checks, facts, tolerance, deadline)
        value = sign * checks.objective
        if tolerated is not None and tolerated.is_bought(value):
            facts, value = _bought(facts, tolerated.attainable / sign), tolerated.attainable
        distance = None if least is None else (value - least) / whole
        if problem.is_game and not judged.model.is_convex_below:
            unique, other = find_another(problem, judged.invert(point), deadline)
        claim, reasons = _claim(facts, lower, distance, optimality_gap, bound_source)
        if other is not None:
            reasons.append(f"the game has another equilibrium at this x: {named_values(problem, other)}")
    return Certificate(
        claim=claim,
        accepted=accepted,
        objective=checks.objective,
        upper_violation=checks.above.relative,
        lower_violation=checks.below.relative,
        lower_value=problem.lower.sign * judged.unit_g * lower.value,
        lower_gap=checks.gap,
        lower_is_unique=unique,
        stationarity=stationarity,
        bound=None if bound is None or not np.isfinite(bound) else problem.sign * bound,
        bound_source=bound_source if bound is not None and np.isfinite(bound) else "",
        tolerance=tolerance,
        gap=None if distance is None or not np.isfinite(distance) else distance,
        optimality_gap=optimality_gap,
        checked_by=lower.checked_by,
        reasons=tuple(reasons),
        multipliers=_multipliers(judged, point, lower),
        follower_gaps=checks.follower_gaps,
        tolerated_objective=None if tolerated is None else _in_users_sense(judged, tolerated),
        tolerated_by="" if tolerated is None else tolerated.how,
        descent=descent,
        y=exact_y,
    )


def _in_users_sense(judged: Judged, tolerated: Tolerated) -> tuple[float, float]:
    unit = judged.problem.sign * judged.unit_f
    ends = unit * tolerated.least, unit * tolerated.largest
    return min(ends), max(ends)


def _tolerated(
    judged: Judged, checks: _Checks, facts: LocalFacts, tolerance: float, deadline: Deadline
) -> Tolerated | None:
    """f over the lower answers that the tolerance allows."""
    lower, point = checks.lower, checks.point
    if not lower.is_convex or lower.y is None:
        return None
    unit = _gap_unit(judged, point.x, point.y, lower.value)
    return tolerated_answers(
        judged.model,
        judged.p,
        point.x,
        point.y,
        facts,
        loss=tolerance * unit,
        lower_value=lower.value,
        deadline=deadline,
    )


def _bought(facts: LocalFacts, attainable: float) -> LocalFacts:
    """What is known of a point whose value no exact lower answer has."""
    reason = (
        f"the lower level's exact answer has f = {attainable:.8g}: a part of the value is bought by the "
        f"tolerated gap"
    )
    return replace(facts, is_local_optimum=False, stationarity=None, reason=reason)


def _measure(
    judged: Judged, point: Point, deadline: Deadline, known: LowerCheck | None = None
) -> _Checks:
    """Objectives, violations and gaps, evaluated by cvxpy; ``known``: the lower solve."""
    problem, stated = judged.problem, judged.invert(point)
    with kept_values(problem.variables):
        stated.assign()
        objective = float(problem.objective.args[0].value)
        lower_objective = problem.lower.sign * float(problem.lower.objective.args[0].value)
        above, below = judged.violations(point)
        own_values = follower_values(problem.followers)
    lower_objective /= judged.unit_g
    lower = known or check_lower(judged.model, judged.p, point.x, point.y, deadline)
    gap, follower_gaps = np.inf, {}
    if lower.y is not None:
        unit = _gap_unit(judged, point.x, point.y, lower.value)
        gap = (lower_objective - lower.value) / unit
        if problem.is_game:
            follower_gaps = best_response_gaps(problem, stated, deadline)
        elif len(problem.followers) > 1:
            best = judged.invert(replace(point, y=lower.y))
            follower_gaps = _follower_gaps(judged, best, own_values)
    return _Checks(point, objective, lower_objective, above, below, lower, gap, follower_gaps)


def _objections(judged: Judged, checks: _Checks, tolerance: float) -> list[str]:
    """Why the point is no answer, each reason in a sentence; empty where it is one."""
    found = []
    if not (np.isfinite(checks.objective) and np.isfinite(checks.lower_objective)):
        found.append("an objective is not finite at this point")
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
            f"holds another y; the lower objective is so flat that the gap does not show it"
        )
    # A large objective of one follower must not hide what another one leaves to gain.
    found += [
        f"{name} can do better by {own_gap:.3g} of its own objective"
        for name, own_gap in checks.follower_gaps.items()
        if not own_gap <= tolerance
    ]
    return found


def _lower_objections(judged: Judged, checks: _Checks, tolerance: float) -> list[str]:
    """What the lower level has against the point: no answer at this x at all, or a better one."""
    lower, sign, unit = checks.lower, judged.problem.lower.sign, judged.unit_g
    if lower.status is InnerStatus.INFEASIBLE:
        return ["the lower level has no feasible answer at this x"]
    if lower.status is InnerStatus.UNBOUNDED:
        return ["the lower objective improves without limit at this x"]
    if lower.y is None:
        about = f": {lower.reason}" if lower.reason else ""
        advice = rescaling_advice(judged.model, judged.p)
        about += f"; {advice}" if advice else ""
        return [f"the lower level's optimal value at this x could not be computed{about}"]
    if not checks.gap <= tolerance:
        return [
            f"the lower level can do better by {unit * (checks.lower_objective - lower.value):.6g}: it "
            f"reaches {sign * unit * lower.value:.6g} at y = "
            f"{array(judged.invert_y(checks.point, lower.y))}, not "
            f"{sign * unit * checks.lower_objective:.6g}"
        ]
    return []


def _multipliers(judged: Judged, point: Point, lower: LowerCheck) -> dict[int, np.ndarray]:
    """Multipliers of the lower constraints as they were stated, by position."""
    return dict(enumerate(judged.chain.invert_multipliers(lower.duals, point)))


def _claim(
    facts: LocalFacts,
    lower: LowerCheck,
    distance: float | None,
    optimality_gap: float,
    bound_source: str,
) -> tuple[Status, list[str]]:
    """The strongest claim about a feasible and lower-optimal point, and why.

    ``distance`` is how much worse f is than its bound, relatively; None without a bound.
    """
    is_level = facts.is_level
    modest = Status.STATIONARY if is_level else Status.FEASIBLE
    if not lower.is_proven:
        return modest, [
            "stationary to first order" if is_level else facts.reason,
            "the lower level is not convex: local searches found no better lower answer, which "
            "does not prove that there is none",
        ]
    if distance is not None and distance < -CONTRADICTION:
        return modest, [f"f is better than the bound from {bound_source}, so that one must be wrong"]
    if distance is not None and distance <= optimality_gap:
        return Status.OPTIMAL, [f"the bound from {bound_source} is reached"]
    if facts.is_local_optimum and lower.is_convex:
        return Status.LOCALLY_OPTIMAL, [facts.reason]
    return modest, [facts.reason]


def _study(
    judged: Judged, x: np.ndarray, y: np.ndarray, lower: LowerCheck, deadline: Deadline
) -> tuple[bool | None, LocalFacts]:
    """Whether the lower answer looks unique, and what is known of the neighbourhood."""
    model, p = judged.model, judged.p
    if max(deadline.remaining, 0.0) + GRACE < local_seconds(model):
        return None, LocalFacts(None, False, "the time limit left no time for the test on pieces")
    if deadline.remaining < GRACE:
        deadline = Deadline.after(GRACE)
    facts = None
    is_beside = lower.is_convex and lower.y is not None and _is_another(y, lower.y)
    if is_beside and lower.y is not None and not _is_as_exact(judged, x, y, lower.y):
        # The tolerated gap lets y lie beside the one answer, whose neighbourhood it is that counts.
        facts = _facts_at(model, p, x, lower.y, lower, deadline)
    if facts is None or facts.y is None:
        facts = _facts_at(model, p, x, y, lower, deadline)
    unique: bool | None = None
    if lower.is_convex and facts.y is not None:
        unique = True  # a convex program whose optimality conditions settle y
    else:
        unique = looks_unique(model, p, x, y, _sharpest_multipliers(model, p, x, y, lower))
        if unique and not lower.is_convex:
            unique = None  # a test of the neighbourhood says nothing about minimisers elsewhere
    return unique, facts


def _is_as_exact(judged: Judged, x: np.ndarray, y: np.ndarray, answer: np.ndarray) -> bool:
    """Whether y keeps the lower rows as well as a solver's answer, with a g that is no larger.

    Where g is flat around its minimiser, an interior-point answer lies beside it by the root of the
    solver's tolerance, and a point that was found exactly must not be exchanged for it.
    """
    model, p = judged.model, judged.p

    def exactness(point: np.ndarray) -> tuple[float, float]:
        rows = model.lower_in.values(x, point, p), np.abs(model.lower_eq.values(x, point, p))
        return max(float(part.max(initial=0.0)) for part in rows), float(model.g(x, point, p)[0])

    (own, own_g), (other, other_g) = exactness(y), exactness(answer)
    return own <= other + LEFT_OVER and own_g <= other_g + ROUNDING * (1 + abs(other_g))


def _is_another(y: np.ndarray, answer: np.ndarray) -> bool:
    """Whether two lower answers differ by more than solvers do, and yet lie close together."""
    apart = np.abs(y - answer).max(initial=0) / (1 + np.abs(answer).max(initial=0))
    return bool(SAME < apart <= APART)


def _facts_at(
    model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray, lower: LowerCheck, deadline: Deadline
) -> LocalFacts:
    """The neighbourhood of a point, in a model without kinks where its own has some."""
    place = Place(model, p, x, y, _sharpest_multipliers(model, p, x, y, lower))
    manifold = None
    if lower.is_convex:
        place, manifold = _without_kinks(place)
    facts = study_neighbourhood(
        place.model,
        p,
        place.x,
        place.y,
        place.multipliers,
        has_convex_pieces=lambda: _has_convex_pieces(place.model, p, lower),
        deadline=deadline,
    )
    if manifold is None:
        return facts
    if facts.multipliers is not None and manifold.holds(place.model, facts.multipliers):
        return facts
    return LocalFacts(None, False, "a norm of the lower level is zero here, but may not stay so")


def _without_kinks(place: Place) -> tuple[Place, Manifold | None]:
    """The place in a model that has rows for kinks, and norms that vanish fixed at zero."""
    model, p, x, y = place.model, place.p, place.x, place.y
    manifold = manifold_of_norms(model, p, x, y)
    if manifold is not None:
        model, y = manifold.model, np.append(y, np.zeros(manifold.n_further))
    equivalent = rows_for_kinks(model)
    if manifold is None and equivalent.is_same:
        return place, None
    # On which side of each kink the answer lies is told by rows, which the problem itself lacks.
    (x, y), model = equivalent.forward(x, y, p), equivalent.model
    return Place(model, p, x, y, _sharpest_multipliers(model, p, x, y, None)), manifold


def _has_convex_pieces(model: Model, p: np.ndarray, lower: LowerCheck) -> bool:
    if not lower.is_convex:
        return True  # without a proven lower answer only the first-order test counts
    if not limits.CONVEX_PIECES.allows(model.conditions.n_unknowns):
        return False
    return convex_objective(model, p) is not None


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


def _gap_unit(judged: Judged, x: np.ndarray, y: np.ndarray, value: float) -> float:
    """What a lower gap is compared with: the optimal value, or how much g varies if that is less.

    A large constant in g would otherwise hide every gap. The unit is no smaller than what the accuracy
    of the optimal value allows.
    """
    size = 1 + abs(value)
    change = variation(judged.model, x, y, judged.p)
    return size if change == 0 else float(np.clip(change, ACCURATE * size, size))


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


def _sharpest_multipliers(
    model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray, lower: LowerCheck | None
) -> np.ndarray:
    """The lower multipliers that fit the KKT conditions at the point best.

    An interior-point solver leaves weakly active rows with multipliers that are small but not zero;
    which rows press at all decides which pieces meet here. ``lower`` is None where the check of the
    lower level did not know the rows of this model.
    """
    if lower is not None and not lower.is_convex:
        return model.split_duals(model.multistart.fit_duals(x, y, p))
    checked = model.split_duals(() if lower is None else lower.duals)
    if not model.has_smooth_kkt or not checked.size:
        return checked
    rows = model.lower_in.values(x, y, p)

    def misfit(multipliers: np.ndarray) -> float:
        pressure = multipliers[: len(rows)]
        return float(
            np.abs(model.lower_stationarity(x, y, p, multipliers)).max(initial=0)
            + np.abs(pressure * rows).max(initial=0)
            + np.maximum(-pressure, 0).max(initial=0)
        )

    candidates = [checked]
    again = model.lower_program.solve(x, p) if model.is_convex_below else None
    if again is not None and again.status.has_point:
        candidates.append(model.split_duals(again.duals))
    return min(candidates, key=misfit)


def looks_unique(
    model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray, multipliers: np.ndarray
) -> bool | None:
    """Whether the lower Lagrangian curves along every direction left free: a second-order test."""
    if not model.has_smooth_kkt:
        return None
    if not limits.UNIQUENESS_TEST.allows(y.size):
        if not model.conditions.multipliers_are_unknowns:  # y holds them, and they need not be unique
            return None
        return True if look_around(Place(model, p, x, y, multipliers)).factor is not None else None
    rows = model.lower_in.linearise(x, y, p)
    pressing = multipliers[: len(rows.value)] > 1e-7 * (1 + np.abs(multipliers).max(initial=0))
    fixed = np.vstack([rows.in_y.toarray()[pressing], model.lower_eq.linearise(x, y, p).in_y.toarray()])
    _, hessian = model.lower_hessian(x, y, p, multipliers)
    curved = hessian.toarray()
    if not (np.all(np.isfinite(curved)) and np.all(np.isfinite(fixed))):
        return None
    if len(fixed):
        _, singular, basis = np.linalg.svd(fixed)
        free = basis[int((singular > 1e-9 * singular.max(initial=1)).sum()) :]
        curved = free @ curved @ free.T
    if curved.size == 0:
        return True
    lowest = np.linalg.eigvalsh((curved + curved.T) / 2).min()
    return bool(lowest > 1e-8 * np.abs(hessian.data).max(initial=0))


def certify(problem: BilevelProblem, x: object, y: object, *, tolerance: float = 1e-6) -> Certificate:
    """Check a point of your own: whether it is feasible, and whether the lower level would keep it.

    Parameters
    ----------
    problem : BilevelProblem
    x, y : array, or dict from variable to array
        Values of the upper and of the lower variables. An array stands for a level with a single
        variable, or for all of a level's variables flattened column by column in order of occurrence.
        A dict for y may leave out multipliers of the lower level; some that fit are then taken.
    tolerance : float
        Largest relative violation and lower gap that still pass.
    """
    problem.check_data()
    levels, chain = problem.levels, problem.plain_chain
    if isinstance(y, dict):
        # Forth and back, since the way forth fills in what follows from the others: multipliers.
        known = levels.x.unpack(read_level(levels, "upper", x, "certify"))
        forth = chain.forward_values({**known, **y}, problem.parameter_values())
        y = chain.invert_values(forth)
    return certify_point(problem, Point.read(levels, x, y, "certify"), tolerance=tolerance)
