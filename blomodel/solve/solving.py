"""The one way through: check, compile, run, certify, report."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.basics.alarm import alarm, seconds_of_compiling
from blomodel.basics.collector import resting_collector
from blomodel.basics.deadline import NEVER, Deadline, ending
from blomodel.basics.interrupts import CutShort, Interrupts
from blomodel.basics.log import log
from blomodel.basics.troubles import answers_and_troubles
from blomodel.declare.point import Point
from blomodel.errors import LowerLevelError
from blomodel.methods.requirements.verdicts import check_method
from blomodel.methods.run.arguments import check_arguments
from blomodel.methods.run.journal import Journal
from blomodel.methods.run.parallel import check_jobs
from blomodel.methods.run.registry import create_method
from blomodel.methods.run.run import UNBOUNDED, Run, StopRun
from blomodel.methods.run.run_state import RunState, state_of, take_up
from blomodel.methods.run.schedules import Schedule
from blomodel.methods.run.stopping import stop_rule_of
from blomodel.methods.search.fall import LookOut
from blomodel.solution import Solution
from blomodel.solve.listening import Listener, State
from blomodel.solve.outcome import Best, Outcome, settle
from blomodel.solve.time_left import (
    ROUNDS,
    TimeIsOver,
    better_outcome,
    end_of_certificate,
    grace_of_method,
    keep_time,
    note_on_compiling,
    time_for_more,
)
from blomodel.solvers.choice import SolverChoice, asking
from blomodel.status import Status

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem
    from blomodel.solve.progress import Progress

COMPILE_GRACE = 0.15  # seconds after a limit that compiling may take: small models need no more
PATIENCE = 5.0  # seconds that the certificate may take after Ctrl-C


def solve_problem(
    problem: BilevelProblem,
    method: str,
    *,
    began: float,
    interrupts: Interrupts,
    progress: Progress | None,
    callback: Callable[[State], object] | None = None,
    history_every: int | None = None,
    time_limit: float | None,
    max_iterations: int | None,
    tolerance: float,
    optimality_gap: float,
    seed: int,
    n_jobs: int,
    choice: SolverChoice,
    settings: dict[str, Any],
    warm_start: bool = True,
    is_explained: bool = True,
    resumed: RunState | None = None,
) -> float:
    """See BilevelProblem.solve."""
    used, compiled_before = time.process_time(), seconds_of_compiling()
    check_jobs(n_jobs)
    chosen = create_method(method, settings)
    check_arguments(
        time_limit=time_limit,
        max_iterations=max_iterations,
        tolerance=tolerance,
        optimality_gap=optimality_gap,
        seed=seed,
        callback=callback,
        history_every=history_every,
    )
    method = chosen.name  # which may have been given in another case
    problem.check_data()
    problem.user_start.look(problem.variables)
    limit = NEVER if time_limit is None else Deadline(began + time_limit)
    stated_settings = {
        "tolerance": tolerance,
        "optimality_gap": optimality_gap,
        "seed": seed,
        "time_limit": time_limit,
        "max_iterations": max_iterations,
        "n_jobs": n_jobs,
        "warm_start": warm_start,
        "history_every": history_every,
        **_stated(choice),
        **{name: _remembered(value) for name, value in settings.items()},
    }
    if resumed is not None:
        problem.forget_models()  # solvers begin as they began in the first run
    try:
        # Hardly any object that is made here is given up again.
        with interrupts.open(), alarm(limit, TimeIsOver, COMPILE_GRACE), resting_collector():
            model = problem.model
            model.compile_lower()
    except TimeIsOver:
        late = note_on_compiling(limit, began, seconds_of_compiling() - compiled_before)
        return _end_without_a_model(problem, method, time.perf_counter() - began, stated_settings, late)
    except KeyboardInterrupt:
        problem.forget_models()
        return _end_without_a_model(
            problem, method, time.perf_counter() - began, stated_settings, is_interrupted=True
        )
    compiled = time.perf_counter()
    listener = Listener(problem, method, progress, callback)
    interrupts.told = listener.control.stop
    run = Run(
        model=model,
        p=problem.parameter_values(),
        start=_start(problem, warm_start),
        tolerance=tolerance,
        optimality_gap=optimality_gap,
        seed=seed,
        deadline=limit,
        max_iterations=max_iterations,
        n_jobs=n_jobs,
        progress=listener if listener.is_awake else None,
        control=listener.control,
        history_every=history_every,
        solver=choice,
        look_out=LookOut(),
        journal=None if method == "auto" else Journal([] if resumed is None else resumed.calls),
    )
    with asking(choice, run.inner_solvers):
        check_method(run, chosen)
        run.stop_rule = stop_rule_of(chosen)
        if resumed is not None:
            take_up(run, resumed)
        load = (time.perf_counter() - began) / max(time.process_time() - used, 1e-3)
        _run_to_the_end(chosen, run, interrupts, (began, load))
        is_auto = method == "auto"

        def settled() -> tuple[Outcome, float]:
            solved = time.perf_counter()
            outcome = _settle(
                problem,
                run,
                interrupts,
                deadline=limit,
                began=began,
                is_explained=is_explained,
                goes_on=is_auto,
            )
            return outcome, time.perf_counter() - solved

        outcome, seconds = settled()
        certify_time = seconds
        for _ in range(ROUNDS if is_auto else 0):
            if not time_for_more(run, outcome, limit, began):
                break
            best, bound = run.best(), run.bound
            _run_to_the_end(chosen, run, interrupts)
            if run.best() is best and run.bound == bound:
                break
            again, seconds = settled()
            certify_time += seconds
            outcome = better_outcome(problem.sign, outcome, again)
        listener.end(run)
    total = time.perf_counter() - began
    late = note_on_compiling(limit, began, seconds_of_compiling() - compiled_before)
    if late:
        run.note(late)
    value = _record(problem, outcome)
    problem.solution = Solution(
        method=method,
        value=value,
        compile_time=compiled - began,
        solve_time=total - (compiled - began) - certify_time,
        certify_time=certify_time,
        settings=stated_settings,
        **_findings(problem, run, outcome),
    )
    given: dict[str, Any] = {"tolerance": tolerance, "optimality_gap": optimality_gap, "seed": seed}
    given["history_every"] = history_every
    state = state_of(run, method, given, settings)
    if state is not None:
        problem.solution = replace(problem.solution, run_state=state)
    if run.is_cut_short or limit.is_over:
        problem.forget_models()  # a solver that was left in the middle is not asked again
    if is_explained:
        _log_outcome(problem.solution)
    if listener.error is not None:  # of the callback; what was found is on the problem
        raise listener.error
    return value


def _log_outcome(solution: Solution) -> None:
    """A word where there is no answer, which a value of inf alone would not explain."""
    if solution.status.has_point or solution.status is Status.INTERRUPTED:
        log(logging.INFO, "%s: %s, value %.10g", solution.method, solution.status, solution.value)
        return
    reason = solution.status.meaning
    if solution.no_answer is not None:
        reason = solution.no_answer.sentence
    elif solution.certificate is not None:
        reason = "; ".join(solution.certificate.reasons)
    log(logging.WARNING, "%s: %s. problem.explain() tells more.", solution.status, reason)


def _run_to_the_end(
    method: Any, run: Run, interrupts: Interrupts, first: tuple[float, float] | None = None
) -> None:
    """Let the method run until it ends, meets a limit or is interrupted.

    ``first``: when the limit began, and the load, for ``keep_time``; None where that has been done.
    """
    low, high = run.model.bounds(run.p)
    if np.any(low - high > run.tolerance * (1 + np.abs(high))):
        run.is_infeasible = True
        run.note("bounds on an upper variable contradict each other")
        return
    try:
        with interrupts.open():
            if first is not None and not run.deadline.is_never:
                keep_time(run, *first)
            grace = grace_of_method(run.time_limit or 0.0)
            with ending(run.deadline), alarm(run.deadline, TimeIsOver, grace):
                method.run(run)
    except StopRun as stop:
        run.stopped_by = None if stop.reason == UNBOUNDED else stop.reason
        run.is_cut_short = isinstance(stop, TimeIsOver)
    except LowerLevelError as error:  # no wrong model: the status will say what is missing
        run.note(str(error))
    except KeyboardInterrupt:
        run.stopped_by = "user"
        run.is_cut_short = True


def _settle(
    problem: BilevelProblem,
    run: Run,
    interrupts: Interrupts,
    *,
    deadline: Deadline,
    began: float,
    is_explained: bool,
    goes_on: bool,
) -> Outcome:
    """Certify what was found. Ctrl-C ends what takes long, and keeps what is known by then."""
    known: list[Best] = []
    try:
        with interrupts.patience(PATIENCE), ending(end_of_certificate(deadline, began)):
            return settle(
                problem,
                run,
                deadline=deadline,
                is_interrupted=lambda: interrupts.has_come or run.stopped_by == "user",
                is_explained=is_explained,
                goes_on=goes_on,
                known=known,
            )
    except CutShort:
        run.stopped_by = "user"
        run.is_cut_short = True
        if known and known[-1][0] is not None:
            return Outcome(Status.INTERRUPTED, *known[-1])
        ranking = run.ranking()
        if not ranking:
            return Outcome(Status.INTERRUPTED, None, None, "")
        run.note("the certificate was interrupted: nothing is claimed about the point")
        point = Point(problem.chain.end.levels, ranking[0].x, ranking[0].y)
        return Outcome(Status.INTERRUPTED, None, point, ranking[0].source)


def _end_without_a_model(
    problem: BilevelProblem,
    method: str,
    seconds: float,
    settings: dict[str, Any],
    late: str = "",
    is_interrupted: bool = False,
) -> float:
    """Say that the time was over, or Ctrl-C pressed, before there was anything to solve."""
    status = Status.INTERRUPTED if is_interrupted else Status.FAILED
    cause = "Ctrl-C came" if is_interrupted else "the time limit was over"
    value = _record(problem, Outcome(status, None, None, ""))
    problem.solution = Solution(
        method=method,
        value=value,
        status=status,
        source="",
        iterations=0,
        evaluations=0,
        compile_time=seconds,
        solve_time=0.0,
        certify_time=0.0,
        history={},
        multipliers=[],
        stopped_by="user" if is_interrupted else "time limit",
        notes=(f"{cause} before the problem was compiled", *([late] if late else [])),
        sign=problem.sign,
        settings=settings,
        problem=problem,
    )
    return value


def _remembered(value: Any) -> Any:
    """A setting as the solution keeps it: a function that cannot be pickled by its text."""
    return repr(value) if callable(value) and not isinstance(value, Schedule) else value


def _stated(choice: SolverChoice) -> dict[str, Any]:
    """The preference as it was given to solve(), if one was."""
    if choice.name is None:
        return {}
    return {"solver": choice.name} | ({"solver_opts": dict(choice.options)} if choice.options else {})


def _start(problem: BilevelProblem, warm_start: bool) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Values set before the call; the answer of an earlier solve counts if the start is warm."""
    levels, end, known = problem.levels, problem.chain.end.levels, problem.user_start
    given = known.present(problem.variables) if warm_start else known.values(problem.variables)
    if any(given[leaf] is None for leaf in levels.upper):
        return None
    x = levels.x.join(given)
    if not np.all(np.isfinite(x)):
        return None
    values = levels.x.unpack(x)
    if all(given[leaf] is not None for leaf in levels.lower):
        values |= levels.y.unpack(levels.y.join(given))
    values = problem.chain.forward_values(values, problem.parameter_values())
    has_y = all(leaf in values for leaf in end.lower)
    return end.x.join(values), end.y.join(values) if has_y else None


def _record(problem: BilevelProblem, outcome: Outcome) -> float:
    """Set values, duals, status and certificate on the user's objects; the value to report."""
    status, certificate, point = outcome.status, outcome.certificate, outcome.point
    problem.status, problem.certificate = status, certificate
    is_kept = certificate is not None or status is Status.INTERRUPTED
    if point is None or not is_kept or status is Status.FAILED:
        for leaf in problem.variables:
            leaf.save_value(None)
        problem.user_start.leave(problem.variables)
        return (-np.inf if status is Status.UNBOUNDED else np.inf) * problem.sign
    answer = problem.chain.invert(point)
    if certificate is None:  # which was interrupted
        answer.assign()
        problem.user_start.leave(problem.variables)
        value = problem.model.f(point.x, point.y, problem.parameter_values())[0]
        return problem.sign * float(problem.chain.invert_value(value))
    # Where the lower answer is unique, it is reported to full accuracy.
    (answer if certificate.y is None else replace(answer, y=certificate.y)).assign()
    stated = [constraint for follower in problem.followers for constraint in follower.constraints]
    for constraint, dual in zip(stated, certificate.multipliers.values(), strict=False):
        # A cone such as SOC has a dual for each of its arguments, laid one after another.
        end = 0
        for variable in constraint.dual_variables:
            begin, end = end, end + variable.size
            part = np.ravel(dual, order="F")[begin:end]
            variable.save_value(np.reshape(part, variable.shape, order="F"))
    for follower in problem.followers:
        for multiplier in follower.multipliers.values():  # those that are no part of the answer
            if multiplier not in problem.levels.y:
                multiplier.take_dual_value()
    problem.user_start.leave(problem.variables)
    return certificate.objective


def _findings(problem: BilevelProblem, run: Run, outcome: Outcome) -> dict[str, Any]:
    """What a solution says about the answer and the way to it, in the problem's own variables."""
    certificate, chain = outcome.certificate, problem.chain
    answers, troubles = answers_and_troubles(run.inner_solvers)
    iterate: dict[str, np.ndarray] = {}
    if run.watched is not None:
        iterate = chain.invert(Point(chain.end.levels, *run.watched)).by_name
    return {
        "status": outcome.status,
        "source": outcome.source,
        "iterations": run.iterations,
        "evaluations": run.evaluations,
        "stopped_by": run.stopped_by,
        "notes": tuple(run.notes),
        "history": _history(problem, run),
        "multipliers": [] if certificate is None else list(certificate.multipliers.values()),
        "sign": problem.sign,
        "values": {v.name(): np.array(v.value) for v in problem.variables if v.value is not None},
        "iterate": iterate,
        "certificate": certificate,
        "problem": problem,
        "no_answer": outcome.no_answer,
        "inner_solvers": answers,
        "solver_troubles": troubles,
    }


def _history(problem: BilevelProblem, run: Run) -> dict[str, np.ndarray]:
    """The figures of the run, with x and values as the problem states them."""
    columns, chain = run.record(), problem.chain
    if problem.model is problem.plain_model:  # whose vectors are the problem's own
        return columns
    if "y" in columns:
        points = [Point(chain.end.levels, x, y) for x, y in zip(columns["x"], columns["y"], strict=True)]
        columns["y"] = np.array([chain.invert(point).y for point in points])
    if "x" in columns:
        columns["x"] = np.array([chain.invert_upper(x) for x in columns["x"]])
    if "value" in columns:
        columns["value"] = np.array([chain.invert_value(value) for value in columns["value"]])
    return columns
