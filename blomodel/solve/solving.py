"""The one way through: check, compile, run, certify, report."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.certification.certificate import Certificate
from blomodel.certification.certifying import dense_seconds
from blomodel.errors import DataError, LowerLevelError, UnknownSettingError
from blomodel.methods.run.parallel import check_jobs
from blomodel.methods.run.registry import create_method
from blomodel.methods.run.run import Run, StopRun
from blomodel.model.multistart import MultistartLower
from blomodel.solution import Solution
from blomodel.solve.outcome import Outcome, settle
from blomodel.status import Status
from blomodel.text.layout import array
from blomodel.text.shorten import shorten

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem
    from blomodel.solve.progress import Progress

FIRST_SHARE = 0.2  # of a time limit, for the lower answer at the first x


def solve_problem(
    problem: BilevelProblem,
    method: str,
    *,
    began: float,
    progress: Progress | None,
    time_limit: float | None,
    max_iterations: int | None,
    tolerance: float,
    seed: int,
    n_jobs: int,
    settings: dict[str, Any],
    is_explained: bool = True,
) -> float:
    """See BilevelProblem.solve."""
    used = time.process_time()
    check_jobs(n_jobs)
    chosen = create_method(method, settings)
    _check_limits(time_limit, max_iterations, tolerance)
    problem.check_data()
    model = problem.model
    # Compiles, and refuses a nonconvex lower level to a method that cannot take one.
    _ = model.lower_solver if allows_nonconvex_lower(chosen) else model.lower_program
    compiled = time.perf_counter()
    run = Run(
        model=model,
        p=problem.parameter_values(),
        start=_start(problem),
        tolerance=tolerance,
        seed=seed,
        time_limit=None if time_limit is None else time_limit - (compiled - began),
        max_iterations=max_iterations,
        n_jobs=n_jobs,
        progress=progress,
    )
    if time_limit is not None:
        _keep_time(run, load=(time.perf_counter() - began) / max(time.process_time() - used, 1e-3))
    is_interrupted = False
    try:
        chosen.run(run)
    except StopRun as stop:
        run.stopped_by = stop.reason
    except KeyboardInterrupt:
        run.stopped_by, is_interrupted = "user", True
    solved = time.perf_counter()
    outcome = settle(
        problem,
        run,
        deadline=np.inf if time_limit is None else began + time_limit,
        is_interrupted=is_interrupted,
        is_explained=is_explained,
    )
    certified = time.perf_counter()
    if time_limit is not None:
        model.multistart.deadline = np.inf
    value = _record(problem, outcome)
    problem.solution = Solution(
        status=outcome.status,
        method=method,
        source=outcome.source,
        value=value,
        iterations=run.iterations,
        evaluations=run.evaluations,
        compile_time=compiled - began,
        solve_time=solved - compiled,
        certify_time=certified - solved,
        stopped_by=run.stopped_by,
        notes=tuple(run.notes),
        history=run.record(),
        multipliers=_multipliers(problem, outcome.certificate),
        sign=problem.sign,
        settings={
            "tolerance": tolerance,
            "seed": seed,
            "time_limit": time_limit,
            "max_iterations": max_iterations,
            "n_jobs": n_jobs,
            **settings,
        },
        values={v.name(): np.array(v.value) for v in problem.variables if v.value is not None},
        iterate={} if run.watched is None else _by_name(problem, run.watched),
        certificate=outcome.certificate,
        problem=problem,
        no_answer=outcome.no_answer,
    )
    if outcome.status in (Status.LOWER_INFEASIBLE, Status.LOWER_UNBOUNDED):
        _raise_lower_error(run, outcome)
    return value


def allows_nonconvex_lower(method: Any) -> bool:
    """Whether a method declares that it takes lower levels that are not convex."""
    return bool(getattr(method, "allows_nonconvex_lower", False))


def _keep_time(run: Run, load: float) -> None:
    """Leave a point for the case that the method finds none in time, and time to certify one.

    ``load`` is the time that passes for each second of work, on a machine that others use too.
    """
    assert run.time_limit is not None
    model, began = run.model, time.perf_counter()
    model.multistart.deadline = run.began + FIRST_SHARE * run.time_limit
    x = run.start[0] if run.start is not None else np.clip(0.0, *model.bounds(run.p))
    near = np.zeros(model.y.size)
    answer, _ = model.solve_lower(x, run.p, near)
    run.tried.append((x, answer.status))
    if answer.status.has_point:
        run.propose(x, answer.y, "lower answer at the first x")
    model.multistart.deadline = run.began + run.time_limit
    reserve = dense_seconds(model.y.size + len(model.lower_in) + len(model.lower_eq))
    reserve *= float(np.clip(load, 1.0, 5.0))
    if isinstance(model.lower_solver, MultistartLower):
        reserve = time.perf_counter() - began  # the certificate searches from as many starts
    run.time_limit -= min(reserve, 0.4 * run.time_limit)


def _check_limits(time_limit: float | None, max_iterations: int | None, tolerance: float) -> None:
    if not tolerance > 0:
        raise UnknownSettingError(f"tolerance = {tolerance!r} must be positive.")
    if time_limit is not None and not time_limit > 0:
        raise UnknownSettingError(f"time_limit = {time_limit!r} must be positive seconds or None.")
    if max_iterations is not None and max_iterations < 1:
        raise UnknownSettingError(f"max_iterations = {max_iterations!r} must be at least 1 or None.")


def _start(problem: BilevelProblem) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Values set before the call; the answer of an earlier solve counts, as in cvxpy."""
    levels, model = problem.levels, problem.model
    if any(variable.value is None for variable in levels.upper):
        return None

    def vector(block, leaves) -> np.ndarray:  # type: ignore[no-untyped-def]
        values = np.empty(block.size)
        for plain, leaf in zip(block.leaves, leaves, strict=True):
            value = leaf.value.toarray() if hasattr(leaf.value, "toarray") else leaf.value
            if np.size(value) != leaf.size:
                raise DataError(
                    f"The start value of '{leaf.name()}' has shape {np.shape(value)}, but the variable "
                    f"has shape {leaf.shape}."
                )
            values[block.slice_of(plain)] = np.ravel(value, order="F")
        return values

    x = vector(model.x, levels.upper)
    if not np.all(np.isfinite(x)):
        return None
    if any(variable.value is None for variable in levels.lower):
        return x, None
    return x, vector(model.y, levels.lower)


def _record(problem: BilevelProblem, outcome: Outcome) -> float:
    """Set values, duals and status on the user's objects."""
    model, levels = problem.model, problem.levels
    status, certificate, point = outcome.status, outcome.certificate, outcome.point
    problem.status, problem.certificate = status, certificate
    if point is None or certificate is None:
        for leaf in problem.variables:
            leaf.save_value(None)
        problem._value = (-np.inf if status is Status.UNBOUNDED else np.inf) * problem.sign
        return problem._value
    for block, vector, leaves in (
        (model.x, point[0], levels.upper),
        (model.y, point[1], levels.lower),
    ):
        for leaf, value in zip(leaves, block.unpack(vector).values(), strict=True):
            leaf.save_value(value.copy() if leaf.ndim else np.asarray(value.item()))
    for constraint, dual in zip(
        problem.lower.constraints, _multipliers(problem, certificate), strict=False
    ):
        # A cone such as SOC has a dual for each of its arguments, laid one after another.
        end = 0
        for variable in constraint.dual_variables:
            begin, end = end, end + variable.size
            part = np.ravel(dual, order="F")[begin:end]
            variable.save_value(np.reshape(part, variable.shape, order="F"))
    problem._value = certificate.objective
    return certificate.objective


def _by_name(problem: BilevelProblem, point: tuple[np.ndarray, np.ndarray]) -> dict[str, np.ndarray]:
    """A point given as flat vectors, as a copy in the shapes of the user's variables."""
    model, levels = problem.model, problem.levels
    blocks = ((model.x, levels.upper, point[0]), (model.y, levels.lower, point[1]))
    return {
        leaf.name(): value.copy()
        for block, leaves, vector in blocks
        for leaf, value in zip(leaves, block.unpack(vector).values(), strict=True)
    }


def _multipliers(problem: BilevelProblem, certificate: Certificate | None) -> list[np.ndarray]:
    if certificate is None or not certificate.multipliers:
        return []
    return [certificate.multipliers[k] for k in range(len(problem.lower.constraints))]


def _raise_lower_error(run: Run, outcome: Outcome) -> None:
    what = "no feasible answer"
    if outcome.status is Status.LOWER_UNBOUNDED:
        what = "an unbounded objective"
    x = run.tried[-1][0]
    conflicts = outcome.no_answer.conflicts if outcome.no_answer is not None else ()
    names = "; ".join(shorten(conflict.constraint, 60) for conflict in conflicts)
    about = f" These constraints are in conflict: {names}." if names else ""
    raise LowerLevelError(
        f"The lower level has {what} at every x that was tried ({len(run.tried)} points), for example "
        f"at x = {array(x)}.{about} Check the lower constraints and "
        "the bounds of its variables.",
        x,
    )
