"""From a point and the stated problem to a certificate: every check, and the claim that follows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.certification.certificate import Certificate
from blomodel.certification.lower_check import LowerCheck, check_lower, variation
from blomodel.certification.neighbourhood import STATIONARY, LocalFacts, study_neighbourhood
from blomodel.compiler.expressions.attributes import plain_copy
from blomodel.declare.followers import follower_name, follower_values
from blomodel.model.model import Model
from blomodel.reformulations.forms.pieces import convex_objective
from blomodel.solvers.answer import InnerStatus
from blomodel.status import Status
from blomodel.text.layout import array
from blomodel.text.shorten import shorten

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

ACCURATE = 1e-3  # of the optimal value: the smallest unit in which lower gaps are measured
APART = 1e-2  # relative distance at which two lower answers count as different
CONTRADICTION = 1e-3  # relative; a point that beats its bound by more disproves the bound
OVERHEAD = 0.03  # seconds that cvxpy takes for the smallest problem


def certify_point(
    problem: BilevelProblem,
    x: np.ndarray,
    y: np.ndarray,
    *,
    tolerance: float,
    bound: float | None = None,
    bound_source: str = "",
    deadline: float = np.inf,
) -> Certificate:
    """Check the point given as flat vectors. ``bound`` is for the minimised upper objective.

    After ``deadline``, a value of ``time.perf_counter()``, nothing is claimed beyond feasibility.
    """
    model = problem.model
    reasons: list[str] = []
    saved = [(leaf, leaf.value) for leaf in problem.variables]
    try:
        _assign(problem, x, y)
        objective = float(problem.objective.args[0].value)
        g_value = problem.lower.sign * float(problem.lower.objective.args[0].value)
        upper, upper_worst = _violation(problem.constraints, problem.levels.upper)
        below, lower_worst = _violation(problem.lower.constraints, problem.levels.lower)
        own_values = follower_values(problem.followers)
    finally:
        for leaf, value in saved:
            leaf.save_value(value)
    lower = check_lower(problem, x, y)
    gap = np.inf
    if lower.y is not None:
        gap = (g_value - lower.value) / _gap_unit(problem, x, y, lower.value)
    is_finite = bool(np.isfinite(objective) and np.isfinite(g_value))
    if not is_finite:
        reasons.append("an objective is not finite at this point")
    if not upper <= tolerance:
        reasons.append(f"infeasible above: {upper_worst}")
    if not below <= tolerance:
        reasons.append(f"infeasible below: {lower_worst}")
    if lower.status is InnerStatus.INFEASIBLE:
        reasons.append("the lower level has no feasible answer at this x")
    elif lower.status is InnerStatus.UNBOUNDED:
        reasons.append("the lower objective improves without limit at this x")
    elif lower.y is None:
        about = f": {lower.reason}" if lower.reason else ""
        reasons.append(f"the lower level's optimal value at this x could not be computed{about}")
    elif not gap <= tolerance:
        reasons.append(
            f"the lower level can do better by {g_value - lower.value:.6g}: it reaches "
            f"{problem.lower.sign * lower.value:.6g} at y = {array(lower.y)}, not "
            f"{problem.lower.sign * g_value:.6g}"
        )
    elif not reasons and _is_another_answer(problem, x, y, lower):
        reasons.append(
            f"the lower level has one answer at this x, y = {array(lower.y)}, and the point holds "
            f"another y; the lower objective is so flat that the gap does not show it"
        )
    own_gaps: dict[str, float] = {}
    if len(problem.followers) > 1 and lower.y is not None:
        own_gaps = _follower_gaps(problem, x, lower.y, own_values)
        # A large objective of one follower must not hide what another one leaves to gain.
        reasons += [
            f"{name} can do better by {own_gap:.3g} of its own objective"
            for name, own_gap in own_gaps.items()
            if not own_gap <= tolerance
        ]
    accepted = not reasons
    claim, stationarity, unique = Status.FAILED, None, None
    if accepted:
        unique, facts = _study(problem, x, y, lower, deadline)
        stationarity = facts.stationarity
        distance = None
        if bound is not None:
            distance = (problem.sign * objective - bound) / (1 + abs(bound))
        claim, reasons = _claim(facts, lower, distance, tolerance, bound_source)
    return Certificate(
        claim=claim,
        accepted=accepted,
        objective=objective,
        upper_violation=upper,
        lower_violation=below,
        lower_value=problem.lower.sign * lower.value,
        lower_gap=gap,
        lower_is_unique=unique,
        stationarity=stationarity,
        bound=None if bound is None or not np.isfinite(bound) else problem.sign * bound,
        bound_source=bound_source if bound is not None and np.isfinite(bound) else "",
        tolerance=tolerance,
        checked_by=lower.checked_by,
        reasons=tuple(reasons),
        multipliers=dict(
            enumerate(problem.lower.reported_duals(lower.duals, [*model.y.unpack(y).values()]))
        ),
        follower_gaps=own_gaps,
    )


def _claim(
    facts: LocalFacts,
    lower: LowerCheck,
    distance: float | None,
    tolerance: float,
    bound_source: str,
) -> tuple[Status, list[str]]:
    """The strongest claim about a feasible and lower-optimal point, and why.

    ``distance`` is how much worse f is than its bound, relatively; None without a bound.
    """
    is_level = facts.stationarity is not None and facts.stationarity <= STATIONARY
    modest = Status.STATIONARY if is_level else Status.FEASIBLE
    if not lower.is_proven:
        return modest, [
            "stationary to first order" if is_level else facts.reason,
            "the lower level is not convex: local searches found no better lower answer, which "
            "does not prove that there is none",
        ]
    if distance is not None and distance < -CONTRADICTION:
        return modest, [f"f is better than the bound from {bound_source}, so that one must be wrong"]
    if distance is not None and distance <= tolerance:
        return Status.OPTIMAL, [f"the bound from {bound_source} is reached"]
    if facts.is_local_optimum:
        return Status.LOCALLY_OPTIMAL, [facts.reason]
    return modest, [facts.reason]


def _study(
    problem: BilevelProblem, x: np.ndarray, y: np.ndarray, lower: LowerCheck, deadline: float
) -> tuple[bool | None, LocalFacts]:
    """Whether the lower answer looks unique, and what is known of the neighbourhood."""
    model, p = problem.model, problem.parameter_values()
    size = x.size + y.size + len(model.lower_in) + len(model.lower_eq)
    if time.perf_counter() + dense_seconds(size) > deadline:
        return None, LocalFacts(None, False, "the time limit left no time for the test on pieces")
    multipliers = _sharpest_multipliers(model, p, x, y, lower)
    unique = looks_unique(problem, x, y, multipliers)
    if unique and not lower.is_proven:
        unique = None  # a test of the neighbourhood says nothing about minimisers elsewhere
    if lower.is_proven and model.kink_free is not None:
        # On which side of each kink the answer lies is told by rows, which the problem itself lacks.
        (x, y), model = model.kink_free.lift(x, y, p), model.kink_free.model
        multipliers = _sharpest_multipliers(model, p, x, y, None)
    facts = study_neighbourhood(
        model,
        p,
        x,
        y,
        multipliers,
        # Without a proven lower answer only the first-order test counts, which comes first.
        has_convex_pieces=not lower.is_proven or convex_objective(model, p) is not None,
    )
    return unique, facts


def dense_seconds(size: int) -> float:
    """Roughly what a solve with dense matrices of this size takes, to keep a time limit."""
    return OVERHEAD + 5e-9 * float(size) ** 3


def _follower_gaps(
    problem: BilevelProblem, x: np.ndarray, best_y: np.ndarray, values: list[float]
) -> dict[str, float]:
    """Each follower's own gap, relative to its optimal value, by its name."""
    saved = [(leaf, leaf.value) for leaf in problem.variables]
    try:
        _assign(problem, x, best_y)
        best_values = follower_values(problem.followers)
    finally:
        for leaf, value in saved:
            leaf.save_value(value)
    return {
        follower_name(problem.followers, k): (value - best) / (1 + abs(best))
        for k, (value, best) in enumerate(zip(values, best_values, strict=True))
    }


def _assign(problem: BilevelProblem, x: np.ndarray, y: np.ndarray) -> None:
    for block, vector, leaves in (
        (problem.model.x, x, problem.levels.upper),
        (problem.model.y, y, problem.levels.lower),
    ):
        for leaf, value in zip(leaves, block.unpack(vector).values(), strict=True):
            leaf.save_value(value.copy())


def _violation(constraints: list[Constraint], variables: tuple[cp.Variable, ...]) -> tuple[float, str]:
    """Largest violation relative to 1 + the largest entry of the constraint's own variables."""
    worst, label = 0.0, ""
    for constraint in constraints:
        violation = float(np.max(constraint.violation(), initial=0.0))
        relative = violation / _size(constraint.variables())
        if not relative <= worst:
            worst, label = relative, f"{shorten(constraint, 60)!r} is violated by {violation:.3g}"
    for variable in variables:
        if plain_copy(variable) is variable:
            continue
        distance = float(np.abs(variable.project(variable.value) - variable.value).max(initial=0))
        if not distance / _size([variable]) <= worst:
            worst = distance / _size([variable])
            label = f"an attribute of '{variable.name()}' is violated by {distance:.3g}"
    return worst, label


def _size(variables: Sequence[cp.Variable]) -> float:
    sizes = (float(np.abs(_dense(variable.value)).max(initial=0)) for variable in variables)
    return 1 + max(sizes, default=0.0)


def _dense(value: Any) -> np.ndarray:
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value)


def _gap_unit(problem: BilevelProblem, x: np.ndarray, y: np.ndarray, value: float) -> float:
    """What a lower gap is compared with: the optimal value, or how much g varies if that is less.

    A large constant in g would otherwise hide every gap. The unit is no smaller than what the accuracy
    of the optimal value allows.
    """
    size = 1 + abs(value)
    change = variation(problem.model, x, y, problem.parameter_values())
    return size if change == 0 else float(np.clip(change, ACCURATE * size, size))


def _is_another_answer(problem: BilevelProblem, x: np.ndarray, y: np.ndarray, lower: LowerCheck) -> bool:
    """Whether y lies visibly away from the one minimiser that the lower level has."""
    if lower.y is None or not lower.is_proven:
        return False
    if np.abs(y - lower.y).max(initial=0) <= APART * (1 + np.abs(lower.y).max(initial=0)):
        return False
    return bool(looks_unique(problem, x, lower.y, problem.model.split_duals(lower.duals)))


def _sharpest_multipliers(
    model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray, lower: LowerCheck | None
) -> np.ndarray:
    """The lower multipliers that fit the KKT conditions at the point best.

    An interior-point solver leaves weakly active rows with multipliers that are small but not zero;
    which rows press at all decides which pieces meet here. ``lower`` is None where the check of the
    lower level did not know the rows of this model.
    """
    if lower is not None and not lower.is_proven:
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

    again = model.lower_program.solve(x, p)
    candidates = [checked]
    if again.status.has_point:
        candidates.append(model.split_duals(again.duals))
    return min(candidates, key=misfit)


def looks_unique(
    problem: BilevelProblem, x: np.ndarray, y: np.ndarray, multipliers: np.ndarray
) -> bool | None:
    """Second-order test: does the lower Lagrangian curve along every direction left free?"""
    model, p = problem.model, problem.parameter_values()
    if not model.has_smooth_kkt or y.size > 500:
        return None
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
    """Check a point of your own: is it feasible, and would the lower level keep it?

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
    model, levels = problem.model, problem.levels
    x_vector = to_vector(x, model.x, levels.upper, "upper")
    if isinstance(y, dict):
        x_values = zip(levels.upper, model.x.unpack(x_vector).values(), strict=True)
        y = problem.lower.complete(dict(x_values), y)
    y_vector = to_vector(y, model.y, levels.lower, "lower")
    return certify_point(problem, x_vector, y_vector, tolerance=tolerance)


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
