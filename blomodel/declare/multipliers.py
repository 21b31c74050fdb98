r"""The lower level's multipliers as part of its answer, so that the upper level can use them.

For :math:`g = \tfrac12 y'Qy + q(x)'y + r(x)` and rows :math:`A(x)y \le b(x)` (and equations), the
pair of answer and multipliers solves one lower level of its own,

.. math:: \min_{y,\lambda}\; g(x,y) + \bigl[y'Qy + q(x)'y + \lambda\cdot b(x)\bigr] \quad\text{s.t.}\quad
          A(x)y \le b(x),\; Qy + q(x) + A(x)'\lambda = 0,\; \lambda \ge 0.

The bracket is the gap between primal and dual value, nonnegative and zero exactly at the optimal
pairs, where g is least too. So the optimal value is v(x), and the lower gap of a certificate
bounds both what y leaves to gain and how far lambda is from being its multiplier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.attributes import attribute_constraints, plain_copy
from blomodel.compiler.expressions.constraints import INEQUALITY, SPECTRAL, as_row
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient, hessian, jacobian
from blomodel.compiler.passes.polynomial import AFFINE, CONSTANT, polynomial
from blomodel.declare.followers import Lower
from blomodel.errors import LevelError, ModelError
from blomodel.text.shorten import shorten

_EQUIVALENTS = (
    "only linear and convex quadratic lower levels have multipliers that the upper level can use "
    "(write abs, max and the like with an extra variable and affine constraints)"
)


class Multiplier(cp.Variable):
    """The multiplier of a lower constraint; made by ``Lower.multiplier``."""

    def __init__(self, constraint: Constraint, name: str | None = None) -> None:
        kind, row = as_row(constraint)
        if kind == SPECTRAL or len(constraint.args) > 2 or constraint.size != row.size:
            raise ModelError(f"{shorten(constraint)!r} is a cone constraint; {_EQUIVALENTS}.")
        label = name or f"multiplier of {shorten(constraint, 40)}"
        super().__init__(row.shape, name=label, nonneg=kind == INEQUALITY)
        self.constraint = constraint


@dataclass(frozen=True)
class _Row:
    """A constraint of the lower level as ``expression <= 0`` or ``== 0``, and its multiplier."""

    constraint: Constraint
    expression: cp.Expression
    multiplier: Multiplier


class PrimalDual(Lower):
    """A linear or convex quadratic lower level together with its multipliers.

    Attributes
    ----------
    primal : Lower
        The level as it was stated.
    rows : list
        Its constraints, then those that its variables' attributes stand for.
    """

    def __init__(self, primal: Lower) -> None:
        self.primal = primal
        self.rows = _rows(primal)
        coefficients = _Coefficients(primal, self.rows)
        # Twice g is g itself and the first part of the gap; g(x, 0) is no part of the gap.
        value = 2 * primal.minimised - coefficients.at_zero(primal.minimised)
        if coefficients.Q.nnz:
            value += 0.5 * cp.quad_form(coefficients.y, coefficients.Q, assume_PSD=True)
        for row in self.rows:
            value -= cp.sum(cp.multiply(row.multiplier, coefficients.at_zero(row.expression)))
        stationarity = coefficients.stationarity() == 0
        super().__init__(
            cp.Minimize(value) if primal.sign > 0 else cp.Maximize(-value),
            [*primal.constraints, stationarity],
            [*primal.variables, *(row.multiplier for row in self.rows)],
            name=primal.name,
        )

    def partners(self) -> list[tuple[int, list[cp.Variable]]]:
        """Positions among the compiled constraints, and the variables that belong to their rows.

        A constraint's partner is its multiplier, those of stationarity are the stated variables.
        """
        # The rows of attributes are compiled after all constraints, the last of which is stationarity.
        n_stated = len(self.primal.constraints)
        found: list[tuple[int, list[cp.Variable]]] = [(n_stated, list(self.primal.variables))]
        for position, row in enumerate(self.rows):
            found.append((position if position < n_stated else position + 1, [row.multiplier]))
        return found

    def reported_duals(self, duals: list[np.ndarray], values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The multipliers in the answer, not those of the level that holds them."""
        multipliers = values[len(self.primal.variables) :]
        # Stationarity, the one further constraint, has no multiplier that means anything to a user.
        return [*multipliers[: len(self.primal.constraints)], np.zeros(self.constraints[-1].shape)]

    def complete(
        self, x: dict[cp.Variable, np.ndarray], y: dict[cp.Variable, Any]
    ) -> dict[cp.Variable, Any]:
        """The answer with the multipliers that were not given: those that fit the others best."""
        missing = [row.multiplier for row in self.rows if row.multiplier not in y]
        known = {**x, **{leaf: y[leaf] for leaf in self.variables if leaf in y}}
        if not missing or len(known) + len(missing) < len(x) + len(self.variables):
            return y
        substitute = Substitution([*known], [cp.Constant(value) for value in known.values()])
        saved = [(leaf, leaf.value) for leaf in missing]
        fit = cp.Problem(cp.Minimize(substitute(self.minimised)), [substitute(self.constraints[-1])])
        try:
            fit.solve(solver=cp.CLARABEL)
            found = [leaf.value for leaf in missing]
        except cp.SolverError:
            found = [None] * len(missing)
        finally:
            for leaf, value in saved:
                leaf.save_value(value)
        # Without any that fit, zeros will do: the certificate refuses the point.
        filled = [np.zeros(m.shape) if v is None else v for m, v in zip(missing, found, strict=True)]
        return {**y, **dict(zip(missing, filled, strict=True))}


def with_multipliers(level: Lower, upper_parts: Sequence[cp.Expression | Constraint]) -> Lower:
    """The lower level, with its multipliers in the answer where the upper level uses one."""
    own = {multiplier.id for multiplier in level.multipliers.values()}
    used = {v.id: v for part in upper_parts for v in part.variables() if isinstance(v, Multiplier)}
    for part in (level.objective.args[0], *level.constraints):
        for variable in part.variables():
            if isinstance(variable, Multiplier):
                raise LevelError(
                    f"{shorten(part)!r} of the lower level holds a multiplier ('{variable.name()}'); "
                    "multipliers are known only when the lower level has answered, so only the upper "
                    "level can use them."
                )
    for variable in used.values():
        if variable.id not in own:
            raise LevelError(
                f"'{variable.name()}' belongs to a lower level that is not part of this problem; ask "
                "the bm.Lower that is passed as lower=... for it."
            )
    return PrimalDual(level) if used else level


def _rows(level: Lower) -> list[_Row]:
    constraints = list(level.constraints)
    for variable in level.variables:
        plain = plain_copy(variable)
        back = Substitution([plain], [variable])
        constraints += [back(demand) for demand in attribute_constraints(variable, plain)]
    rows = []
    for number, constraint in enumerate(constraints):
        multiplier = level.multipliers.get(constraint.id)
        if multiplier is None:
            multiplier = Multiplier(constraint, f"multiplier {number} of {level.name}")
        kind, expression = as_row(constraint)
        rows.append(_Row(constraint, expression, multiplier))
    return rows


class _Coefficients:
    """The numbers and expressions of 1/2 y'Qy + q(x)'y + r(x) and A(x)y - b(x).

    Upper variables and parameters count alike here: both are fixed when the lower level answers.
    """

    def __init__(self, level: Lower, rows: list[_Row]) -> None:
        self.level, self.rows = level, rows
        decided = {variable.id for variable in level.variables}
        parts = [level.minimised, *(row.expression for row in rows)]
        given = {v.id: v for part in parts for v in (*part.variables(), *part.parameters())}
        self.given = Block("x", [leaf for key, leaf in given.items() if key not in decided])
        self.block = Block("y", level.variables)
        self.y = cp.hstack([cp.vec(leaf, order="F") for leaf in self.block.leaves])
        self._blocks = (self.given, self.block)
        self._origin = np.zeros(self.given.size), np.zeros(self.block.size)
        self._g = lower([level.minimised], self._blocks)
        self._c = lower([row.expression for row in rows], self._blocks) if rows else None
        self._check()
        self.Q = sp.csc_array(hessian(self._g, ("y",), self._origin))
        lowest = np.linalg.eigvalsh(self.Q.toarray()).min(initial=0.0)
        if lowest < -1e-9 * (1 + np.abs(self.Q.data).max(initial=0)):
            raise ModelError(
                f"The lower objective {shorten(level.objective.args[0])!r} is not convex in the lower "
                f"variables (its Hessian has the eigenvalue {lowest:.3g}); {_EQUIVALENTS}."
            )

    def _check(self) -> None:
        of_g = polynomial(self._g)
        what = shorten(self.level.objective.args[0])
        if of_g.degree[0] > 2:
            raise ModelError(
                f"The lower objective {what!r} is not quadratic in the lower variables; {_EQUIVALENTS}."
            )
        if of_g.coefficient_class[0, 2] > CONSTANT:
            raise ModelError(
                f"The quadratic part of the lower objective {what!r} depends on upper variables or "
                "parameters; for multipliers its coefficients must be numbers."
            )
        for row in self.rows:
            if polynomial(lower([row.expression], self._blocks)).degree.max(initial=0) > 1:
                raise ModelError(
                    f"The lower constraint {shorten(row.constraint)!r} is not affine in the lower "
                    f"variables; {_EQUIVALENTS}."
                )

    def at_zero(self, expression: cp.Expression) -> cp.Expression:
        """The expression with all lower variables set to zero."""
        return self._at(expression, np.zeros(self.block.size))

    def _at(self, expression: cp.Expression, y: np.ndarray) -> cp.Expression:
        values = [cp.Constant(value.copy()) for value in self.block.unpack(y).values()]
        return Substitution(self.block.leaves, values)(expression)

    def stationarity(self) -> cp.Expression:
        """Gradient of the Lagrangian in y: Qy + q(x) + A(x)'lambda."""
        curved = self.Q @ self.y
        is_affine = polynomial(self._g).coefficient_class[0, 1] <= AFFINE
        if self._c is not None:
            is_affine &= bool(np.all(polynomial(self._c).coefficient_class[:, 1] <= CONSTANT))
        return curved + (self._constant_slopes() if is_affine else self._symbolic_slopes())

    def _constant_slopes(self) -> cp.Expression:
        """q(x) + A'lambda from numbers: q affine, A constant."""
        slope = gradient(self._g, ("y",))
        total = cp.Constant(slope(*self._origin))
        if self.given.size:
            moves = sp.csr_array(jacobian(slope, ("x",), self._origin))
            given = cp.hstack([cp.vec(leaf, order="F") for leaf in self.given.leaves])
            total += moves @ given
        if self._c is not None:
            matrix = sp.csr_array(jacobian(self._c, ("y",), self._origin))
            total += sp.csr_array(matrix.T) @ cp.hstack(
                [cp.vec(row.multiplier, order="F") for row in self.rows]
            )
        return total

    def _symbolic_slopes(self) -> cp.Expression:
        """q(x) + A(x)'lambda entry by entry, from values at the unit vectors."""
        lagrangian = self.level.minimised + sum(
            cp.sum(cp.multiply(row.multiplier, row.expression)) for row in self.rows
        )
        at_zero = self.at_zero(lagrangian)
        curvature = self.Q.diagonal()
        slopes = []
        for position, unit in enumerate(np.eye(self.block.size)):
            slopes.append(self._at(lagrangian, unit) - at_zero - 0.5 * curvature[position])
        return cp.hstack(slopes)
