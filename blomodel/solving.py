"""The one way through: check, compile, run, certify, report."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

import blomodel.methods.all  # noqa: F401 - registers the methods
from blomodel.certificate import Certificate, certify_point
from blomodel.errors import DataError, LowerLevelError, UnknownSettingError
from blomodel.inner.answer import InnerStatus
from blomodel.methods.registry import create_method
from blomodel.methods.run import Run, StopRun
from blomodel.methods.starts import spread
from blomodel.solution import Solution
from blomodel.status import Status

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem
    from blomodel.progress import Progress

MAX_CERTIFIED = 5  # candidates tried before the answer counts as failed


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
    settings: dict[str, Any],
) -> float:
    """See BilevelProblem.solve."""
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
        progress=progress,
    )
    is_interrupted = False
    try:
        chosen.run(run)
    except StopRun as stop:
        run.stopped_by = stop.reason
    except KeyboardInterrupt:
        run.stopped_by, is_interrupted = "user", True
    solved = time.perf_counter()
    if not run.candidates and not is_interrupted:
        probe_lower_level(run)
    certificate, point, source = _certify_best(problem, run, tolerance)
    certified = time.perf_counter()
    status = _status(run, certificate, is_interrupted)
    value = _record(problem, status, certificate, point)
    problem.solution = Solution(
        status=status,
        method=method,
        source=source,
        value=value,
        iterations=run.iterations,
        evaluations=run.evaluations,
        compile_time=compiled - began,
        solve_time=solved - compiled,
        certify_time=certified - solved,
        stopped_by=run.stopped_by,
        notes=tuple(run.notes),
        history=run.record(),
        multipliers=_multipliers(problem, certificate),
        sign=problem.sign,
        settings={
            "tolerance": tolerance,
            "seed": seed,
            "time_limit": time_limit,
            "max_iterations": max_iterations,
            **settings,
        },
        values={v.name(): np.array(v.value) for v in problem.variables if v.value is not None},
        certificate=certificate,
        problem=problem,
    )
    if status is Status.LOWER_INFEASIBLE:
        _raise_lower_error(run)
    return value


def allows_nonconvex_lower(method: Any) -> bool:
    """Whether a method declares that it takes lower levels that are not convex."""
    return bool(getattr(method, "allows_nonconvex_lower", False))


def _check_limits(time_limit: float | None, max_iterations: int | None, tolerance: float) -> None:
    if not tolerance > 0:
        raise UnknownSettingError(f"tolerance = {tolerance!r} must be positive.")
    if time_limit is not None and not time_limit > 0:
        raise UnknownSettingError(f"time_limit = {time_limit!r} must be positive seconds or None.")
    if max_iterations is not None and max_iterations < 1:
        raise UnknownSettingError(
            f"max_iterations = {max_iterations!r} must be at least 1 or None."
        )


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


def _certify_best(
    problem: BilevelProblem, run: Run, tolerance: float
) -> tuple[Certificate | None, tuple[np.ndarray, np.ndarray] | None, str]:
    """The best candidate that passes the certificate; failing that, the least wrong one's refusal."""
    bound = run.bound if np.isfinite(run.bound) else None
    refused = None
    for candidate in run.ranking()[:MAX_CERTIFIED]:
        certificate = certify_point(
            problem,
            candidate.x,
            candidate.y,
            tolerance=tolerance,
            bound=bound,
            bound_source=run.bound_source,
        )
        point = (candidate.x, candidate.y)
        if certificate.accepted:
            return certificate, point, candidate.source
        if refused is None:
            refused = certificate, point, candidate.source
    return refused or (None, None, "")


def probe_lower_level(run: Run, count: int = 10) -> None:
    """Ask the lower level at several x, to tell why there is no point at all."""
    center = run.start[0] if run.start is not None else np.zeros(run.model.x.size)
    for x in [center, *spread(run.model.bounds(run.p), center, count, run.seed)]:
        near = np.zeros(run.model.y.size)
        run.tried.append((x, run.model.solve_lower(x, run.p, near)[0].status))


def _status(run: Run, certificate: Certificate | None, is_interrupted: bool) -> Status:
    if is_interrupted:
        return Status.INTERRUPTED
    if certificate is not None and certificate.accepted:
        return certificate.claim
    if run.is_unbounded:
        return Status.UNBOUNDED
    without_answer = (InnerStatus.INFEASIBLE, InnerStatus.UNBOUNDED)
    if run.tried and all(status in without_answer for _, status in run.tried):
        return Status.LOWER_INFEASIBLE
    if run.is_infeasible:
        return Status.INFEASIBLE
    return Status.FAILED


def _record(
    problem: BilevelProblem,
    status: Status,
    certificate: Certificate | None,
    point: tuple[np.ndarray, np.ndarray] | None,
) -> float:
    """Set values, duals and status on the user's objects."""
    problem.status, problem.certificate = status, certificate
    model, levels = problem.model, problem.levels
    if point is None or certificate is None:
        for leaf in problem.variables:
            leaf.save_value(None)
        problem._value = {
            Status.UNBOUNDED: -np.inf,
        }.get(status, np.inf) * problem.sign
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


def _multipliers(problem: BilevelProblem, certificate: Certificate | None) -> list[np.ndarray]:
    if certificate is None or not certificate.multipliers:
        return []
    return [certificate.multipliers[k] for k in range(len(problem.lower.constraints))]


def _raise_lower_error(run: Run) -> None:
    x, status = run.tried[-1]
    what = "no feasible answer" if status is InnerStatus.INFEASIBLE else "an unbounded objective"
    raise LowerLevelError(
        f"The lower level has {what} at every x that was tried ({len(run.tried)} points), for example "
        f"at x = {np.array2string(x, precision=6, threshold=8)}. Check the lower constraints and the "
        "bounds of its variables.",
        x,
    )
