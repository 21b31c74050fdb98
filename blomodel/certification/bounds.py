"""What no point of a problem can be better than: a bound of a method's, or of the certificate's own.

Every bilevel point satisfies both levels' constraints, so that the least f over these alone, the
high-point relaxation, bounds all of them. Where it is convex, cvxpy and Clarabel solve it from the model
as it was stated; elsewhere SCIP bounds it with little effort, or rows that are not convex are left out.
The formula of f gives a bound too, over the ranges of single variables. A bound is lowered by a slack
for the tolerances of whatever computed it, and the slack is stated.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.basics.arrays import dense
from blomodel.basics.deadline import Deadline, end_of_work
from blomodel.basics.kept_values import kept_values
from blomodel.basics.memory import remembered
from blomodel.certification.late import unless_late
from blomodel.compiler.passes.intervals import intervals
from blomodel.errors import ModelError
from blomodel.methods.run.starts import HIGH_POINT
from blomodel.model.model import Model
from blomodel.programs.by_cvxpy import solve_by_cvxpy
from blomodel.reformulations.forms.bounding import BoundingProblem, why_no_bounds
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.branching.scip import BOUND_SLACK, is_installed
from blomodel.solvers.choice import count
from blomodel.solvers.clarabel import tolerance_options
from blomodel.text.layout import counted

OF_FORMULA = "the formula of the upper objective"
IN_A_FILE = "data in a file may not fit into the memory of a solver"
TOO_LONG = "to solve the high-point relaxation would take long beside the run"
OF_CLARABEL = 1e-7  # relative: what an interior-point solver's tolerances may raise a bound by
ROUNDING = 1e-12  # relative: what interval arithmetic without outward rounding may raise one by
TOLERANCES = (1e-9, 1e-7)  # asked of Clarabel in turn
AGREES = 1e-5  # relative difference of a bound and the one that is recomputed
FAR_AWAY = 1e8  # entries of a point that a solver may have left on the way to infinity
PROGRAMS = 100  # linear programs that SCIP may solve for a bound
SHARE, SHORTEST = 0.05, 0.2  # of the seconds that a run took, and seconds: what a bound may take
EACH, OVERHEAD = 1e-4, 0.03  # seconds for each variable and row, and in any case
EACH_FORMULA = 1e-3  # seconds for each product that SCIP is told, which is not interrupted
EACH_PRODUCT = 3e-8  # seconds for each product in f and each unknown: data make dense factors


class _OutOfTime(Exception):
    """Raised where a solver has come to the end of its time."""


@dataclass(frozen=True)
class Bound:
    """A bound of the minimised upper objective.

    Attributes
    ----------
    value : float
        Less the slack; -inf: no bound is known.
    source : str
        What it rests on; without a bound, why there is none.
    slack : float
        Relative to 1 + abs(value): what was taken off for the tolerances of what computed it.
    is_recomputed : bool
        Whether the certificate has computed it from the model, and not taken over from a method.
    """

    value: float = -np.inf
    source: str = ""
    slack: float = 0.0
    is_recomputed: bool = False

    @property
    def is_known(self) -> bool:
        """Whether there is one."""
        return bool(np.isfinite(self.value))

    def per(self, unit: float) -> Bound:
        """The same for an objective that is counted in a unit."""
        return replace(self, value=self.value / unit)


def find_bound(
    model: Model, p: np.ndarray, reported: Bound, value: float, deadline: Deadline, spent: float
) -> Bound:
    """The best bound that is reported or cheap to compute.

    Parameters
    ----------
    reported : Bound
        What the method has found.
    value : float
        Of the point: a bound that it reaches is as good as any.
    spent : float
        Seconds that the method took, against which a bound's cost is measured.
    """
    formula = bound_of_formula(model, p)
    best = max((reported, formula), key=lambda bound: bound.value)
    is_reached = value <= formula.value + OF_CLARABEL * (1 + abs(formula.value))
    if formula.is_known and is_reached and formula.value >= reported.value - AGREES:
        return formula
    if reported.is_known and not reported.source.startswith(HIGH_POINT):
        return best
    if deadline.is_over:
        return replace(best, source=best.source or "no time was left to look for one")
    # Only a limit makes the clock cut: without one the answer does not depend on it.
    is_free = deadline.is_never or np.isinf(spent)
    in_time = deadline if is_free else deadline.earlier(max(SHORTEST, SHARE * spent))
    too_late = Bound(source=TOO_LONG)
    own = unless_late(lambda: high_point(model, p, deadline, spent), too_late, in_time)
    if reported.is_known and abs(own.value - reported.value) <= AGREES * (1 + abs(reported.value)):
        return own
    best = max((best, own), key=lambda bound: bound.value)
    return best if best.is_known else own


def bound_of_formula(model: Model, p: np.ndarray) -> Bound:
    """The least value that the formula of f can have over the ranges of single variables."""
    ranges = {"x": model.bounds(p), "y": model.y_bounds, "p": (p, p)}
    least = float(intervals(model.f, ranges)[0][0])
    if not np.isfinite(least):
        return Bound()
    slack = ROUNDING if least else 0.0
    return Bound(least - slack * abs(least), OF_FORMULA, slack, is_recomputed=True)


def high_point(model: Model, p: np.ndarray, deadline: Deadline, spent: float = np.inf) -> Bound:
    """The least f over both levels' constraints, or what is convex of them; -inf with the reason."""
    if model.f.pieces is not None:
        return Bound(source=IN_A_FILE)
    size = model.x.size + model.lower_size + len(model.upper_in) + len(model.upper_eq)
    allowed = max(SHORTEST, SHARE * spent)
    expected = OVERHEAD + (EACH + EACH_PRODUCT * model.f.n_products) * size
    if expected > min(allowed, deadline.remaining):
        return Bound(source=TOO_LONG)
    try:
        found = _convex(model, p)
        if found is None:
            longest = deadline if np.isinf(allowed) else deadline.earlier(allowed)
            found = _by_scip(model, p, longest)
        if not found.is_known:
            part = _convex_part(model, p)
            found = part if part is not None and part.is_known else found
    except _OutOfTime:
        return Bound(source=TOO_LONG)
    return found


@remembered
def _convex(model: Model, p: np.ndarray) -> Bound | None:
    """By cvxpy and Clarabel; None where the relaxation is not convex by cvxpy's rules."""
    rows = [*model.upper_constraints, *model.lower_constraints]
    parts = [model.f_expression, *rows]
    if not model.f_expression.is_convex() or not all(row.is_dcp() for row in rows):
        return None
    if model.unproven_domain(parts) is not None:
        return None
    return _solved(model, rows, f"{HIGH_POINT}, by cvxpy and Clarabel")


@remembered
def _convex_part(model: Model, p: np.ndarray) -> Bound | None:
    """The same without the rows that are not convex."""
    if not model.f_expression.is_convex() or model.unproven_domain([model.f_expression]) is not None:
        return None
    rows = [*model.upper_constraints, *model.lower_constraints]
    kept = [row for row in rows if row.is_dcp() and model.unproven_domain([row]) is None]
    left_out = len(rows) - len(kept)
    what = "1 row that is" if left_out == 1 else f"{left_out} rows that are"
    source = f"{HIGH_POINT} without {what} not convex, by cvxpy and Clarabel"
    return _solved(model, kept, source)


def _solved(model: Model, rows: Sequence[Constraint], source: str) -> Bound:
    problem = cp.Problem(cp.Minimize(model.f_expression), list(rows))
    with kept_values([*model.x.leaves, *model.y.leaves]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an inaccurate solve is noticed by its status
        for tolerance in TOLERANCES:
            try:
                solve_by_cvxpy(problem, cp.CLARABEL, max_iter=200, **tolerance_options(tolerance))
            except (cp.SolverError, ValueError):
                if end_of_work().is_over:
                    raise _OutOfTime from None  # so that this is not remembered
                continue
            if problem.status in (cp.OPTIMAL, cp.UNBOUNDED, cp.INFEASIBLE):
                break
        count("clarabel")
        if problem.status == cp.UNBOUNDED:
            return Bound(source="f falls without limit over both levels' constraints")
        if problem.status != cp.OPTIMAL:
            return Bound(source="the high-point relaxation could not be solved accurately")
        value = float(problem.value)
        leaves = problem.variables()
        if max(float(np.abs(dense(leaf.value)).max(initial=0.0)) for leaf in leaves) > FAR_AWAY:
            # Where f levels off, a solver stops somewhere on the way to a limit that may not exist.
            return Bound(source="the high-point relaxation has its least value far away, if at all")
        # A violated row has raised nothing and lowered f by at most its multiplier times that; the dual
        # side is as exact as the tolerance, relative to what the multipliers weigh.
        weight = sum(_weight(row) for row in rows)
    slack = OF_CLARABEL + tolerance * weight / (1 + abs(value))
    return Bound(value - slack * (1 + abs(value)), source, slack, is_recomputed=True)


def _weight(row: Constraint) -> float:
    """The sum of a constraint's multipliers, whatever their signs."""
    parts = row.dual_value if isinstance(row.dual_value, list | tuple) else [row.dual_value]
    return sum(float(np.abs(part).sum()) for part in parts if part is not None)


def _by_scip(model: Model, p: np.ndarray, deadline: Deadline) -> Bound:
    """By branch and bound with few linear programs."""
    if not is_installed():
        return Bound(source="the high-point relaxation is not convex, and SCIP is not installed")
    rows = (model.upper_in, model.upper_eq, model.lower_in, model.lower_eq)
    products = model.f.n_products + sum(part.tape.n_products for part in rows if part.tape is not None)
    if EACH_FORMULA * products > deadline.remaining:
        return Bound(source="the high-point relaxation is not convex, and to bound it would take long")
    reason = why_no_bounds(model)
    if reason is not None:
        return Bound(source=f"the high-point relaxation is not convex, and not for SCIP: {reason}")
    try:
        program = BoundingProblem(model, p).program(finds_points=False, with_conditions=False)
    except ModelError as error:
        return Bound(source=str(error))
    found = program.solve(0, max_programs=PROGRAMS, gap=BOUND_SLACK, deadline=deadline)
    if found.status is InnerStatus.UNBOUNDED:
        return Bound(source="f falls without limit over both levels' constraints")
    if not np.isfinite(found.bound):
        return Bound(source="SCIP has found no bound of f over both levels' constraints")
    source = f"{HIGH_POINT}, global bounds by SCIP, {counted(found.nodes, 'node')}"
    return Bound(found.bound, source, BOUND_SLACK, is_recomputed=True)
