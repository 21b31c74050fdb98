r"""Whether a function is convex in x and y together, by proof.

cvxpy's rules are asked first. They know no product of two variables, so that two kinds of terms are
shown to be convex here: quadratic ones by their Hessian, and products of powers of affine functions,

.. math:: \prod_i a_i^{p_i}, \quad a_i > 0,

which are convex where no exponent is positive, or one is and all of them add up to at least 1. The
travel times of traffic models, :math:`v (v/u)^4` with a capacity u, are of this kind. A product that is
known to be convex and not negative may then stand in any other expression of cvxpy's.
"""

from __future__ import annotations

from collections.abc import Sequence

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.elementwise.power import Power, PowerApprox
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.expressions.constraints import EQUALITY, INEQUALITY, as_row
from blomodel.compiler.expressions.domains import first_unproven
from blomodel.compiler.expressions.rewriting import rewrite
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import hessian, jacobian
from blomodel.compiler.passes.intervals import intervals
from blomodel.compiler.passes.polynomial import is_jointly_quadratic
from blomodel.model.model import Model
from blomodel.programs.objective import summands, total
from blomodel.programs.quadratic import is_positive_semidefinite

Factor = tuple[cp.Expression, float]  # an affine function and its exponent
SAME = 1e-12  # relative: affine functions that differ by less are one


class JointConvexity:
    """Proofs of convexity in (x, y), where the bounds of single rows hold."""

    model: Model
    p: np.ndarray

    def __init__(self, model: Model, p: np.ndarray) -> None:
        self.model, self.p = model, p
        self._origin = (np.zeros(model.x.size), np.zeros(model.y.size), p)

    def holds_for(self, expression: cp.Expression) -> bool:
        """Whether a function is known to be convex; of a vector, each entry."""
        if self._by_rules([expression]):
            return True
        if expression.size > 1:
            return False
        quadratic: list[cp.Expression] = []
        others: list[cp.Expression] = []
        for part in summands(expression):
            tape = lower([part], self.model.blocks)
            (quadratic if is_jointly_quadratic(tape) else others).append(part)
        return self._by_rules(others) and self._by_hessian(quadratic)

    def _by_rules(self, parts: Sequence[cp.Expression]) -> bool:
        rewritten = [part if part.is_convex() else rewrite(part, self._stand_in) for part in parts]
        if not all(part.is_convex() for part in rewritten):
            return False
        return first_unproven(rewritten, self._least) is None

    def _by_hessian(self, parts: Sequence[cp.Expression]) -> bool:
        if not parts:
            return True
        tape = lower([total(parts)], self.model.blocks)
        return is_positive_semidefinite(hessian(tape, ("x", "y"), self._origin))

    def _stand_in(self, expression: cp.Expression) -> cp.Expression | None:
        """For a convex product of powers something of its curvature and sign, else None."""
        if not isinstance(expression, multiply | MulExpression | DivExpression):
            return None
        if not expression.is_constant() and not expression.is_affine():
            factors = _factors(expression)
            if factors is not None and self._is_convex_product(self._merged(factors)):
                return cp.square(cp.Variable(expression.shape))
        return None

    def _is_convex_product(self, factors: list[Factor]) -> bool:
        rising = [exponent for _, exponent in factors if exponent > 0]
        if len(rising) > 1 or (rising and sum(exponent for _, exponent in factors) < 1):
            return False
        for base, exponent in factors:
            least = self._least(base)
            if least < 0 or (exponent < 0 and least == 0):
                return False
        return True

    def _least(self, base: cp.Expression) -> float:
        """A lower bound of its entries, as far as the bounds of single rows tell."""
        model = self.model
        if not all(variable in model.x or variable in model.y for variable in base.variables()):
            return -np.inf  # it holds a stand-in
        ranges = {"x": model.bounds(self.p), "y": model.y_bounds, "p": (self.p, self.p)}
        return float(intervals(lower([base], model.blocks), ranges)[0].min(initial=np.inf))

    def _merged(self, factors: list[Factor]) -> list[Factor]:
        """Powers of one function put together."""
        merged: list[Factor] = []
        for base, exponent in factors:
            place = next((k for k, (other, _) in enumerate(merged) if self._are_one(base, other)), None)
            if place is None:
                merged.append((base, exponent))
            else:
                merged[place] = (merged[place][0], merged[place][1] + exponent)
        return [(base, exponent) for base, exponent in merged if exponent != 0]

    def _are_one(self, one: cp.Expression, other: cp.Expression) -> bool:
        if one is other:
            return True
        if one.shape != other.shape or {v.id for v in one.variables()} != {
            v.id for v in other.variables()
        }:
            return False
        difference = lower([one - other], self.model.blocks)
        size = 1 + np.abs(lower([one], self.model.blocks)(*self._origin)).max(initial=0)
        slopes = jacobian(difference, ("x", "y"), self._origin)
        return bool(
            np.abs(difference(*self._origin)).max(initial=0) <= SAME * size
            and np.abs(slopes.data).max(initial=0) <= SAME
        )


def _factors(expression: cp.Expression) -> list[Factor] | None:
    """Affine functions and exponents whose product it is, times a number that is not negative."""
    if expression.is_constant():
        return [] if expression.is_nonneg() else None
    if expression.is_affine():
        return [(expression, 1.0)]
    if isinstance(expression, Power | PowerApprox):
        inside = _factors(expression.args[0])
        exponent = expression.p.value
        if inside is None or exponent is None:
            return None
        return [(base, power * float(exponent)) for base, power in inside]
    if isinstance(expression, multiply | DivExpression) or _is_scalar_product(expression):
        left, right = (_factors(argument) for argument in expression.args)
        if left is None or right is None:
            return None
        sign = -1.0 if isinstance(expression, DivExpression) else 1.0
        return left + [(base, sign * power) for base, power in right]
    return None


def _is_scalar_product(expression: cp.Expression) -> bool:
    return isinstance(expression, MulExpression) and all(a.size == 1 for a in expression.args)


def convex_constraints(model: Model, p: np.ndarray, constraints: Sequence[Constraint]) -> set[int]:
    """Positions of the constraints that convex functions below 0, or affine ones at 0, make up."""
    proofs, found = JointConvexity(model, p), set()
    for position, constraint in enumerate(constraints):
        kind, row = as_row(constraint)
        if row.is_affine() if kind == EQUALITY else kind == INEQUALITY and proofs.holds_for(row):
            found.add(position)
    return found
