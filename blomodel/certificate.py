"""An independent check of a bilevel answer, from the model as the user wrote it.

Objective and constraints are evaluated by cvxpy itself, and the lower level's optimal value comes
from a separate solve (cvxpy's own canonicalisation, Clarabel, tight tolerances), not from the
compiled functions that the methods use.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.analysis.levels import shorten
from blomodel.analysis.local import STATIONARY, study_neighbourhood
from blomodel.compiler.attributes import Substitution, attribute_constraints, plain_copy
from blomodel.inner.answer import InnerStatus
from blomodel.inner.multistart import MultistartLower
from blomodel.reformulations.kkt import convex_objective
from blomodel.status import Status

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

CLARABEL_TOLERANCES = {
    "tol_gap_abs": 1e-10,
    "tol_gap_rel": 1e-10,
    "tol_feas": 1e-10,
    "max_iter": 200,
}


@dataclass(frozen=True)
class Certificate:
    """What was checked about a point, and the claim that follows.

    Attributes
    ----------
    claim : Status
        The strongest status that the checks support.
    accepted : bool
        Whether the point is feasible above and optimal below, within ``tolerance``.
    objective : float
        Upper objective in the user's sense.
    upper_violation, lower_violation : float
        Largest violation of a constraint of the level, relative to 1 + the largest entry of (x, y).
    lower_value : float
        v(x): the lower level's optimal value at x, in the user's sense.
    lower_gap : float
        How much better the lower level could do, relative to 1 + abs(v(x)).
    lower_is_unique : bool or None
        Whether the lower minimiser looks unique; None: not known.
    stationarity : float or None
        Largest relative first-order decrease of f over the pieces that meet here; None: not known.
    bound : float or None
        No bilevel feasible point has a better upper objective than this.
    multipliers : dict
        Lower constraints' multipliers at x, by position.
    reasons : tuple of str
        Why the claim is what it is.
    """

    claim: Status
    accepted: bool
    objective: float
    upper_violation: float
    lower_violation: float
    lower_value: float
    lower_gap: float
    lower_is_unique: bool | None
    stationarity: float | None
    bound: float | None
    bound_source: str
    tolerance: float
    checked_by: str
    reasons: tuple[str, ...]
    multipliers: dict[int, np.ndarray] = field(repr=False)

    def __str__(self) -> str:
        from blomodel.report.certificate_text import format_certificate

        return format_certificate(self)


@dataclass(frozen=True)
class _LowerSolve:
    status: InnerStatus
    value: float  # minimised
    y: np.ndarray | None
    duals: list[np.ndarray]
    checked_by: str
    is_proven: bool = True  # False: the value comes from local searches


def certify_point(
    problem: BilevelProblem,
    x: np.ndarray,
    y: np.ndarray,
    *,
    tolerance: float,
    bound: float | None = None,
    bound_source: str = "",
) -> Certificate:
    """Check the point given as flat vectors. ``bound`` is for the minimised upper objective."""
    model = problem.model
    reasons: list[str] = []
    saved = [(leaf, leaf.value) for leaf in problem.variables]
    try:
        _assign(problem, x, y)
        scale = 1 + max(np.abs(x).max(initial=0), np.abs(y).max(initial=0))
        objective = float(problem.objective.args[0].value)
        g_value = problem.lower.sign * float(problem.lower.objective.args[0].value)
        upper, upper_worst = _violation(problem.constraints, problem.levels.upper)
        below, lower_worst = _violation(problem.lower.constraints, problem.levels.lower)
    finally:
        for leaf, value in saved:
            leaf.save_value(value)
    lower = _solve_lower(problem, x, y)
    gap = (g_value - lower.value) / (1 + abs(lower.value)) if lower.y is not None else np.inf
    is_finite = bool(np.isfinite(objective) and np.isfinite(g_value))
    if not is_finite:
        reasons.append("an objective is not finite at this point")
    if not upper / scale <= tolerance:
        reasons.append(f"infeasible above: {upper_worst} is violated by {upper:.3g}")
    if not below / scale <= tolerance:
        reasons.append(f"infeasible below: {lower_worst} is violated by {below:.3g}")
    if lower.status is InnerStatus.INFEASIBLE:
        reasons.append("the lower level has no feasible answer at this x")
    elif lower.status is InnerStatus.UNBOUNDED:
        reasons.append("the lower objective improves without limit at this x")
    elif lower.y is None:
        reasons.append("the lower level's optimal value at this x could not be computed")
    elif not gap <= tolerance:
        best = np.array2string(lower.y, precision=6, threshold=8)
        reasons.append(
            f"the lower level can do better by {g_value - lower.value:.6g}: it reaches "
            f"{problem.lower.sign * lower.value:.6g} at y = {best}, not "
            f"{problem.lower.sign * g_value:.6g}"
        )
    accepted = not reasons
    claim, stationarity, unique = Status.FAILED, None, None
    f_value = problem.sign * objective
    if accepted:
        multipliers = _sharpest_multipliers(problem, x, y, lower)
        unique = looks_unique(problem, x, y, multipliers)
        if unique and not lower.is_proven:
            unique = None  # a test of the neighbourhood says nothing about minimisers elsewhere
        facts = study_neighbourhood(
            model,
            problem.parameter_values(),
            x,
            y,
            multipliers,
            # Without a proven lower answer only the first-order test counts, which comes first.
            has_convex_pieces=not lower.is_proven
            or convex_objective(model, problem.parameter_values()) is not None,
        )
        stationarity = facts.stationarity
        claim = Status.FEASIBLE
        if not lower.is_proven:
            is_level = stationarity is not None and stationarity <= STATIONARY
            claim = Status.STATIONARY if is_level else Status.FEASIBLE
            reasons.append("stationary to first order" if is_level else facts.reason)
            reasons.append(
                "the lower level is not convex: local searches found no better lower answer, which "
                "does not prove that there is none"
            )
        elif bound is not None and f_value <= bound + tolerance * (1 + abs(bound)):
            claim = Status.OPTIMAL
            reasons.append(f"the bound from {bound_source} is reached")
        elif facts.is_local_optimum:
            claim = Status.LOCALLY_OPTIMAL
            reasons.append(facts.reason)
        else:
            if stationarity is not None and stationarity <= STATIONARY:
                claim = Status.STATIONARY
            reasons.append(facts.reason)
    return Certificate(
        claim=claim,
        accepted=accepted,
        objective=objective,
        upper_violation=upper / scale,
        lower_violation=below / scale,
        lower_value=problem.lower.sign * lower.value,
        lower_gap=gap,
        lower_is_unique=unique,
        stationarity=stationarity,
        bound=None if bound is None or not np.isfinite(bound) else problem.sign * bound,
        bound_source=bound_source if bound is not None and np.isfinite(bound) else "",
        tolerance=tolerance,
        checked_by=lower.checked_by,
        reasons=tuple(reasons),
        multipliers=dict(enumerate(lower.duals)),
    )


def _assign(problem: BilevelProblem, x: np.ndarray, y: np.ndarray) -> None:
    for block, vector, leaves in (
        (problem.model.x, x, problem.levels.upper),
        (problem.model.y, y, problem.levels.lower),
    ):
        for leaf, value in zip(leaves, block.unpack(vector).values(), strict=True):
            leaf.save_value(value.copy())


def _violation(
    constraints: list[Constraint], variables: tuple[cp.Variable, ...]
) -> tuple[float, str]:
    worst, label = 0.0, ""
    for constraint in constraints:
        violation = float(np.max(constraint.violation(), initial=0.0))
        if not violation <= worst:
            worst, label = violation, repr(shorten(constraint, 60))
    for variable in variables:
        if plain_copy(variable) is variable:
            continue
        distance = float(np.abs(variable.project(variable.value) - variable.value).max(initial=0))
        if not distance <= worst:
            worst, label = distance, f"an attribute of '{variable.name()}'"
    return worst, label


def _solve_lower(problem: BilevelProblem, x: np.ndarray, y: np.ndarray) -> _LowerSolve:
    """v(x) by cvxpy and Clarabel on the lower level as written, with x put in as numbers.

    Where its convexity is not certain: by local searches, one of them from ``y``.
    """
    model, levels = problem.model, problem.levels
    if isinstance(model.lower_solver, MultistartLower):
        return _search_lower(problem, x, y)
    values = list(model.x.unpack(x).values())
    plain = [plain_copy(variable) for variable in levels.lower]
    substitute = Substitution((*levels.upper, *levels.lower), (*map(cp.Constant, values), *plain))
    objective = cp.Minimize(problem.lower.sign * substitute(problem.lower.objective.args[0]))
    constraints = [substitute(constraint) for constraint in problem.lower.constraints]
    for variable, copy in zip(levels.lower, plain, strict=True):
        constraints += attribute_constraints(variable, copy)
    lower = cp.Problem(objective, constraints)
    if lower.is_dcp() and not model.lower_program.is_large_and_smooth:
        solved = _solve_by_cvxpy(lower, plain)
        if solved is not None:
            return solved
    return _search_lower(problem, x, y)


def _search_lower(problem: BilevelProblem, x: np.ndarray, y: np.ndarray) -> _LowerSolve:
    """v(x) by the compiled lower level: its exact quadratic form, or local searches."""
    model = problem.model
    p = problem.parameter_values()
    answer, is_proven = model.solve_lower(x, p, y, warm=False, accuracy=1e-9)
    by = "the exact quadratic form of the lower level"
    if is_proven and model.lower_program.is_large_and_smooth:
        by = "Newton's method; convex by cvxpy's rules"
    if not is_proven:
        by = f"{model.multistart.n_starts} local searches, not a proof"
    has_point = answer.status.has_point
    return _LowerSolve(
        answer.status, answer.value, answer.y if has_point else None, answer.duals, by, is_proven
    )


def _solve_by_cvxpy(lower: cp.Problem, variables: list[cp.Variable]) -> _LowerSolve | None:
    saved = [(leaf, leaf.value) for leaf in variables]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an inaccurate solve is noticed by its status below
            lower.solve(solver=cp.CLARABEL, **CLARABEL_TOLERANCES)
    except cp.SolverError:
        return None
    y = None
    if lower.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        y = np.concatenate([np.ravel(variable.value, order="F") for variable in variables])
    for leaf, value in saved:
        leaf.save_value(value)
    status = {
        cp.OPTIMAL: InnerStatus.OPTIMAL,
        cp.OPTIMAL_INACCURATE: InnerStatus.INACCURATE,
        cp.INFEASIBLE: InnerStatus.INFEASIBLE,
        cp.UNBOUNDED: InnerStatus.UNBOUNDED,
    }.get(lower.status)
    if status is None or (status is not InnerStatus.OPTIMAL and y is not None):
        return None
    duals = [_dual(constraint) for constraint in lower.constraints] if y is not None else []
    return _LowerSolve(status, float(lower.value), y, duals, "cvxpy and Clarabel")


def _sharpest_multipliers(
    problem: BilevelProblem, x: np.ndarray, y: np.ndarray, lower: _LowerSolve
) -> np.ndarray:
    """The lower multipliers that fit the KKT conditions at the point best.

    An interior-point solver leaves weakly active rows with multipliers that are small but not zero;
    which rows press at all decides which pieces meet here.
    """
    model, p = problem.model, problem.parameter_values()
    if not lower.is_proven:
        return model.split_duals(model.multistart.fit_duals(x, y, p))
    checked = model.split_duals(lower.duals)
    if not model.has_smooth_kkt:
        return checked
    rows = model.lower_in.values(x, y, p)

    def misfit(multipliers: np.ndarray) -> float:
        pressure = multipliers[: len(rows)]
        return float(
            np.abs(model.lower_stationarity(x, y, p, multipliers)).max(initial=0)
            + np.abs(pressure * rows).max(initial=0)
            + np.maximum(-pressure, 0).max(initial=0)
        )

    again = model.lower_program.solve(x, p)
    candidates = [checked]
    if again.status.has_point:
        candidates.append(model.split_duals(again.duals))
    return min(candidates, key=misfit)


def _dual(constraint: Constraint) -> np.ndarray:
    value = constraint.dual_value
    if value is None:
        return np.zeros(constraint.size)
    if isinstance(value, list | tuple):
        return np.concatenate([np.ravel(part, order="F") for part in value])
    return np.asarray(value, dtype=float)


def looks_unique(
    problem: BilevelProblem, x: np.ndarray, y: np.ndarray, multipliers: np.ndarray
) -> bool | None:
    """Second-order test: does the lower Lagrangian curve along every direction left free?"""
    model, p = problem.model, problem.parameter_values()
    if not model.has_smooth_kkt or y.size > 500:
        return None
    rows = model.lower_in.linearise(x, y, p)
    pressing = multipliers[: len(rows.value)] > 1e-7 * (1 + np.abs(multipliers).max(initial=0))
    fixed = np.vstack(
        [rows.in_y.toarray()[pressing], model.lower_eq.linearise(x, y, p).in_y.toarray()]
    )
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
    return bool(lowest > 1e-8 * (1 + np.abs(hessian.data).max(initial=0)))


def certify(
    problem: BilevelProblem, x: object, y: object, *, tolerance: float = 1e-6
) -> Certificate:
    """Check a point of your own: is it feasible, and would the lower level keep it?

    Parameters
    ----------
    problem : BilevelProblem
    x, y : array, or dict from variable to array
        Values of the upper and of the lower variables. An array stands for a level with a single
        variable, or for all of a level's variables flattened column by column in order of occurrence.
    tolerance : float
        Largest relative violation and lower gap that still pass.
    """
    problem.check_data()
    vectors = [
        to_vector(given, block, leaves, level)
        for given, block, leaves, level in (
            (x, problem.model.x, problem.levels.upper, "upper"),
            (y, problem.model.y, problem.levels.lower, "lower"),
        )
    ]
    return certify_point(problem, *vectors, tolerance=tolerance)


def to_vector(given: object, block, leaves, level: str) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Values that a user gives for one level, as a flat vector."""
    from blomodel.errors import DataError

    if isinstance(given, dict):
        missing = [leaf.name() for leaf in leaves if leaf not in given]
        if missing:
            raise DataError(f"certify: no value for the {level} variables {', '.join(missing)}.")
        parts = []
        for leaf in leaves:
            value = np.asarray(given[leaf], dtype=float)
            if value.size != leaf.size:
                raise DataError(
                    f"certify: '{leaf.name()}' has shape {leaf.shape}, but a value of shape "
                    f"{value.shape} was given."
                )
            parts.append(value.ravel(order="F"))
        vector = np.concatenate(parts)
    else:
        vector = np.asarray(given, dtype=float).ravel(order="F")
    if vector.size != block.size:
        raise DataError(
            f"certify: the {level} variables hold {block.size} numbers, but {vector.size} were given."
        )
    if not np.all(np.isfinite(vector)):
        raise DataError(f"certify: the {level} values hold NaN or infinite numbers.")
    return vector
