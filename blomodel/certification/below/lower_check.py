"""The lower level solved once more at an x, by other means than the methods use.

cvxpy's own canonicalisation of the model as it was written, Clarabel, tight tolerances; for large linear
programs the simplex method of HiGHS, which is then faster; for large strongly convex quadratic programs
weak duality, see ``dual_check.py``; where cvxpy's rules do not accept the level, the compiled one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.basics import limits
from blomodel.basics.alarm import in_time
from blomodel.basics.arrays import dense
from blomodel.basics.deadline import NEVER, Deadline, end_of_work
from blomodel.basics.kept_values import kept_values
from blomodel.basics.troubles import count_trouble
from blomodel.certification.below.dual_check import bound_by_duality
from blomodel.certification.below.slope_check import largest_loss
from blomodel.certification.late import unless_late
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.integers import whole_copy, with_integers_rounded
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.model.flat_lower import variation
from blomodel.model.global_lower import GlobalLower
from blomodel.programs.by_cvxpy import solve_by_cvxpy
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.choice import count
from blomodel.solvers.clarabel import tolerance_options

if TYPE_CHECKING:
    from blomodel.model.model import Model

SMALL = 1e-3  # a lower objective that varies by less is scaled up before it is solved
WRONG = 1e-5  # relative: what a value or a row may be off by at an answer that is believed
SHARE = 0.7  # of the time that is left; the rest is for the compiled lower level, if need be,
LONGEST_REST = 0.4  # but no more than so many seconds
SHORTEST = 0.2  # seconds that a solve gets at the end of a time limit
TOLERANCES = (1e-10, 1e-8)  # large cone programs do not reach the first, and the second must do
REDUCED = ("reduced_tol_gap_abs", "reduced_tol_gap_rel", "reduced_tol_feas")  # Clarabel's names for it
SIMPLEX_TOLERANCES = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
MINIMISED = (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)
NAMES = {cp.CLARABEL: "Clarabel", cp.HIGHS: "HiGHS"}


@dataclass(frozen=True)
class LowerCheck:
    """v(x), a minimiser and multipliers, and who found them."""

    status: InnerStatus
    value: float  # minimised
    y: np.ndarray | None
    duals: list[np.ndarray]
    checked_by: str
    is_proven: bool = True  # False: the value comes from local searches
    reason: str = ""  # why there is no minimiser
    is_convex: bool = True  # whether it is proven by convexity, which holds at every x


def check_lower(
    model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray, deadline: Deadline = NEVER
) -> LowerCheck:
    """v(x) by cvxpy and Clarabel or HiGHS on the lower level as written, with x put in as numbers.

    Where its convexity is not certain: by local searches, one of them from ``y``, of which there are few
    after ``deadline``. Which solver the user prefers makes no difference to cvxpy and Clarabel here.
    """
    stated = model.statement
    if stated.is_equilibrium and not model.is_convex_below:
        # Products of rows and multipliers are never negative, and an equilibrium has zeros.
        by = "the conditions of an equilibrium"
        return LowerCheck(InnerStatus.OPTIMAL, 0.0, y, [], by, is_convex=False)
    if model.integer_y.any():
        return check_integer_lower(model, p, x, y, deadline)
    values = stated.levels.x.unpack(x).values()
    substitute = Substitution(stated.levels.upper, [*map(cp.Constant, values)])
    # A solver's tolerances are absolute for small objectives: bring such a one to size.
    size = variation(model, x, y, p)
    factor = 1.0 / size if 0 < size < SMALL else 1.0
    level = stated.lower
    objective = cp.Minimize(factor * level.sign * substitute(level.objective.args[0]))
    constraints = [substitute(constraint) for constraint in level.constraints]
    lower = cp.Problem(objective, constraints)
    # A lower level that is not convex at every x may still be convex at this one, but cvxpy's rules hold
    # for powers only where their arguments are known to be nonnegative.
    is_for_newton = model.is_convex_below and model.lower_program.is_for_products
    has_domain = model.unproven_domain([model.g_expression, *model.lower_constraints]) is None
    if has_domain and lower.is_dcp() and not is_for_newton:
        plain = level.sign * substitute(level.objective.args[0])
        bound = bound_by_duality(model, p, x, plain, constraints, stated.levels.y)
        if bound is not None:
            by = "weak duality with cvxpy's values"
            return LowerCheck(InnerStatus.OPTIMAL, bound.value, bound.y, bound.duals, by)
        # To state a large program to the solver takes long too, and the compiled one is there already.
        end = max(deadline, Deadline.after(0.0))
        latest = Deadline(end.at + SHORTEST)  # for all of them together
        left = min(latest, end_of_work()).remaining
        latest = latest.earlier(max(SHARE * left, left - LONGEST_REST))
        is_bounded = bool(np.all(np.isfinite(model.y_bounds)))
        is_large_lp = not limits.INTERIOR_POINT_CHECK.allows(model.lower_size) and lower.is_lp()
        solvers = [cp.HIGHS, cp.CLARABEL] if is_large_lp else [cp.CLARABEL]
        if model.g.pieces is not None:
            solvers = []  # cvxpy would copy a file that may be larger than the memory
        solved = None
        for solver in solvers:
            ask = partial(_solve_by_cvxpy, lower, stated.levels.y, y, is_bounded, latest, solver)
            solved = solved or in_time(ask, latest)
        if solved is not None:
            duals = [dual / factor for dual in solved.duals]
            return replace(solved, value=solved.value / factor, duals=duals)
    return _search_lower(model, p, x, y, deadline)


def check_integer_lower(
    model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray, deadline: Deadline
) -> LowerCheck:
    """v(x) of a lower level with integers: by cvxpy and HiGHS where it is linear, else by SCIP."""
    stated = model.statement
    leaves = stated.levels.lower
    whole = [whole_copy(leaf, stated.integers.get(leaf.id)) for leaf in leaves]
    constants = map(cp.Constant, stated.levels.x.unpack(x).values())
    substitute = Substitution((*stated.levels.upper, *leaves), [*constants, *whole])
    level = stated.lower
    rows = [substitute(constraint) for constraint in level.constraints]
    lower = cp.Problem(cp.Minimize(level.sign * substitute(level.objective.args[0])), rows)
    if lower.is_dcp() and lower.is_lp() and not deadline.is_over:
        options = {"mip_rel_gap": 0.0, "mip_abs_gap": 1e-9, "mip_feasibility_tolerance": 1e-9}
        if not deadline.is_never:
            options["time_limit"] = float(deadline.remaining)
        try:
            solve_by_cvxpy(lower, cp.HIGHS, **options)
        except cp.SolverError:
            pass
        if lower.status != cp.OPTIMAL or not _holds(lower):
            count_trouble("highs")
        else:
            count("highs")
            held = {variable.id for variable in lower.variables()}
            given = stated.levels.y.unpack(y)
            values = {
                leaf: (copy.value if copy.id in held else given[leaf])
                for leaf, copy in zip(leaves, whole, strict=True)
            }
            found = with_integers_rounded(stated.levels.y.join(values), model.integer_y)
            value = float(lower.value)
            by = "cvxpy and HiGHS (integers below)"
            return LowerCheck(InnerStatus.OPTIMAL, value, found, [], by, is_convex=False)
    answer, is_proven = model.solve_lower(x, p, y, deadline=deadline)
    at = answer.y if answer.status.has_point else None
    by = f"{model.integer_lower.served_by} on the compiled lower level"
    return LowerCheck(answer.status, answer.value, at, [], by, is_proven, answer.reason, False)


def _search_lower(
    model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray, deadline: Deadline
) -> LowerCheck:
    """v(x) by the compiled lower level: its exact quadratic form, or local searches."""
    answer, is_proven = model.solve_lower(x, p, y, warm=False, accuracy=1e-9, deadline=deadline)
    by = "the exact quadratic form of the lower level"
    # Sure at this x, perhaps, but the tests around it rest on convexity at every x.
    is_convex = is_proven and model.is_convex_below
    if not model.is_convex_below:
        by = answer.solver or by
        if not is_proven:
            local = answer
            answer, is_proven = unless_late(
                lambda: GlobalLower(model).confirm(x, p, local, deadline), (local, False), deadline
            )
            by = "SCIP's branch and bound" if is_proven else f"{answer.solver or by}, not a proof"
    elif is_proven and model.lower_program.is_for_products and answer.status.has_point:
        by, loss = _by_products(model, p, x, answer)
        answer = replace(answer, value=answer.value - loss)
    elif is_proven and model.lower_program.kind == "conic":
        by = f"{(answer.solver or 'clarabel').capitalize()} on the compiled lower level"
    elif not is_proven:
        by = f"{answer.solver or 'local searches'}, not a proof"
    has_point = answer.status.has_point
    found = answer.y if has_point else None
    return LowerCheck(
        answer.status, answer.value, found, answer.duals, by, is_proven, answer.reason, is_convex
    )


def _by_products(model: Model, p: np.ndarray, x: np.ndarray, answer: Answer) -> tuple[str, float]:
    """Who found an answer by products with the Hessian, and how much of its value is not proven."""
    is_smooth = model.lower_program.is_large_and_smooth
    by = "Newton's method" if is_smooth else "proximal and Newton steps"
    loss = largest_loss(model, p, x, answer)
    # A bound of no use, as where a square has a tiny weight, is none.
    if loss is None or loss > TOLERANCES[-1] * (1 + abs(answer.value)):
        return f"{by}; convex by cvxpy's rules, accuracy estimated from the slope left", 0.0
    return f"{by}; convex by cvxpy's rules, accuracy proven by the slope left", loss


def _solve_by_cvxpy(
    lower: cp.Problem,
    block: Block,
    given: np.ndarray,
    is_bounded: bool,
    deadline: Deadline,
    solver: str,
) -> LowerCheck | None:
    """Solve the program; a variable that it does not hold keeps the given value.

    A solver that finds no limit where bounds on all variables are one, ``is_bounded``, is not believed.
    """
    y = None
    with kept_values(block.leaves):
        block.assign(given)
        # The second only where a solver broke off at the first: it tells whether it reached the second.
        is_solved = any(
            _has_settled(lower, solver, tolerance, is_bounded, deadline) for tolerance in TOLERANCES
        )
        if is_solved:
            count(solver.lower())
        if is_solved and lower.status in MINIMISED:
            y = block.pack()
    if not is_solved:
        return None
    status = {
        cp.OPTIMAL: InnerStatus.OPTIMAL,
        cp.OPTIMAL_INACCURATE: InnerStatus.OPTIMAL,
        cp.INFEASIBLE: InnerStatus.INFEASIBLE,
        cp.UNBOUNDED: InnerStatus.UNBOUNDED,
    }[lower.status]
    duals = [_dual(constraint) for constraint in lower.constraints] if y is not None else []
    return LowerCheck(status, float(lower.value), y, duals, f"cvxpy and {NAMES[solver]}")


def _has_settled(
    lower: cp.Problem, solver: str, tolerance: float, is_bounded: bool, deadline: Deadline
) -> bool:
    """Solve to a tolerance; whether that gave a minimiser, or the proof that there is none."""
    options: dict[str, float] = {"max_iter": 200, **tolerance_options(tolerance)}
    options |= dict.fromkeys(REDUCED, TOLERANCES[-1])
    if solver == cp.HIGHS:
        options = dict.fromkeys(SIMPLEX_TOLERANCES, tolerance)
    if not deadline.is_never:
        options["time_limit"] = max(deadline.remaining, 1e-3)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an inaccurate solve is noticed by its status
            solve_by_cvxpy(lower, solver, **options)
    except cp.SolverError:
        return False
    is_minimised = lower.status == cp.OPTIMAL or (
        # Clarabel's word for a point within the reduced tolerances, which HiGHS does not have.
        lower.status == cp.OPTIMAL_INACCURATE and solver == cp.CLARABEL
    )
    is_wrong = lower.status == cp.UNBOUNDED and is_bounded
    if is_wrong or (is_minimised and not _holds(lower)):
        count_trouble(solver.lower())
        return False
    return is_minimised or lower.status in (cp.INFEASIBLE, cp.UNBOUNDED)


def _holds(lower: cp.Problem) -> bool:
    """Whether the point satisfies the rows and has the value that the solver says: cvxpy evaluates."""
    value, said = lower.objective.value, lower.value
    if value is None or not abs(float(value) - said) <= WRONG * (1 + abs(said)):
        return False
    size = 1 + max((float(np.abs(dense(v.value)).max(initial=0)) for v in lower.variables()), default=0)
    worst = max((float(np.max(row.violation(), initial=0.0)) for row in lower.constraints), default=0.0)
    return bool(worst <= WRONG * size)


def _dual(constraint: Constraint) -> np.ndarray:
    value = constraint.dual_value
    if value is None:
        return np.zeros(constraint.size)
    if isinstance(value, list | tuple):
        return np.concatenate([np.ravel(part, order="F") for part in value])
    return np.asarray(value, dtype=float)
