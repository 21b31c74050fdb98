"""Kinked atoms written with variables of their own, so that what remains is smooth.

|u| becomes t with -t <= u <= t, max(u) becomes t >= u_i, and Huber's loss a square plus an absolute
value. A lower level with such atoms is then a smooth one with more rows (often a quadratic program),
whose active rows tell on which side of each kink the minimiser lies. Another atom is lifted through its
definition. One that has none stays as it is written: the level is then a conic program with a kink.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.elementwise.huber import huber
from cvxpy.constraints import Inequality, NonNeg, NonPos
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.convexity import arguments
from blomodel.compiler.expressions.definitions import write_out
from blomodel.programs.hoisting import Hoister
from blomodel.programs.objective import summands, total

_LIFTED = (cp.abs, cp.norm1, cp.norm_inf, cp.max, cp.maximum, cp.min, cp.minimum, huber)
_SYMMETRIC = (cp.abs, cp.norm1, cp.norm_inf, huber)  # need an affine argument


class Lifting:
    """Terms and constraints without kinks, in y and further variables.

    Parameters
    ----------
    terms, constraints : sequences
        As written.
    blocks : sequence of Block
        The blocks "x", "y" and "p".
    x_bounds : tuple of arrays

    Attributes
    ----------
    terms, constraints : lists
        Constraints on the new variables come last.
    y : Block
        The lower variables followed by the new ones.
    definitions : list of pairs
        Each new variable with the expressions of which it is the largest at a minimiser; these hold
        no variable that comes later in the list.
    """

    y: Block
    terms: list[cp.Expression]
    constraints: list[Constraint]

    def __init__(
        self,
        terms: Sequence[cp.Expression],
        constraints: Sequence[Constraint],
        blocks: Sequence[Block],
        x_bounds: tuple[np.ndarray, np.ndarray],
    ) -> None:
        self.y = blocks[1]
        self.definitions: list[tuple[cp.Variable, list[cp.Expression]]] = []
        self._bounds: list[Constraint] = []
        self.terms, self.constraints = list(terms), list(constraints)
        if not any(_has_kinks(_written_out(part)) for part in (*terms, *constraints)):
            return
        self._hoister = Hoister(blocks, x_bounds)
        self.terms = [self._lift_term(term) for term in terms]
        self.constraints = [self._lift_constraint(constraint) for constraint in constraints]
        self.constraints += self._bounds
        if self.definitions:
            self.y = Block("y", (*blocks[1].leaves, *(variable for variable, _ in self.definitions)))

    def _lift_term(self, term: cp.Expression) -> cp.Expression:
        if not _has_kinks(_written_out(term)):
            return term
        return total([self._lift_convex(part) for part in summands(term)])

    def _lift_constraint(self, constraint: Constraint) -> Constraint:
        if not _has_kinks(_written_out(constraint)):
            return constraint
        # What replaces a constraint must have rows of the same number, order and sign.
        if isinstance(constraint, Inequality | NonPos):
            expression = constraint.expr if isinstance(constraint, Inequality) else constraint.args[0]
            return self._lift_convex(expression) <= 0
        if isinstance(constraint, NonNeg):
            return self._lift_convex(-constraint.args[0]) <= 0
        return constraint

    def _lift_convex(self, expression: cp.Expression) -> cp.Expression:
        """Lift what cvxpy's rules find convex: only there are the new rows tight at a minimiser."""
        written_out = _written_out(expression)
        if not _has_kinks(written_out) or not self._hoister(written_out).is_convex():
            return expression
        return self._replace(written_out)

    def _replace(self, expression: cp.Expression) -> cp.Expression:
        if not _has_kinks(expression) or not self._hoister.holds_y(expression):
            return expression
        parts = [self._replace(argument) for argument in arguments(expression)]
        if (
            isinstance(expression, _SYMMETRIC)
            and not self._hoister(arguments(expression)[0]).is_affine()
        ):
            return expression.copy(parts)
        if isinstance(expression, huber):
            return self._huber(expression, parts[0])
        if isinstance(expression, cp.abs):
            return self._above([parts[0], -parts[0]], expression.shape, nonneg=True)
        if isinstance(expression, cp.maximum):
            return self._above(parts, expression.shape)
        if isinstance(expression, cp.minimum):
            return -self._above([-part for part in parts], expression.shape)
        if expression.shape != () or not isinstance(expression, _LIFTED):
            return expression.copy(parts)  # not a kink, or one taken along an axis
        if isinstance(expression, cp.norm1):
            shape = parts[0].shape
            return cp.sum(self._above([parts[0], -parts[0]], shape, nonneg=True))
        if isinstance(expression, cp.min):
            return -self._above([-parts[0]], ())
        both = [parts[0], -parts[0]] if isinstance(expression, cp.norm_inf) else parts
        return self._above(both, (), nonneg=isinstance(expression, cp.norm_inf))

    def _above(
        self, parts: Sequence[cp.Expression], shape: tuple[int, ...], nonneg: bool = False
    ) -> cp.Variable:
        """A new variable that is at least each of the parts."""
        level = cp.Variable(shape, nonneg=nonneg, name=f"kink{len(self.definitions)}")
        self.definitions.append((level, list(parts)))
        self._bounds += [part - level <= 0 for part in parts]
        return level

    def _huber(self, expression: huber, argument: cp.Expression) -> cp.Expression:
        """huber(u, M) = min_r (u - r)^2 + 2 M |r|."""
        rest = cp.Variable(expression.shape, name=f"kink{len(self.definitions)}")
        beyond = cp.pos(argument - expression.M) - cp.pos(-argument - expression.M)
        self.definitions.append((rest, [beyond]))
        size = self._above([rest, -rest], expression.shape, nonneg=True)
        return cp.square(argument - rest) + 2 * cp.multiply(expression.M, size)


def _written_out(part: Any) -> Any:
    return write_out(part, lambda atom: isinstance(atom, _LIFTED))


def _has_kinks(part: Any) -> bool:
    return isinstance(part, _LIFTED) or any(map(_has_kinks, arguments(part)))
