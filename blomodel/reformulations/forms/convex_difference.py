r"""The value-function problem as a difference of convex functions, for VF-iDCA.

Two forms. *As stated*: f, g and the lower rows are convex in (x, y) together. *Penalties as bounds*:
:math:`g = s(y) + \sum_j x_j P_j(y)` with convex P_j, no x in f, and bounds on x alone above; the lower
level becomes :math:`\min s(y)` subject to :math:`P_j(y) \le r_j`, whose multipliers are the weights x.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import MulExpression, multiply
from cvxpy.atoms.pnorm import Pnorm

from blomodel.basics import limits
from blomodel.basics.deadline import end_of_work
from blomodel.compiler.expressions.constraints import EQUALITY, as_row
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient
from blomodel.compiler.passes.polynomial import ABSENT, polynomial
from blomodel.errors import LowerLevelError, ModelError
from blomodel.model.model import Model
from blomodel.programs.by_cvxpy import solve_by_cvxpy
from blomodel.programs.objective import summands, total
from blomodel.text.shorten import shorten

SOLVED = (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)
ACCURACIES = (1e-7, 1e-5)  # asked of the solver, the second where it breaks down at the first
SMALLEST_BOUND = 1e-6  # of r, below which multipliers of the bounds are not unique


@dataclass(frozen=True)
class LowerPoint:
    """The lower level at one first part of a point: its value, a slope of it, its answer and x."""

    value: float
    slope: np.ndarray
    y: np.ndarray
    x: np.ndarray


class ConvexDifference:
    """The convex program of one iteration, with what changes between iterations as parameters.

    Attributes
    ----------
    upper, below : cp.Variable
        The first part of a point (x, or the bounds r), and y.
    unit : float
        Of f and g over that of the point: violations of V_k, steps and rho are measured by it.
    """

    unit: float = 1.0

    def __init__(
        self,
        upper: cp.Variable,
        below: cp.Variable,
        f: cp.Expression,
        g: cp.Expression,
        rows: list[cp.Expression],
        hard: list[cp.Constraint],
    ) -> None:
        self.upper, self.below = upper, below
        self._center = cp.Parameter(upper.size + below.size)
        self._slope = cp.Parameter(upper.size)
        self._rest = cp.Parameter()
        self._weight, self._convexity = cp.Parameter(nonneg=True), cp.Parameter(nonneg=True)
        self._unit = cp.Parameter(nonneg=True)
        excess = cp.Variable(nonneg=True)  # max {0, V_k, c}, in units of c
        both = cp.hstack([upper, below])
        change = cp.Variable(upper.size + below.size)
        value = g - self._slope @ upper - self._rest
        self._excess = excess
        self._program = cp.Problem(
            cp.Minimize(f + self._convexity / 2 * cp.sum_squares(change) + self._weight * excess),
            [
                change == both - self._center,
                value <= self._unit * excess,
                *[row <= excess for row in rows],
                *hard,
            ],
        )
        if not self._program.is_dcp():
            raise ModelError("f, g and the rows are not convex in both levels' variables together.")

    def step(
        self, point: np.ndarray, found: LowerPoint, weight: float, convexity: float
    ) -> tuple[np.ndarray, float]:
        """The next point, and its violation of the linearised value constraint and the rows."""
        first = point[: self.upper.size]
        self._center.value, self._slope.value = point, found.slope
        self._rest.value = found.value - found.slope @ first
        self._unit.value = self.unit
        self._weight.value, self._convexity.value = weight * self.unit, convexity * self.unit
        if not _is_solved(self._program):
            raise LowerLevelError("its convex program could not be solved accurately", first)
        return np.concatenate([self.upper.value, self.below.value]), float(self._excess.value)

    def y_of(self, point: np.ndarray) -> np.ndarray:
        """The second part of a point."""
        return point[self.upper.size :]

    def first_point(self, x: np.ndarray | None, y: np.ndarray | None) -> np.ndarray:
        """Where to begin."""
        raise NotImplementedError

    def solve_lower(self, point: np.ndarray) -> LowerPoint | None:
        """The lower level at the first part of a point; None where it has no answer."""
        raise NotImplementedError


def _is_solved(program: cp.Problem) -> bool:
    """Solve a convex program; whether an answer came before the work must end."""
    for accuracy in ACCURACIES:
        tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), accuracy)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of inaccurate answers, here allowed
                solve_by_cvxpy(program, cp.CLARABEL, **tolerances)
        except cp.SolverError:
            if end_of_work().is_over:
                return False
            continue
        return program.status in SOLVED
    return False


def convex_difference(model: Model, p: np.ndarray) -> ConvexDifference:
    """The form that suits the model; a ModelError says why neither does."""
    if not model.has_smooth_kkt or model.upper_in.spectral:
        raise ModelError("a matrix inequality has no rows that could be relaxed; try auto.")
    try:
        return AsStated(model, p)
    except (ModelError, cp.error.DCPError) as error:
        reason = str(error)
    try:
        return PenaltiesAsBounds(model, p)
    except ModelError as error:
        raise ModelError(
            "the lower level must be convex in x and y together, or a convex loss with penalties "
            "x_j P_j(y) whose weights are all the upper level has. "
            f"As stated: {reason} As penalties: {error} Try auto."
        ) from error


def _flat_variables(model: Model) -> tuple[cp.Variable, cp.Variable, Substitution]:
    """A vector for each level, and the model's variables as parts of them."""
    upper, below = cp.Variable(model.x.size), cp.Variable(model.y.size)
    old, new = [], []
    for block, vector in ((model.x, upper), (model.y, below)):
        for leaf in block.leaves:
            old.append(leaf)
            new.append(cp.reshape(vector[block.slice_of(leaf)], leaf.shape, order="F"))
    return upper, below, Substitution(old, new)


class AsStated(ConvexDifference):
    """x above, with f, g and the lower rows convex in (x, y); a quadratic g is made convex in x."""

    def __init__(self, model: Model, p: np.ndarray) -> None:
        self.model, self.p = model, p
        if not model.f_expression.is_convex():
            raise ModelError("f is not convex in (x, y) by cvxpy's rules.")
        upper, below, put = _flat_variables(model)
        self._lift = 0.0
        f = put(model.f_expression)
        if model.g_is_quadratic:
            if not limits.DENSE_EIGENVALUE.allows(model.y.size):
                raise ModelError(f"{model.y.size} lower variables are too many to invert its Hessian.")
            matrix, self._lift = _convexified(model, p)
            none = (np.zeros(model.x.size), np.zeros(model.y.size), p)
            both = cp.hstack([upper, below])
            linear, constant = model.g_grad(*none), float(model.g(*none)[0])
            g = cp.quad_form(both, cp.psd_wrap(matrix)) / 2 + linear @ both + constant
        else:
            g = put(model.g_expression)
        if not g.is_convex():
            raise ModelError("g is not convex in (x, y) by cvxpy's rules.")
        rows, hard = [], [put(row) for row in model.upper_constraints]
        for constraint in model.lower_constraints:
            kind, expression = as_row(constraint)
            if kind == EQUALITY:
                hard.append(put(expression) == 0)
            else:
                rows.append(put(expression))
        super().__init__(upper, below, f, g, rows, hard)

    def first_point(self, x: np.ndarray | None, y: np.ndarray | None) -> np.ndarray:
        """The user's start; the middle of the bounds where there is none, with the lower answer."""
        if x is None:
            low, high = self.model.bounds(self.p)
            with np.errstate(invalid="ignore"):
                x = np.where(np.isfinite(low + high), (low + high) / 2, np.clip(0.0, low, high))
        if y is None:
            answer = self.model.lower_program.solve(x, self.p)
            y = answer.y if answer.has_point else np.zeros(self.model.y.size)
        return np.concatenate([x, y])

    def solve_lower(self, point: np.ndarray) -> LowerPoint | None:
        """v(x), with what was added to g, and its slope by the multipliers."""
        x = np.ascontiguousarray(point[: self.upper.size])
        program = self.model.lower_program
        answer = program.solve(x, self.p)
        if not answer.has_point:
            return None
        slope = program.gradient(x, self.p, (1.0,), answer) + self._lift * x
        return LowerPoint(answer.value + self._lift / 2 * float(x @ x), slope, answer.y, x)


def _convexified(model: Model, p: np.ndarray) -> tuple[np.ndarray, float]:
    """The Hessian of a quadratic g with a multiple of |x|^2 / 2 that makes it semidefinite."""
    n_x = model.x.size
    matrix = model.g_hessian(np.zeros(n_x), np.zeros(model.y.size), p)
    cross, below = matrix[:n_x, n_x:], matrix[n_x:, n_x:]
    inverse = np.linalg.pinv(below, rcond=1e-12, hermitian=True)
    if np.abs(cross - cross @ inverse @ below).max(initial=0) > 1e-8 * (
        1 + np.abs(cross).max(initial=0)
    ):
        raise ModelError("g is linear along directions of y whose slope moves with x.")
    rest = matrix[:n_x, :n_x] - cross @ inverse @ cross.T
    least = float(np.linalg.eigvalsh((rest + rest.T) / 2)[0]) if n_x else 0.0
    lift = max(0.0, -least) * (1 + 1e-9)
    matrix[:n_x, :n_x] += lift * np.eye(n_x)
    return matrix, lift


class PenaltiesAsBounds(ConvexDifference):
    """Bounds r on the penalties take the place of their weights x, which are the multipliers."""

    def __init__(self, model: Model, p: np.ndarray) -> None:
        self.model, self.p = model, p
        self.low, self.high = model.bounds(p)
        if model.f.depends_on("x"):
            raise ModelError("f holds x.")
        if np.any(self.low < 0) or model.coupling_constraints or model.upper_eq.size:
            raise ModelError("the weights must be nonnegative, with no more than bounds on them.")
        if any(variable in model.x for row in model.lower_constraints for variable in row.variables()):
            raise ModelError("a lower constraint holds x.")
        upper, below, put = _flat_variables(model)
        loss, penalties = _read_penalties(model)
        own = [put(row) for row in model.lower_constraints]
        self._penalties = _joined([put(part) for part in penalties])
        self._bounds, self._y = cp.Parameter(model.x.size, nonneg=True), below
        self._rows = [part <= self._bounds[places] for places, part in self._penalties]
        self._lower = cp.Problem(cp.Minimize(put(loss)), [*self._rows, *own])
        if not self._lower.is_dcp():
            raise ModelError("the loss or a penalty is not convex in y.")
        super().__init__(
            upper,
            below,
            put(model.f_expression),
            put(loss),
            [part - upper[places] for places, part in self._penalties],
            [upper >= 0, *own],
        )

    def first_point(self, x: np.ndarray | None, y: np.ndarray | None) -> np.ndarray:
        """The sizes of the penalties at the lower answer for given weights; 1 without any."""
        bounds, start = np.ones(self.model.x.size), np.zeros(self.model.y.size)
        if x is not None:
            answer = self.model.lower_program.solve(np.clip(x, self.low, self.high), self.p)
            if answer.has_point:
                start = answer.y
                self._y.value = start
                for places, part in self._penalties:
                    bounds[places] = part.value
        if y is not None:
            start = y
        point = np.concatenate([np.maximum(bounds, SMALLEST_BOUND), start])
        found = self.solve_lower(point)
        if found is not None:  # multipliers are in units of g over those of the bounds
            largest = float(np.abs(found.slope).max(initial=0))
            self.unit = largest if largest > 1e-6 * (1 + abs(found.value)) else 1.0
        return point

    def solve_lower(self, point: np.ndarray) -> LowerPoint | None:
        """The least loss within the bounds; its slope is minus the multipliers, which are x."""
        self._bounds.value = np.maximum(point[: self.upper.size], 0.0)
        if not _is_solved(self._lower):
            return None
        multipliers = np.empty(self.upper.size)
        for (places, _), row in zip(self._penalties, self._rows, strict=True):
            multipliers[places] = row.dual_value
        y = np.array(self._y.value, dtype=float)
        x = np.clip(multipliers, self.low, self.high)
        return LowerPoint(float(self._lower.value), -multipliers, y, x)


def _read_penalties(model: Model) -> tuple[cp.Expression, list[cp.Expression]]:
    """The loss without x, and what each entry of x multiplies."""
    n_x = model.x.size
    random = np.random.default_rng(0)
    loss: list[cp.Expression] = []
    parts: list[list[cp.Expression]] = [[] for _ in range(n_x)]
    for term in summands(model.g_expression):
        tape = lower([term], model.blocks)
        if not tape.depends_on("x"):
            loss.append(term)
            continue
        facts = polynomial(tape, variable="x", coefficient="y")
        if facts.degree[0] > 1 or facts.coefficient_class[0, 0] != ABSENT:
            raise ModelError(f"{shorten(term)!r} is not a weight of x times a function of y.")
        slope = gradient(tape, ("x",))
        values = [random.standard_normal(size) for size in tape.input_sizes]
        for j in np.flatnonzero(slope(*values)):
            unit = np.zeros(n_x)
            unit[j] = 1.0
            parts[j].append(_at(model, unit)(term))
    missing = [j for j, found in enumerate(parts) if not found]
    if missing:
        raise ModelError(f"entry {missing[0]} of x is no weight of the lower level.")
    return total(loss), [total(found) for found in parts]


def _joined(penalties: Sequence[cp.Expression]) -> list[tuple[np.ndarray, cp.Expression]]:
    """Vectors of penalties with their places: Euclidean norms of equally many entries as one.

    cvxpy's work for a cone of its own for each group of a group lasso outweighs all the rest.
    """
    alike: dict[Any, list[tuple[int, float, cp.Expression]]] = {}
    for place, penalty in enumerate(penalties):
        factor, atom = _without_factor(penalty)
        is_norm = isinstance(atom, Pnorm) and atom.p == 2 and atom.args[0].ndim == 1
        inside = atom.args[0] if is_norm else penalty
        alike.setdefault(inside.size if is_norm else ("alone", place), []).append(
            (place, factor, inside)
        )
    joined = []
    for kind, members in alike.items():
        places = np.array([place for place, _, _ in members])
        if isinstance(kind, tuple):
            joined.append((places, cp.reshape(members[0][2], (1,), order="F")))
            continue
        norms = cp.norm(cp.vstack([inside for _, _, inside in members]), 2, axis=1)
        joined.append((places, cp.multiply(np.array([factor for _, factor, _ in members]), norms)))
    return joined


def _without_factor(expression: cp.Expression) -> tuple[float, cp.Expression]:
    """A positive number that an expression is multiplied by, and what it multiplies."""
    if isinstance(expression, multiply | MulExpression):
        number, rest = expression.args
        if number.is_constant() and number.size == 1 and number.value > 0:
            return float(number.value), rest
    return 1.0, expression


def _at(model: Model, x: np.ndarray) -> Any:
    """Expressions with x as numbers."""
    return Substitution(model.x.leaves, [cp.Constant(v) for v in model.x.unpack(x).values()])
