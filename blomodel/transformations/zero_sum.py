r"""Problems in which one level's gain is the other's loss, or in which both want the same.

With :math:`f = h(x) - c\,g(x, y)` and c > 0 the lower level picks the y that is worst for the upper one:
:math:`\min_x \max_{y \in Y} f(x, y)`. Where Y does not depend on x and
:math:`g = r(x) + q(x)'y + G(y)` with q affine, the inner maximum is the minimum of its dual, and both
minima together are one convex program in x and the dual's variables. Its own multipliers are a y that no
x can do better against: :math:`\min_x f(x, y)` for this fixed y proves the bound, whatever else holds.

Upper rows may hold y in the same way, :math:`h_i(x) - c_i\,g(x, y) \le 0`: then they ask that
something holds for every y of Y, which is a robust constraint, and f need not hold y at all.

Where the lower level is not so simple, finitely many of its answers still bound f from below, and the
worst answer at the x that is best against them is the next one: ``best_against`` with growing lists.

With :math:`f = h(x) + c\,g(x, y)`, and rows with y of this kind, the best point of both levels'
constraints is a lower answer.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints.constraint import Constraint

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.basics.kept_values import kept_values
from blomodel.basics.memory import remembered
from blomodel.compiler.expressions.constraints import INEQUALITY, as_row
from blomodel.compiler.expressions.integers import whole_copy, with_integers_rounded
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.compiler.passes.dependence import dependence
from blomodel.compiler.passes.derivatives import gradient, jacobian
from blomodel.compiler.passes.polynomial import CONSTANT, polynomial
from blomodel.model.model import Model
from blomodel.programs.by_cvxpy import solve_by_cvxpy
from blomodel.programs.cone_data import ConeData
from blomodel.solvers.answer import Answer
from blomodel.solvers.clarabel import tolerance_options
from blomodel.solvers.question import Cone, ConeKind

SOLVED = 2e-7  # relative: what a mixed-integer solver may have missed
SOLVED_CONVEX = 1e-8  # relative: what a cone solver may have missed
SAME = 1e-9  # relative difference of gradients that count as multiples of each other
N_POINTS = 8  # at which gradients are compared
TOLERANCES = (1e-10, 1e-8)  # asked of Clarabel in turn
_KINDS = (ConeKind.ZERO, ConeKind.NONNEGATIVE, ConeKind.SECOND_ORDER, ConeKind.EXPONENTIAL)


class Interest(enum.Enum):
    """How the lower level's interest stands to the upper one's."""

    OPPOSED = "f is -c g up to terms in x"
    COMMON = "f is c g up to terms in x"


@dataclass(frozen=True)
class Relation:
    """f, and the upper rows that hold y, as multiples of g, up to terms in x alone.

    Attributes
    ----------
    interest : Interest
    factor : float
        c; 0 where only rows hold y.
    rows : tuple of float
        The same for each upper inequality, 0 where it does not hold y; empty where none does.
    """

    interest: Interest
    factor: float
    rows: tuple[float, ...] = ()


@dataclass(frozen=True)
class Saddle:
    """An x, and a bound on f over all x with the y that proves it."""

    x: np.ndarray
    bound: float


@remembered
def find_relation(model: Model, p: np.ndarray) -> Relation | None:
    """Whether f is a multiple of g up to terms in x, as all upper rows with y are; None elsewhere."""
    n_x = model.x.size
    if not n_x or model.statement.partners or not _may_relate(model):
        return None
    holding = _rows_with_y(model)
    draw, low_high = np.random.default_rng(0), model.bounds(p)
    above, below = [], []  # slopes in y: of f and of rows with y, and of g
    for k in range(N_POINTS):
        x = np.clip(draw.normal(size=n_x) * 3.0 ** (k % 3), *low_high)
        y = draw.normal(size=model.y.size) * 3.0 ** (k % 4)
        slopes, of_g = model.f_grad(x, y, p)[None, n_x:], model.g_grad(x, y, p)[n_x:]
        if holding.size and not _are_unlike(slopes[0], of_g):
            of_rows = model.upper_in.linearise(x, y, p).in_y[holding].toarray()
            slopes = np.vstack([slopes, of_rows])
        if np.all(np.isfinite(slopes)) and np.all(np.isfinite(of_g)):
            if any(_are_unlike(slope, of_g) for slope in slopes):
                return None  # mostly at the first point; the others cost a pass through all data each
            above.append(slopes)
            below.append(of_g)
    if len(above) < N_POINTS // 2:
        return None
    factors = _multiples(np.concatenate(above, axis=1), np.concatenate(below))
    if factors is None or not np.all(factors[1:]) or not (np.all(factors >= 0) or np.all(factors <= 0)):
        return None
    interest = Interest.COMMON if np.any(factors > 0) else Interest.OPPOSED
    of_rows = np.zeros(len(model.upper_in) if holding.size else 0)
    of_rows[holding] = np.abs(factors[1:])
    return Relation(interest, abs(float(factors[0])), tuple(of_rows.tolist()))


def _may_relate(model: Model) -> bool:
    """Whether all upper rows with y are inequalities."""
    return all(as_row(constraint)[0] == INEQUALITY for constraint in model.coupling_constraints)


def _rows_with_y(model: Model) -> np.ndarray:
    """The places of the upper inequalities that hold y."""
    tape = model.upper_in.tape
    if tape is None or not model.coupling_constraints:
        return np.zeros(0, dtype=int)
    return np.flatnonzero(dependence(tape, "y").any(axis=1))


def _multiples(above: np.ndarray, below: np.ndarray) -> np.ndarray | None:
    """The factors by which rows of slopes are multiples of another; None where they are none."""
    largest = float(np.abs(below).max(initial=0.0))
    if largest == 0 or not np.any(above):
        return None
    below = below / largest  # squares of large slopes would overflow
    factors = (above @ below) / float(below @ below)
    rest = np.abs(above - np.outer(factors, below)).max(axis=1)
    if np.any(rest > SAME * np.abs(above).max(axis=1)):
        return None
    return np.asarray(factors / largest)


def _are_unlike(of_f: np.ndarray, of_g: np.ndarray) -> bool:
    """Whether two slopes at one point are no multiples of each other by far more than rounding."""
    if not np.any(of_g) or not np.any(of_f):
        return False
    of_g = of_g / np.abs(of_g).max()  # squares of large slopes would overflow
    size = float(of_g @ of_g)
    rest = of_f - float(of_f @ of_g) / size * of_g
    return bool(np.abs(rest).max() > np.sqrt(SAME) * np.abs(of_f).max())


def opposed_factor(model: Model, p: np.ndarray) -> float | None:
    """c > 0 where f is -c g up to terms in x and all variables are real numbers; None elsewhere.

    None too where upper rows hold y.
    """
    relation = find_relation(model, p)
    if relation is None or relation.interest is not Interest.OPPOSED or model.has_integers:
        return None
    if relation.rows:
        return None
    return relation.factor


@remembered
def why_no_saddle(model: Model, p: np.ndarray) -> str | None:
    """What keeps an opposed problem from being one convex program; None where it is one."""
    slope = gradient(model.g, ("y",))
    of_slope = polynomial(slope, variable="x", coefficient="y")
    if np.any(of_slope.degree > 1) or np.any(of_slope.coefficient_class[:, 1] > CONSTANT):
        return "the lower objective is not of the form r(x) + q(x)'y + G(y) with q affine"
    upper = {leaf.id for leaf in model.x.leaves}
    if any(v.id in upper for c in model.lower_constraints for v in c.variables()):
        return "lower constraints contain x, so that the dual has products of x and multipliers"
    if not _program(model, np.zeros(model.y.size)).is_dcp():
        return "the upper level's own part is not convex by cvxpy's rules"
    if not _lower_at(model, np.zeros(model.x.size)).is_dcp():
        return "the lower level is not convex by cvxpy's rules as it is written"
    return None


def find_saddle(
    model: Model, p: np.ndarray, relation: Relation, deadline: Deadline = NEVER
) -> Saddle | None:
    """Solve an opposed problem as one convex program; None where a solver fails.

    Only where ``why_no_saddle`` has no objection. Integers above make it a mixed-integer program, whose
    optimum is the bound.
    """
    origin = np.zeros(model.x.size), np.zeros(model.y.size)
    lower = _lower_at(model, origin[0])
    leaves = [leaf for leaf in model.y.leaves if leaf.id in {v.id for v in lower.variables()}]
    if len(leaves) < len(model.y.leaves):
        return None  # a variable that the lower level does not hold is not its own to decide
    with kept_values([*model.x.leaves, *model.y.leaves]):
        data = ConeData(lower, lower.constraints, leaves)
        P, q, A, b, cones, offset = data.numbers()
        if any(cone.kind not in _KINDS for cone in cones):
            return None
        # q of the canonical form moves with x only where y itself stands.
        mixed = sp.csr_array(jacobian(gradient(model.g, ("y",)), ("x",), (*origin, p)))
        places = sp.csr_array(
            (data.y.factors, (data.y.positions, np.arange(model.y.size))), shape=(q.size, model.y.size)
        )
        multipliers, w = cp.Variable(b.size), cp.Variable(q.size)
        x = cp.hstack([cp.vec(leaf, order="F") for leaf in model.x.leaves])
        stationarity = q + sp.csr_array(places @ mixed) @ x + sp.csr_array(A.T) @ multipliers
        dual = -b @ multipliers + offset
        if P.nnz:
            full = sp.csc_array(P + sp.triu(P, 1).T)
            stationarity += full @ w
            dual -= 0.5 * cp.quad_form(w, full, assume_PSD=True)
        at_zero = float(model.g(*origin, p)[0])
        balance = stationarity == 0
        gain: cp.Expression = dual - at_zero  # what g is worth to the lower level beyond y = 0
        rows: list[Constraint] = [balance, *_dual_cones(multipliers, cones)]
        if relation.rows:
            worst = cp.Variable()
            promise = worst <= gain
            gain = worst
            rows += [promise, *_robust_rows(model, relation, worst)]
        own = _at(model, model.f_expression, origin[1])
        free = [c for c in model.upper_constraints if c not in model.coupling_constraints]
        program = cp.Problem(cp.Minimize(own - relation.factor * gain), [*free, *rows])
        if model.integer_x.any():
            return _best_integers(model, program, deadline)
        if not program.is_dcp() or not _is_solved(program):
            return None
        found = model.x.join({leaf: np.asarray(leaf.value, dtype=float) for leaf in model.x.leaves})
        # The multiplier of the balance is the lower answer that the upper level must expect, times
        # what its value is worth above.
        worth = float(promise.dual_value) if relation.rows else relation.factor
        expected = places.T @ np.asarray(balance.dual_value)
        bounds = [_least_against(model, sign * expected / worth) for sign in (1.0, -1.0) if worth > 0]
        known = [bound for bound in bounds if bound is not None]
        if not known and relation.rows:
            # Where the rows with y do not press, any answer proves the same.
            bounds = [_least_against(model, y) for y in _answers_at(model, found)]
            known = [bound for bound in bounds if bound is not None]
        return Saddle(found, max(known)) if known else None


def _robust_rows(model: Model, relation: Relation, worst: cp.Variable) -> list[Constraint]:
    """The upper rows with y, where g is worth ``worst`` more to the lower level than at y = 0."""
    found: list[Constraint] = []
    factors = np.array(relation.rows)
    for position, part in model.upper_in.slices.items():
        constraint = model.upper_constraints[position]
        if constraint in model.coupling_constraints:
            own = _at(model, as_row(constraint)[1], np.zeros(model.y.size))
            found.append(cp.vec(own, order="F") <= factors[part] * worst)
    return found


def _best_integers(model: Model, program: cp.Problem, deadline: Deadline) -> Saddle | None:
    """The optimum of the program with integers as such; None where a solver does not prove it."""
    copies = [whole_copy(leaf, model.integer_x[model.x.slice_of(leaf)]) for leaf in model.x.leaves]
    substitute = Substitution(model.x.leaves, copies)
    rows = [substitute(constraint) for constraint in program.constraints]
    whole = cp.Problem(cp.Minimize(substitute(program.objective.args[0])), rows)
    solver = cp.HIGHS if whole.is_lp() else cp.SCIP
    if not whole.is_dcp() or solver not in cp.installed_solvers():
        return None
    options: dict[str, Any] = {}
    if solver == cp.HIGHS:
        options = {"mip_rel_gap": 0.0, "mip_abs_gap": 1e-9, "mip_feasibility_tolerance": 1e-9}
        if not deadline.is_never:
            options["time_limit"] = max(deadline.remaining, 0.1)
    elif not deadline.is_never:
        options = {"scip_params": {"limits/time": max(deadline.remaining, 0.1)}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            solve_by_cvxpy(whole, solver, **options)
        except cp.SolverError:
            return None
    if whole.status != cp.OPTIMAL:
        return None
    values = {leaf: np.asarray(copy.value) for leaf, copy in zip(model.x.leaves, copies, strict=True)}
    x = with_integers_rounded(model.x.join(values), model.integer_x)
    value = float(whole.value)
    return Saddle(x, value - SOLVED * (1 + abs(value)))


def _least_against(model: Model, y: np.ndarray) -> float | None:
    """The least f over all x while y stays as it is; None where y is not allowed, or a solver fails.

    The lower level may always keep such a y, so that the upper level cannot do better than this.
    """
    if not np.all(np.isfinite(y)):
        return None
    with kept_values([*model.x.leaves, *model.y.leaves]):
        model.y.assign(y)
        size = 1 + np.abs(y).max(initial=0)
        if any(np.max(c.violation(), initial=0.0) > 1e-7 * size for c in model.lower_constraints):
            return None
        program = _program(model, y)
        if not program.is_dcp() or not _is_solved(program):
            return None
        return float(program.value)


@remembered
def why_no_worst_cases(model: Model, p: np.ndarray) -> str | None:
    """What keeps answers of an opposed lower level from bounding f by a convex program."""
    upper = {leaf.id for leaf in model.x.leaves}
    if any(v.id in upper for c in model.lower_constraints for v in c.variables()):
        return "lower constraints contain x, so that an answer at one x may be forbidden at another"
    with kept_values([*model.x.leaves, *model.y.leaves]):
        if not _program(model, np.clip(np.ones(model.y.size), *model.y_bounds)).is_dcp():
            return "f with a fixed y is not convex in x by cvxpy's rules"
    return None


def best_against(model: Model, answers: Sequence[np.ndarray]) -> Saddle | None:
    """The x whose worst f over some answers is least, and that value; None where a solver fails.

    Only where ``why_no_worst_cases`` has no objection: each answer is one that the lower level may
    always give, so that no x does better.
    """
    with kept_values([*model.x.leaves, *model.y.leaves]):
        program = _program(model, *answers)
        if not program.is_dcp() or not _is_solved(program):
            return None
        x = model.x.join({leaf: np.asarray(leaf.value, dtype=float) for leaf in model.x.leaves})
        value = float(program.value)
    return Saddle(x, value - SOLVED_CONVEX * (1 + abs(value)))


@remembered
def why_no_exchange(model: Model, p: np.ndarray) -> str | None:
    """What keeps ``best_for_multipliers`` from an opposed problem."""
    if not model.is_convex_below:
        return "the lower level is not convex, so that its multipliers say nothing about other x"
    with kept_values([*model.x.leaves, *model.y.leaves]):
        if not _program(model, np.clip(np.ones(model.y.size), *model.y_bounds)).is_dcp():
            return "f with a fixed y is not convex in x by cvxpy's rules"
    return None


def best_for_multipliers(
    model: Model, p: np.ndarray, factor: float, x: np.ndarray, below: Answer
) -> np.ndarray | None:
    """The best x while the lower answer and multipliers of another x stay; None where a solver fails.

    Where x moves only the right-hand sides below, the lower value is convex in x, and the multipliers
    give it a tangent: the x found is then no worse than the one that the multipliers come from.
    """
    multipliers = model.split_duals(below.duals)
    slope, start = np.zeros(model.x.size), 0
    for rows in (model.lower_in, model.lower_eq):
        linear = rows.linearise(x, below.y, p)
        part = multipliers[start : start + linear.value.size]
        start += part.size
        slope -= factor * (linear.in_x.T @ part)
    with kept_values([*model.x.leaves, *model.y.leaves]):
        variables = cp.hstack([cp.vec(leaf, order="F") for leaf in model.x.leaves])
        own = _at(model, model.f_expression, below.y)
        program = cp.Problem(cp.Minimize(own + slope @ variables), model.upper_constraints)
        if not _is_solved(program):
            return None
        return model.x.join({leaf: np.asarray(leaf.value, dtype=float) for leaf in model.x.leaves})


def _program(model: Model, *answers: np.ndarray) -> cp.Problem:
    """The upper level against the worst of some lower answers."""
    values = [_at(model, model.f_expression, y) for y in answers]
    worst = cp.maximum(*values) if len(values) > 1 else values[0]
    coupling = model.coupling_constraints
    rows = [c for c in model.upper_constraints if c not in coupling]
    rows += [_at(model, as_row(c)[1], y) <= 0 for c in coupling for y in answers]
    return cp.Problem(cp.Minimize(worst), rows)


def _at(model: Model, expression: cp.Expression, y: np.ndarray) -> cp.Expression:
    values = [cp.Constant(value.copy()) for value in model.y.unpack(y).values()]
    return Substitution(model.y.leaves, values)(expression)


def _lower_at(model: Model, x: np.ndarray) -> cp.Problem:
    """The lower level with an x that is fixed."""
    values = [cp.Constant(value.copy()) for value in model.x.unpack(x).values()]
    substitute = Substitution(model.x.leaves, values)
    rows = [substitute(constraint) for constraint in model.lower_constraints]
    return cp.Problem(cp.Minimize(substitute(model.g_expression)), rows)


def _answers_at(model: Model, x: np.ndarray) -> list[np.ndarray]:
    """The lower answer at x, or nothing where a solver fails; the variables' values change."""
    if not _is_solved(_lower_at(model, x)):
        return []
    return [model.y.join({leaf: np.asarray(leaf.value, dtype=float) for leaf in model.y.leaves})]


def _dual_cones(multipliers: cp.Variable, cones: Sequence[Cone]) -> list[Constraint]:
    found: list[Constraint] = []
    end = 0
    for cone in cones:
        begin, end = end, end + cone.size
        part = multipliers[begin:end]
        if cone.kind is ConeKind.NONNEGATIVE:
            found.append(part >= 0)
        elif cone.kind is ConeKind.SECOND_ORDER:
            found.append(cp.SOC(part[0], part[1:]))
        elif cone.kind is ConeKind.EXPONENTIAL:
            found.append(cp.ExpCone(-part[1], -part[0], np.e * part[2]))
    return found


def _is_solved(program: cp.Problem) -> bool:
    """Solve it to high accuracy; whether that gave a minimiser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an inaccurate solve is noticed by its status
        if program.is_lp():
            try:
                solve_by_cvxpy(program, cp.HIGHS)
            except cp.SolverError:
                pass
            if program.status == cp.OPTIMAL:
                return True
        for tolerance in TOLERANCES:
            try:
                solve_by_cvxpy(program, cp.CLARABEL, max_iter=200, **tolerance_options(tolerance))
            except cp.SolverError:
                continue
            if program.status == cp.OPTIMAL:
                return True
    return False
