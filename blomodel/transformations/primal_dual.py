"""A linear or convex quadratic lower level together with its multipliers, as one lower level."""

from __future__ import annotations

from collections.abc import Sequence

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from blomodel.basics.spectra import extreme_eigenvalues
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient, hessian, jacobian
from blomodel.compiler.passes.polynomial import AFFINE, CONSTANT, polynomial
from blomodel.declare.followers import Lower
from blomodel.declare.multipliers import EQUIVALENTS, PricedRow
from blomodel.errors import ModelError
from blomodel.text.shorten import shorten


def primal_dual(primal: Lower, rows: Sequence[PricedRow]) -> Lower:
    """The level with the rows' multipliers among its variables; stationarity is its last constraint.

    Raises
    ------
    ModelError
        When the level is no linear or convex quadratic program in its own variables.
    """
    coefficients = _Coefficients(primal, rows)
    # Twice g is g itself and the first part of the gap; g(x, 0) is no part of the gap.
    value = 2 * primal.minimised - coefficients.at_zero(primal.minimised)
    if coefficients.Q.nnz:
        value += 0.5 * cp.quad_form(coefficients.y, coefficients.Q, assume_PSD=True)
    for row in rows:
        value -= cp.sum(cp.multiply(row.multiplier, coefficients.at_zero(row.expression)))
    stationarity = coefficients.stationarity() == 0
    return Lower(
        cp.Minimize(value) if primal.sign > 0 else cp.Maximize(-value),
        [*primal.constraints, stationarity],
        [*primal.variables, *(row.multiplier for row in rows)],
        name=primal.name,
    )


class _Coefficients:
    """The numbers and expressions of 1/2 y'Qy + q(x)'y + r(x) and A(x)y - b(x).

    Upper variables and parameters count alike here: both are fixed when the lower level answers.
    """

    def __init__(self, level: Lower, rows: Sequence[PricedRow]) -> None:
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
        lowest = min(extreme_eigenvalues(self.Q)[0], 0.0)
        if lowest < -1e-9 * (1 + np.abs(self.Q.data).max(initial=0)):
            raise ModelError(
                f"The lower objective {shorten(level.objective.args[0])!r} is not convex in the lower "
                f"variables (its Hessian has the eigenvalue {lowest:.3g}); {EQUIVALENTS}."
            )

    def _check(self) -> None:
        of_g = polynomial(self._g)
        what = shorten(self.level.objective.args[0])
        if of_g.degree[0] > 2:
            raise ModelError(
                f"The lower objective {what!r} is not quadratic in the lower variables; {EQUIVALENTS}."
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
                    f"variables; {EQUIVALENTS}."
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
