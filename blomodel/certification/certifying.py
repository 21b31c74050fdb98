"""From a point and the stated problem to a certificate: every check, and the claim that follows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from blomodel.basics import limits
from blomodel.basics.alarm import in_time
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.certification.below.hidden_slopes import HiddenSlope, find_hidden_slope
from blomodel.certification.below.lower_check import LowerCheck
from blomodel.certification.below.tolerated import BOUGHT, Tolerated, tolerated_answers
from blomodel.certification.bounds import Bound, find_bound
from blomodel.certification.certificate import Certificate
from blomodel.certification.checks import Checks, measure, objections
from blomodel.certification.equilibria import find_another, named_values
from blomodel.certification.judged import Judged
from blomodel.certification.late import unless_late
from blomodel.certification.neighbourhood import LocalFacts
from blomodel.certification.reserve import local_seconds
from blomodel.certification.study import is_as_exact, study
from blomodel.declare.point import Point, read_level
from blomodel.methods.run.run import OPTIMALITY_GAP
from blomodel.model.flat_lower import gap_unit, loss_in_own_units
from blomodel.status import Status

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

Result = TypeVar("Result")

EXACT = 1e-9  # relative: a lower answer that loses no more is exact
DIGITS = 8 * np.finfo(float).eps  # relative: by which values of g must differ to be told apart
CONTRADICTION = 1e-3  # relative; a point that beats its bound by more disproves the bound
GRACE = 0.15  # seconds after a time limit in which a part of the certificate may end by itself
NO_TIME: tuple[bool | None, LocalFacts] = (
    None,
    LocalFacts(None, False, "the time limit left no time for the test on pieces"),
)
AT_A_TIE = (
    "x lies so near to where the lower level is indifferent between two answers that tests of the "
    "neighbourhood cannot tell the sides apart"
)
WHOLE = "with integer variables only a bound can show that no better point exists, and none is reached"


def certify_point(
    problem: BilevelProblem,
    point: Point,
    *,
    tolerance: float,
    optimality_gap: float = OPTIMALITY_GAP,
    reported: Bound | None = None,
    spent: float = np.inf,
    deadline: Deadline = NEVER,
    adopts_exact_answer: bool = False,
    is_last_hope: bool = False,
    when_cut: Callable[[], None] = lambda: None,
) -> Certificate:
    """Check a point of ``problem.levels``.

    After ``deadline`` nothing is claimed beyond feasibility, and what has not ended by then is left.

    Parameters
    ----------
    reported : Bound, optional
        What a method has found, for the minimised upper objective as it was stated.
    spent : float
        Seconds that this took: a bound of the certificate's own may take a small part of them.
    adopts_exact_answer : bool
        Whether a lower answer that is unique takes the place of the point's y.
    is_last_hope : bool
        Whether there is no other point: then the lower level's own answer takes the place of a y
        that it would leave. So it does where the time is over.
    when_cut : callable
        Called where some of the work was left in the middle.
    """
    judged = Judged.of(problem)
    checks = measure(judged, judged.forward(point), deadline)
    lower, point = checks.lower, checks.point
    reasons = objections(judged, checks, tolerance)
    accepted = not reasons
    claim, stationarity, unique = Status.FAILED, None, None
    tolerated, descent, exact_y, distance = None, None, None, None
    other = None
    if not accepted and adopts_exact_answer and (is_last_hope or deadline.is_over):
        own = _with_own_answer(judged, checks, tolerance, deadline)
        if own is not None:
            checks, point, reasons, accepted = own, own.point, [], True
            exact_y = judged.invert_y(point, point.y)

    def ended(work: Callable[[], Result], otherwise: Result) -> Result:
        found = in_time(work, Deadline(max(deadline.at, time.perf_counter())), GRACE)
        if found is None:
            when_cut()
        return otherwise if found is None else found

    known = (reported or Bound()).per(judged.unit_f)
    sign = problem.sign / judged.unit_f
    if accepted:
        given = known, sign * checks.objective, deadline, spent
        known = ended(lambda: find_bound(judged.model, judged.p, *given), given[0])
        least = known.value if known.is_known else None
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
            unique, facts = ended(lambda: study(judged, point.x, point.y, lower, deadline), NO_TIME)
        stationarity = facts.stationarity
        if facts.direction is not None:
            descent = judged.invert_move(facts.direction[: point.x.size])
        has_better = facts.y is not None and not is_as_exact(
            judged, point.x, point.y, facts.y[: point.y.size]
        )
        if adopts_exact_answer and unique and facts.y is not None and has_better:
            exact = measure(judged, replace(point, y=facts.y[: point.y.size]), deadline, lower)
            if not objections(judged, exact, tolerance):
                checks, point = exact, exact.point
                exact_y = judged.invert_y(point, point.y)
        slope: HiddenSlope | None = None
        no_slope: tuple[HiddenSlope | None] = (None,)
        if facts.y is None and not deadline.is_over:
            (slope,) = ended(lambda: (_slope(judged, checks, tolerance),), no_slope)
        if slope is not None and adopts_exact_answer:
            exact = measure(judged, replace(point, y=slope.y), deadline, lower)
            if not objections(judged, exact, tolerance):
                is_another = abs(exact.objective - checks.objective) > BOUGHT * (
                    1 + abs(exact.objective)
                )
                checks, point, slope = exact, exact.point, None
                exact_y = judged.invert_y(point, point.y)
                unique, facts = study(judged, point.x, point.y, lower, deadline)
                if is_another:
                    facts = replace(facts, is_local_optimum=False, stationarity=None, reason=AT_A_TIE)
                stationarity, descent = facts.stationarity, None
                if facts.y is None:
                    (slope,) = ended(lambda: (_slope(judged, exact, tolerance),), no_slope)
        asked = checks, facts
        nothing: tuple[Tolerated | None] = (None,)
        (tolerated,) = ended(lambda: (_tolerated(judged, *asked, tolerance, deadline),), nothing)
        value = sign * checks.objective
        if tolerated is not None and tolerated.is_bought(value) and adopts_exact_answer and unique:
            for y in _nearer_answers(judged, checks, facts):
                exact = measure(judged, replace(point, y=y), deadline, lower)
                is_exact = not tolerated.is_bought(sign * exact.objective)
                if is_exact and not objections(judged, exact, tolerance):
                    checks, point, value = exact, exact.point, sign * exact.objective
                    exact_y = judged.invert_y(point, point.y)
                    unique, facts = study(judged, point.x, point.y, lower, deadline)
                    stationarity, descent = facts.stationarity, None
                    if facts.direction is not None:
                        descent = judged.invert_move(facts.direction[: point.x.size])
                    break
        if tolerated is not None and tolerated.is_bought(value):
            facts, value = _bought(facts, tolerated.attainable / sign), tolerated.attainable
        preferred = None if slope is None else _preferred(judged, point, slope, tolerance, value)
        if slope is not None and preferred is not None:
            facts, value = _with_slope(facts, slope, preferred / sign), preferred
        distance = None if least is None else (value - least) / whole
        if problem.is_game and not judged.model.is_convex_below:
            here = judged.invert(point)
            unique, other = unless_late(
                lambda: find_another(problem, here, deadline), (None, None), deadline
            )
        claim, reasons = _claim(facts, lower, distance, optimality_gap, known.source)
        if distance is not None and distance < -CONTRADICTION:
            how = "disproved" if lower.is_proven else "contradicted"
            known, distance = Bound(source=f"the one that was found is {how} by this point"), None
        if not lower.is_convex:
            tolerated = _far_apart(judged, checks, tolerance)
            if tolerated is not None:
                reasons.append(
                    "value and bound are those of the problem with this tolerance: the lower level's "
                    f"own answer at this x has f = {tolerated.attainable / sign:.8g}"
                )
        if other is not None:
            reasons.append(f"the game has another equilibrium at this x: {named_values(problem, other)}")
    return Certificate(
        claim=claim,
        accepted=accepted,
        objective=checks.objective + 0.0,  # no negative zero
        upper_violation=checks.above.relative,
        lower_violation=checks.below.relative,
        lower_value=problem.lower.sign * judged.unit_g * lower.value,
        lower_gap=checks.gap,
        lower_is_unique=unique,
        stationarity=stationarity,
        bound=known.value / sign if known.is_known else None,
        bound_source=known.source,
        bound_slack=known.slack,
        bound_is_recomputed=known.is_recomputed,
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


def _with_own_answer(
    judged: Judged, checks: Checks, tolerance: float, deadline: Deadline
) -> Checks | None:
    """The same x with the lower level's own answer, where nothing speaks against that."""
    if checks.lower.y is None or not _is_confirmed(judged, checks, tolerance, deadline):
        return None
    own = measure(judged, replace(checks.point, y=checks.lower.y), deadline, checks.lower)
    return None if objections(judged, own, tolerance) else own


def _is_confirmed(judged: Judged, checks: Checks, tolerance: float, deadline: Deadline) -> bool:
    """Whether the lower level's own answer is one by its multipliers, whoever found both.

    A solver's answer has no gap to itself, so that something else must speak for it.
    """
    model, p, lower, x = judged.model, judged.p, checks.lower, checks.point.x
    if lower.y is None or model.integer_y.any():
        return False
    if not model.is_convex_below:
        return deadline.is_over  # searches that compare g itself; with time left others are tried
    if not lower.is_convex or not model.has_smooth_kkt:
        return False
    if model.lower_program.is_for_products:
        return True  # which has looked at the slope that is left
    multipliers, y = model.split_duals(lower.duals), lower.y
    left = np.abs(model.lower_stationarity(x, y, p, multipliers)) @ (1 + np.abs(y))
    slack = np.abs(model.lower_in.values(x, y, p)) @ np.abs(multipliers[: len(model.lower_in)])
    return bool(left + slack <= tolerance * gap_unit(model, x, y, p, lower.value))


def _in_users_sense(judged: Judged, tolerated: Tolerated) -> tuple[float, float]:
    unit = judged.problem.sign * judged.unit_f
    ends = unit * tolerated.least, unit * tolerated.largest
    return min(ends), max(ends)


def _tolerated(
    judged: Judged, checks: Checks, facts: LocalFacts, tolerance: float, deadline: Deadline
) -> Tolerated | None:
    """f over the lower answers that the tolerance allows."""
    lower, point = checks.lower, checks.point
    if not lower.is_convex or lower.y is None:
        return None
    if facts.y is None and deadline.remaining < local_seconds(judged.model):
        return None  # convex programs would be solved, each of which takes as long as a local test
    unit = gap_unit(judged.model, point.x, point.y, judged.p, lower.value)
    return unless_late(
        lambda: tolerated_answers(
            judged.model,
            judged.p,
            point.x,
            point.y,
            facts,
            loss=tolerance * unit,
            lower_value=lower.value,
            deadline=deadline,
        ),
        None,
        deadline,
    )


def _far_apart(judged: Judged, checks: Checks, tolerance: float) -> Tolerated | None:
    """f of an answer that only the tolerance lets pass, and of the lower level's own far from it."""
    model, p, point, own = judged.model, judged.p, checks.point, checks.lower.y
    if own is None or loss_in_own_units(model, point.x, point.y, own, p, tolerance) <= EXACT:
        return None
    here, there = (float(model.f(point.x, y, p)[0]) for y in (point.y, own))
    if not np.isfinite(there):
        return None
    how = "the point's y and the lower level's own"
    return Tolerated(min(here, there), max(here, there), how, there)


def _nearer_answers(judged: Judged, checks: Checks, facts: LocalFacts) -> list[np.ndarray]:
    """Answers at the point's x that are nearer to the exact one than its own y, as g tells."""
    model, p, point = judged.model, judged.p, checks.point
    own = float(model.g(point.x, point.y, p)[0])
    told_apart = own - DIGITS * (1 + abs(own))
    answers = [facts.y, checks.lower.y]
    found = [answer[: point.y.size] for answer in answers if answer is not None]
    return [y for y in found if float(model.g(point.x, y, p)[0]) < told_apart]


def _bought(facts: LocalFacts, attainable: float) -> LocalFacts:
    """What is known of a point whose value no exact lower answer has."""
    reason = (
        f"the lower level's exact answer has f = {attainable:.8g}: a part of the value is bought by the "
        f"tolerated gap"
    )
    return replace(facts, is_local_optimum=False, stationarity=None, reason=reason)


def _slope(judged: Judged, checks: Checks, tolerance: float) -> HiddenSlope | None:
    """What speaks against the point's y though no tolerance sees it."""
    return find_hidden_slope(judged, checks.point.x, checks.point.y, checks.lower, tolerance)


def _preferred(
    judged: Judged, point: Point, slope: HiddenSlope, tolerance: float, value: float
) -> float | None:
    """f, minimised, at the answer to which a slope leads; None where that changes nothing above."""
    model, p = judged.model, judged.p
    there = float(model.f(point.x, slope.y, p)[0])
    rows = model.upper_in.values(point.x, slope.y, p), np.abs(model.upper_eq.values(point.x, slope.y, p))
    if max(float(part.max(initial=0.0)) for part in rows) > tolerance * (1 + np.abs(slope.y).max()):
        return np.inf
    return None if there <= value + BOUGHT * (1 + abs(value)) else there


def _with_slope(facts: LocalFacts, slope: HiddenSlope, preferred: float) -> LocalFacts:
    """What is known of a point that a small slope of g speaks against."""
    reason = (
        f"the lower objective has a slope of {slope.slope:.2g} here, less than the tolerance sees; it "
        f"leads to another answer, with f = {preferred:.8g}"
    )
    return replace(facts, is_local_optimum=False, stationarity=None, reason=reason)


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
        return Status.OPTIMAL, ["the bound is reached"]
    if facts.is_local_optimum and lower.is_convex:
        return Status.LOCALLY_OPTIMAL, [facts.reason]
    return modest, [facts.reason]


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
