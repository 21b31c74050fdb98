"""How a time limit is divided: a first point, the search, the certificate, and the search again.

What to keep for the certificate can only be guessed before there was one. The guess is on the safe side,
and what the certificate leaves of it goes back to the search.
"""

from __future__ import annotations

import time

import numpy as np

from blomodel.basics.alarm import alarm
from blomodel.basics.deadline import NEVER, Deadline, ending
from blomodel.certification.reserve import certificate_reserve, lower_reserve
from blomodel.methods.portfolio.apart import ENDS_OF_PARTS
from blomodel.methods.portfolio.plan import ENDS_OF_STEPS
from blomodel.methods.run.run import Run, StopRun
from blomodel.solve.going_on import is_better
from blomodel.solve.outcome import Outcome
from blomodel.status import Status

FIRST_SHARE = 0.2  # of a time limit, for the lower answer at the first x
FIRST_SOURCE = "not the method: the library's lower answer at the first x"
LONGEST_FIRST = 0.5  # of a time limit, after which that answer is given up
AT_LEAST = 0.2  # seconds for it in any case
RESERVE_SHARE = 0.4  # of a time limit, kept for the certificate,
RESERVE_MOST = 0.7  # and of what compiling has left of it
RESERVE_LEAST = 0.02  # share kept in any case: no search misses it, and a claim is lost where it lacks
GRACE = 0.02  # share of a time limit, and seconds, in which a method may end by itself
STEP = 2.0  # what a step of a method takes beside a lower answer: its derivatives come with it
LATE, LATE_SHARE = 0.1, 0.03  # seconds, and share of a limit, after it in which a certificate must end
LEAST = 0.2  # seconds for it in any case: without one nothing that was found can be kept
ROUNDS = 4  # of search and certificate
WORTH = 0.05  # share of a time limit that is worth another round
AGAIN = 1.5  # times what the last certificate took, kept for the next one,
AGAIN_MOST = 0.6  # but no more of what is left: a certificate without time for all its tests is one too
VISIBLE, VISIBLE_SHARE = 0.2, 0.05  # seconds, and share of a limit, that a solve may be late in silence
OPEN_CLAIMS = (Status.FEASIBLE, Status.STATIONARY, Status.LOCALLY_OPTIMAL)


class TimeIsOver(StopRun):
    """Raised in a method that does not notice that its time is over."""

    def __init__(self) -> None:
        super().__init__("time limit")


def keep_time(run: Run, limit_began: float, load: float) -> None:
    """Leave a point for the case that the method finds none in time, and time to certify one.

    ``load`` is the time that passes for each second of work, on a machine that others use too.
    """
    model, whole = run.model, run.deadline
    run.deadline = whole.earlier(FIRST_SHARE * whole.remaining)
    x = run.start[0] if run.start is not None else np.clip(0.0, *model.bounds(run.p))
    near = np.zeros(model.y.size)
    began = time.perf_counter()
    # The certificate asks once more; but where the machine is busy one answer is worth all the time.
    latest = whole.earlier(max(LONGEST_FIRST * whole.remaining, AT_LEAST))
    try:
        with ending(latest), alarm(latest, TimeIsOver, GRACE):
            answer, _ = run.solve_lower(x, near)
            run.tried.append((x, answer.status))
            if answer.status.has_point:
                run.propose(x, answer.y, FIRST_SOURCE, answer)
    except TimeIsOver:
        run.note("the lower level takes so long that the time limit leaves room for one answer at most")
    seconds = time.perf_counter() - began
    most = min(RESERVE_SHARE * (whole.at - limit_began), RESERVE_MOST * (whole.at - run.began))
    # What the machine will be asked for by others in the last moments is not known now.
    least = RESERVE_LEAST * (whole.at - limit_began)
    kept = min(max(certificate_reserve(model, seconds, load), least), most)
    if model.is_convex_below:  # tests may be left out, but not the lower value
        kept = max(kept, min(lower_reserve(model, seconds, load), RESERVE_MOST * whole.remaining))
    # A method looks at the clock between steps: what its last one takes is no time for tests.
    late = min(STEP * seconds, grace_of_method(whole.at - limit_began))
    run.deadline = whole.keeping(min(kept + late, max(most, kept)))


def grace_of_method(time_limit: float) -> float:
    """Seconds after its time in which a method may end by itself."""
    return GRACE * (1 + time_limit)


def end_of_certificate(limit: Deadline, began: float) -> Deadline:
    """When a certificate must have ended: each part has some grace, all of them together no more."""
    if limit.is_never:
        return NEVER
    allowed = Deadline(limit.at + LATE + LATE_SHARE * (limit.at - began))
    return max(allowed, Deadline.after(LEAST))


def time_for_more(run: Run, outcome: Outcome, limit: Deadline, began: float) -> bool:
    """Give the search what the certificate has left of the limit; whether that is worth it.

    ``began`` is when the limit began.
    """
    if limit.is_never or run.stopped_by != "time limit" or outcome.status not in OPEN_CLAIMS:
        return False
    kept = min(AGAIN * outcome.seconds, AGAIN_MOST * limit.remaining)
    if limit.remaining - kept < WORTH * (limit.at - began):
        return False
    run.deadline, run.stopped_by = limit.keeping(kept), None
    if run.is_cut_short:  # a tree that was left in the middle of a step may have lost a branch
        run.forget(but=(ENDS_OF_STEPS, ENDS_OF_PARTS))
        run.is_cut_short = False
    return True


def better_outcome(sign: float, old: Outcome, new: Outcome) -> Outcome:
    """Of what two certificates in turn allow to claim, the one to report."""
    if old.certificate is None or new.certificate is None or not new.certificate.accepted:
        return old
    if new.status not in OPEN_CLAIMS or is_better(sign, new.certificate, old.certificate):
        return new
    # The same value: what the first found time to prove stands.
    return new if OPEN_CLAIMS.index(new.status) >= OPEN_CLAIMS.index(old.status) else old


def note_on_compiling(limit: Deadline, began: float, compiled: float) -> str:
    """Why a solve is late, where kernels had to be compiled first; empty where it is not.

    ``compiled``: seconds of the solve that went into that.
    """
    late = -limit.remaining
    is_visible = not limit.is_never and late > VISIBLE + VISIBLE_SHARE * (limit.at - began)
    if not is_visible or compiled < late / 2:
        return ""
    return (
        f"the time limit was exceeded by {late:.1f} s: the first use of a method compiles numerical "
        f"kernels ({compiled:.1f} s here), which cannot be stopped half-way, and is not repeated"
    )
