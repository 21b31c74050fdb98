"""A Lagrangian without the kinks of Euclidean norms, for derivatives of the minimiser.

|z| becomes sqrt(|z|^2 + s^2) with a tiny s. Where z is not zero this changes nothing that shows. Where z
is zero the curvature is that of a very stiff spring, so that z stays zero while x moves: just what the
minimiser does as long as the slope that holds z at its kink has room.
"""

from __future__ import annotations

from collections.abc import Sequence

import cvxpy as cp
import numpy as np
from cvxpy.atoms.pnorm import Pnorm, PnormApprox
from cvxpy.constraints import SOC
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.convexity import is_smooth
from blomodel.compiler.expressions.rewriting import rewrite
from blomodel.programs.lagrangian import Lagrangian

# s: above the accuracy of an interior-point answer, far below norms that are not zero.
_ROUNDING_OFF = 3e-6


class SmoothedNorms:
    """The Lagrangian of terms and constraints with norms smoothed and second-order cones as rows.

    Attributes
    ----------
    lagrangian : Lagrangian or None
        None where other kinks or cones remain, whose derivatives are not known here.
    """

    def __init__(
        self,
        terms: Sequence[cp.Expression],
        constraints: Sequence[Constraint],
        blocks: Sequence[Block],
    ) -> None:
        self._parts: list[slice] = []  # of the multipliers, those that belong to the new rows
        written: list[Constraint] = []
        end = 0
        for constraint in constraints:
            size = sum(argument.size for argument in constraint.args)
            if isinstance(constraint, SOC):
                bound, argument = constraint.args
                axis = None if argument.ndim < 2 else constraint.axis
                written.append(_smoothed_norm(argument, axis) - bound <= 0)
                self._parts.append(slice(end, end + bound.size))
            else:
                if len(constraint.args) > 1 and hasattr(constraint, "expr"):
                    size = constraint.expr.size
                args = [rewrite(argument, _without_kink) for argument in constraint.args]
                written.append(constraint.copy(args))
                self._parts.append(slice(end, end + size))
            end += size
        new_terms = [rewrite(term, _without_kink) for term in terms]
        self.lagrangian: Lagrangian | None = None
        if is_smooth(new_terms, written):
            lagrangian = Lagrangian(new_terms, written, blocks)
            if lagrangian.is_polyhedral_form:
                self.lagrangian = lagrangian

    def multipliers(self, original: np.ndarray) -> np.ndarray:
        """Those of the new rows: a cone's is the dual of its bound."""
        if not self._parts:
            return np.zeros(0)
        return np.concatenate([original[part] for part in self._parts])


def _without_kink(expression: cp.Expression) -> cp.Expression | None:
    if isinstance(expression, Pnorm | PnormApprox) and expression.p == 2:
        return _smoothed_norm(rewrite(expression.args[0], _without_kink), expression.axis)
    return None


def _smoothed_norm(argument: cp.Expression, axis: int | None) -> cp.Expression:
    return cp.sqrt(cp.sum(cp.square(argument), axis=axis) + _ROUNDING_OFF**2)
