"""From what a method left behind to a claim: certify, look for a way out, explain what is missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from blomodel.basics import limits
from blomodel.basics.deadline import Deadline, end_of_work
from blomodel.certification.bounds import Bound
from blomodel.certification.certificate import Certificate
from blomodel.certification.certifying import certify_point
from blomodel.certification.late import unless_late
from blomodel.declare.point import Point
from blomodel.methods.run.run import Candidate, Run
from blomodel.methods.run.starts import spread
from blomodel.methods.search.fall import falls_without_limit
from blomodel.methods.search.pieces import choose_optimistically
from blomodel.model.flat_lower import loss_in_own_units
from blomodel.reformulations.forms.floors import lies_at_a_jump
from blomodel.solve.going_on import DESCENTS, descend, is_better, upper_direction
from blomodel.solve.no_answer import NoAnswer, explain_coupling, explain_lower_at, explain_relaxation
from blomodel.solve.unbounded import describe_direction, lower_runaways
from blomodel.solve.ways_out import Attainment, WayOut
from blomodel.solvers.answer import InnerStatus
from blomodel.status import Status
from blomodel.text.layout import array, counted
from blomodel.transformations.scales import rescaling_advice

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

MAX_CERTIFIED = 5  # candidates tried before the answer counts as failed
STEPS_DOWN = (1e-6, 1e-4, 1e-2)  # relative: how much worse a candidate farther down may be
EXACT = 1e-9  # relative: a lower answer that loses no more is exact
WORTH = 1e-2  # relative: what the value of an exact answer may be worse
FAR = 1e6  # entries of x beyond it are far away
PROBES, PROBES_IN_HASTE = 10, 2  # x at which the lower level is asked where no point is known; in haste
ASKED_AT_LEAST = 60  # times that the lower level may be asked in the search for a way out,
SHARE_OF_ASKED = 0.05  # or a part of how often the method asked
LEAST_LOOK = 0.3  # seconds for that search under a time limit, in any case
CLAIMS = tuple(status for status in Status if status.has_point)
LAST_CHANCE = 0.5  # seconds for a first lower answer, however late it is: without one there is nothing
TO_FIND = 0.65  # share of the time that is left for it; the rest is for its certificate
LONGEST_EXPLANATION = 10.0  # seconds for the search of a reason


@dataclass(frozen=True)
class Outcome:
    """What a solve may claim, and the point of the solved model that it stands on."""

    status: Status
    certificate: Certificate | None
    point: Point | None
    source: str
    no_answer: NoAnswer | None = None
    seconds: float = 0.0  # that the certificate of the best point took


def settle(
    problem: BilevelProblem,
    run: Run,
    *,
    deadline: Deadline,
    is_interrupted: Callable[[], bool] = lambda: False,
    is_explained: bool = True,
    goes_on: bool = False,
    known: list[Best] | None = None,
) -> Outcome:
    """Certify the best candidate; without one that passes, find out why.

    A method whose iteration has diverged has no answer: what the library found beside it is not shown as
    one. What is known about the problem itself, that it has no answer, stands all the same.

    Parameters
    ----------
    deadline : Deadline
        After it nothing more is tried than one certificate.
    is_interrupted : callable
        Whether the user wants an end, asked between two parts.
    is_explained : bool
        Whether to look for the reason when there is no answer.
    goes_on : bool
        Whether to improve a point at which the certificate sees f fall.
    known : list, optional
        Filled with what is certified on the way, for the case that this is not waited for.
    """
    _ask_once(run, deadline, is_interrupted)
    began = time.perf_counter()
    best = _certify_best(problem, run, deadline)
    seconds = time.perf_counter() - began
    outcome = _claim(
        problem,
        run,
        best,
        seconds,
        deadline=deadline,
        is_interrupted=is_interrupted,
        is_explained=is_explained,
        goes_on=goes_on,
        known=known,
    )
    outcome = replace(outcome, seconds=seconds)
    if run.diverged_at is None or outcome.status not in (*CLAIMS, Status.FAILED):
        return outcome
    text = f"the iteration had run away after {counted(run.diverged_at, 'iteration')}"
    return Outcome(Status.DIVERGED, None, None, "", NoAnswer("diverged", text))


def _ask_once(run: Run, deadline: Deadline, is_interrupted: Callable[[], bool]) -> None:
    """Look where a method that was stopped has left off, and for a point where there is none."""
    if run.is_cut_short:
        unless_late(partial(_look_where_it_stood, run, deadline), None, deadline)
    if not run.candidates:
        probes = PROBES_IN_HASTE if is_interrupted() else PROBES
        # A point that is found needs a certificate too.
        latest = max(deadline, Deadline.after(LAST_CHANCE)).earlier(TO_FIND * end_of_work().remaining)
        probe = partial(probe_lower_level, run, min(deadline, latest), probes)
        unless_late(probe, None, latest, grace=0.0)
        if not run.candidates and deadline.is_over:
            run.note("the time limit was over before the lower level was solved once")


def _claim(
    problem: BilevelProblem,
    run: Run,
    best: Best,
    seconds: float,
    *,
    deadline: Deadline,
    is_interrupted: Callable[[], bool],
    is_explained: bool,
    goes_on: bool,
    known: list[Best] | None,
) -> Outcome:
    """See settle: what the points that are known allow to claim."""
    if known is not None:
        known.append(best)
    if is_interrupted():
        return Outcome(Status.INTERRUPTED, *best)
    certificate, point, _ = best
    if run.is_unbounded:  # shown by the method, on points that are lower-optimal
        text = run.fall or "f improves without limit on a piece of the lower level's KKT conditions"
        text += _where_unbounded(problem, run, point, deadline) if is_explained else ""
        return Outcome(
            Status.UNBOUNDED, certificate, None, "", NoAnswer("unbounded", text, is_proven=not run.fall)
        )
    if certificate is None or point is None or not certificate.accepted:
        return _without_answer(problem, run, best, deadline, is_explained)

    def look(at: Point) -> WayOut | None:
        # Under a time limit no longer than all that came before it: what is left has better uses.
        latest = deadline if deadline.is_never else deadline.earlier(max(run.elapsed, LEAST_LOOK))
        return unless_late(partial(_look_for_a_way_out, problem, run, at, latest), None, latest)

    way_out = look(point) if is_explained else None
    if way_out is None and certificate.claim is not Status.OPTIMAL and _falls_on(run, point, deadline):
        reason = NoAnswer("unbounded", run.fall, is_proven=False)
        return Outcome(Status.UNBOUNDED, certificate, None, best[2], reason)
    if way_out is None and goes_on:
        better = _improve(problem, run, best, deadline, seconds)
        if known is not None:
            known.append(better)
        if better is not best and is_explained and better[1] is not None:
            way_out = look(better[1])
        best = better
        certificate = better[0] or certificate
    if way_out is None:
        jump = _jump_beside(run, best) if certificate.claim is Status.OPTIMAL else None
        return Outcome(certificate.claim if jump is None else Status.NOT_ATTAINED, *best, jump)
    if way_out.is_unbounded:
        reason = NoAnswer("unbounded", way_out.text, is_proven=False)
        return Outcome(Status.UNBOUNDED, certificate, None, best[2], reason)
    reason = NoAnswer("not attained", way_out.text, is_proven=False)
    return Outcome(Status.NOT_ATTAINED, *best, reason)


def _falls_on(run: Run, point: Point, deadline: Deadline) -> bool:
    """Whether a point that lies far away is only one on the way to infinity."""
    if np.abs(point.x).max(initial=0.0) <= FAR or deadline.is_over:
        return False
    run.deadline = deadline
    run.fall = falls_without_limit(run)
    return bool(run.fall)


Best = tuple[Certificate | None, Point | None, str]


def _jump_beside(run: Run, best: Best) -> NoAnswer | None:
    """Whether a point that meets its bound does so only on the way to where the lower answer jumps."""
    point = best[1]
    if point is None or not lies_at_a_jump(run.model, run.p, point.x):
        return None
    text = (
        "f comes as near to its bound as one likes where the lower level's integer answer is about to "
        "jump, and is worse behind the jump"
    )
    return NoAnswer("not attained", text, is_proven=False)


def _certify_best(problem: BilevelProblem, run: Run, deadline: Deadline) -> Best:
    """The best candidate that passes the certificate; failing that, the least wrong one's refusal."""
    refused: Best = (None, None, "")
    kept: Best | None = None
    ranking = _exact_first(run, run.ranking())
    # Where f falls without limit the best points are so far away that no solver can answer there.
    nearer = [c for c in ranking if np.abs(c.x).max(initial=0.0) <= FAR and run.is_acceptable(c)]
    tried = [*ranking[:MAX_CERTIFIED], *nearer[:1], *_worse_by_steps(run, ranking)]
    for number, candidate in enumerate(tried, start=1):
        certificate = _certify(problem, run, candidate, deadline, number == len(tried))
        point = Point(problem.chain.end.levels, candidate.x, candidate.y)
        best: Best = (certificate, point, candidate.source)
        if certificate.accepted:
            before = None if kept is None else kept[0]
            if before is None or is_better(problem.sign, certificate, before):
                kept = best
            if not _has_rivals(problem, run, certificate, tried[number:]):
                break
        elif refused[0] is None:
            refused = best
        if deadline.is_over:
            break
    return refused if kept is None else kept


def _has_rivals(
    problem: BilevelProblem, run: Run, certificate: Certificate, others: list[Candidate]
) -> bool:
    """Whether a point that got another lower answer in its certificate is worth far less than others.

    A little less is what an exact answer costs, and the others would have to pay it too.
    """
    if certificate.y is None:
        return False
    reached = problem.sign * certificate.objective
    least = reached - WORTH * (1 + abs(reached))
    return any(run.is_acceptable(c) and problem.chain.invert_value(c.value) < least for c in others)


def _worse_by_steps(run: Run, ranking: list[Candidate]) -> list[Candidate]:
    """Candidates farther down: the best ones may all lie where the lower level is hardly feasible."""
    rest = [c for c in ranking[MAX_CERTIFIED:] if run.is_acceptable(c)]
    if not rest:
        return []
    unit = 1 + abs(ranking[0].value)
    found = (
        next((c for c in rest if c.value >= ranking[0].value + step * unit), None) for step in STEPS_DOWN
    )
    return [c for c in dict.fromkeys(found) if c is not None]


def _exact_first(run: Run, ranking: list[Candidate]) -> list[Candidate]:
    """Put an exact lower answer before one that only the tolerance lets the lower level keep.

    Where the lower level is not convex, its answers may lie far apart with hardly a difference for it,
    and all the difference for f.
    """
    model = run.model
    if not ranking or model.is_convex_below or model.has_integers or run.deadline.is_over:
        return ranking

    def loses(candidate: Candidate) -> bool:
        own, _ = run.solve_lower(candidate.x, candidate.y)
        at = candidate.x, candidate.y
        return own.has_point and loss_in_own_units(model, *at, own.y, run.p, run.tolerance) > EXACT

    first = ranking[0]
    if not run.is_acceptable(first) or not loses(first):
        return ranking
    most = first.value + WORTH * (1 + abs(first.value))
    near = [c for c in ranking[1:] if run.is_acceptable(c) and c.value <= most]
    exact = next((c for c in sorted(near, key=lambda c: c.gap)[:MAX_CERTIFIED] if not loses(c)), None)
    return ranking if exact is None else [exact, *(c for c in ranking if c is not exact)]


def _improve(problem: BilevelProblem, run: Run, best: Best, deadline: Deadline, seconds: float) -> Best:
    """Go on from a point at which the certificate sees f fall, as long as that pays.

    ``seconds`` is what a certificate takes: a better point needs one too.
    """
    before = deadline if deadline.is_never else deadline.keeping(seconds)
    for _ in range(DESCENTS):
        certificate, point, _ = best
        if certificate is None or point is None or certificate.descent is None or before.is_over:
            return best
        if certificate.claim in (Status.OPTIMAL, Status.LOCALLY_OPTIMAL):
            return best
        direction = upper_direction(problem, point, certificate.descent)
        is_exchanged = certificate.y is not None
        work = partial(descend, run, point, direction, before, is_exchanged=is_exchanged)
        found = unless_late(work, None, before)
        if found is None:
            return best
        better = _certify(problem, run, found, deadline)
        if not better.accepted or not is_better(problem.sign, better, certificate):
            return best
        best = better, Point(problem.chain.end.levels, found.x, found.y), found.source
    return best


def _certify(
    problem: BilevelProblem,
    run: Run,
    candidate: Candidate,
    deadline: Deadline,
    is_last_hope: bool = False,
) -> Certificate:
    chain = problem.chain

    def when_cut() -> None:
        run.is_cut_short = True

    reported = Bound(-np.inf, run.bound_source, run.bound_slack)
    if np.isfinite(run.bound):
        reported = replace(reported, value=chain.invert_value(run.bound))
    return certify_point(
        problem,
        chain.invert(Point(chain.end.levels, candidate.x, candidate.y)),
        tolerance=run.tolerance,
        optimality_gap=run.optimality_gap,
        reported=reported,
        spent=run.elapsed,
        deadline=deadline,
        adopts_exact_answer=True,
        is_last_hope=is_last_hope,
        when_cut=when_cut,
    )


def _look_where_it_stood(run: Run, deadline: Deadline) -> None:
    """A method that was stopped in the middle may not have told where it was."""
    if run.watched is None or run.best() is not None:
        return
    x, y = (np.array(part) for part in run.watched)
    if np.all(np.isfinite(x)) and np.all(np.isfinite(y)):
        answer, _ = run.model.solve_lower(x, run.p, y, deadline=deadline)
        if answer.status.has_point:
            run.propose(x, answer.y, "lower answer where the iteration stood", answer)


def probe_lower_level(run: Run, deadline: Deadline, count: int = PROBES) -> None:
    """Ask the lower level at several x, to tell why there is no point at all."""
    center = run.start[0] if run.start is not None else np.zeros(run.model.x.size)
    for x in [center, *spread(run.model.bounds(run.p), center, count, run.seed)]:
        near = np.zeros(run.model.y.size)
        answer, _ = run.model.solve_lower(x, run.p, near, deadline=deadline)
        run.tried.append((x, answer.status))
        if answer.status.has_point:
            run.propose(x, answer.y, "not the method: the library's lower answer at a start point")
        if deadline.is_over:
            break


def _where_unbounded(problem: BilevelProblem, run: Run, point: Point | None, deadline: Deadline) -> str:
    """Along which variable f improves; failing that, the variables that nothing bounds."""
    way_out = None if point is None else _look_for_a_way_out(problem, run, point, deadline)
    if way_out is not None and way_out.is_unbounded:
        return f": {way_out.text}"
    low, high = problem.plain_model.bounds(problem.parameter_values())
    free = problem.levels.x.entry_names(np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high)))
    return (
        f"; check these upper variables, which have no bound on one side: {', '.join(free)}"
        if free
        else ""
    )


def _look_for_a_way_out(
    problem: BilevelProblem, run: Run, point: Point, deadline: Deadline
) -> WayOut | None:
    def optimistic_value(x: np.ndarray) -> float:
        chosen = choose_optimistically(run, x)
        return np.inf if chosen is None or not run.is_acceptable(chosen) else chosen.value

    model = run.model
    if model.has_integers:  # between whole numbers there is nothing to walk to
        return None
    # A large lower level is asked less often, in proportion.
    at_least = ASKED_AT_LEAST * min(1.0, limits.ASKED_AGAIN.value / max(model.lower_size, 1))
    looked = Attainment(
        run.model,
        run.p,
        point.x,
        point.y,
        sign=problem.sign,
        tolerance=run.tolerance,
        violation=run.violation,
        optimistic_value=optimistic_value,
        deadline=deadline,
        describe=lambda direction: describe_direction(problem, point.x, direction),
        least=max(run.bound, run.least_value),
        most=max(at_least, SHARE_OF_ASKED * run.evaluations),
    )
    return looked.look()


def _without_answer(
    problem: BilevelProblem, run: Run, best: Best, deadline: Deadline, is_explained: bool
) -> Outcome:
    reason = None
    tried = {status for _, status in run.tried}
    # Where a limit was too short for one lower answer it is so for the programs of an explanation too.
    is_in_haste = run.stopped_by == "time limit" and tried <= {InnerStatus.FAILED}
    if is_explained and not is_in_haste and not deadline.is_over:
        within = deadline.earlier(LONGEST_EXPLANATION)
        reason = unless_late(partial(explain_relaxation, problem, within), None, deadline)
    if reason is not None:
        is_below = reason.kind == "lower infeasible"
        status = Status.LOWER_INFEASIBLE if is_below else Status.INFEASIBLE
        return Outcome(status, None, None, "", reason)
    if tried and tried <= {InnerStatus.INFEASIBLE, InnerStatus.UNBOUNDED}:
        return _without_lower_answer(problem, run, deadline)
    # A method that was stopped has not failed, so that there is nothing to explain.
    is_continuous = not run.model.has_integers
    if is_explained and is_continuous and run.stopped_by is None and not deadline.is_over:
        reason, point = explain_coupling(
            problem,
            tolerance=run.tolerance,
            seed=run.seed,
            deadline=deadline.earlier(LONGEST_EXPLANATION),
        )
        if point is not None and not run.is_infeasible:
            candidate = run.propose(point.x, point.y, "least violation of upper constraints")
            certificate = _certify(problem, run, candidate, deadline)
            if certificate.accepted:
                return Outcome(certificate.claim, certificate, point, run.candidates[-1].source)
    if run.is_infeasible or (reason is not None and reason.is_proven):
        return Outcome(Status.INFEASIBLE, None, None, "", reason)
    if InnerStatus.FAILED in tried and not is_in_haste:
        advice = rescaling_advice(run.model, run.p)
        run.note("the lower level could not be solved at every x" + (f"; {advice}" if advice else ""))
    return Outcome(Status.FAILED, *best, reason)


def _without_lower_answer(problem: BilevelProblem, run: Run, deadline: Deadline) -> Outcome:
    x, status = problem.chain.invert_upper(run.tried[-1][0]), run.tried[-1][1]
    where = (
        f"at every x that was tried ({counted(len(run.tried), 'point')}), for example at x = {array(x)}"
    )
    if status is InnerStatus.INFEASIBLE:
        conflicts = explain_lower_at(problem, x, deadline.earlier(LONGEST_EXPLANATION))
        reason = NoAnswer(
            "lower infeasible", f"the lower level has no feasible answer {where}", conflicts, False
        )
        return Outcome(Status.LOWER_INFEASIBLE, None, None, "", reason)
    names = lower_runaways(problem, x)
    along = f"{' and '.join(names)} without limit: " if names else ""
    text = f"{along}the lower level has an unbounded objective {where}"
    return Outcome(
        Status.LOWER_UNBOUNDED, None, None, "", NoAnswer("lower unbounded", text, is_proven=False)
    )
