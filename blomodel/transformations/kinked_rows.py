"""Constraints with one kink, such as ``cp.abs(y) <= 2``, as the plain rows that they stand for.

``|e| <= r`` is ``e <= r`` and ``-e <= r``; a maximum is below r where each of its entries is. Stated so,
bounds are seen as bounds and polyhedra as polyhedra, and no further variables are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.elementwise.abs import abs as abs_atom
from cvxpy.atoms.elementwise.maximum import maximum
from cvxpy.atoms.elementwise.minimum import minimum
from cvxpy.atoms.max import max as max_atom
from cvxpy.atoms.min import min as min_atom
from cvxpy.atoms.norm_inf import norm_inf
from cvxpy.constraints.constraint import Constraint
from cvxpy.constraints.nonpos import Inequality
from cvxpy.expressions.expression import Expression

from blomodel.basics.arrays import dense
from blomodel.declare.followers import Lower
from blomodel.declare.point import Values
from blomodel.declare.statement import Statement
from blomodel.text.shorten import shorten
from blomodel.transformations.transformation import Applied, Transformation


class RowsWithoutKinks(Transformation):
    """Rows in place of each constraint that holds a single kink."""

    name: ClassVar[str] = "kinked rows as plain ones"

    def obstacle(self, statement: Statement) -> str | None:
        """Some constraint must have a single kink, and no multiplier may be part of the answer."""
        if len(statement.followers) > 1:
            return "there are several followers"
        if statement.priced_rows or statement.partners:
            return "the upper level uses the multipliers of the rows as they are"
        every = (*statement.upper_constraints, *statement.lower.constraints)
        if any(rows_for(constraint) != [constraint] for constraint in every):
            return None
        return "no constraint contains a single kink"

    def apply(self, statement: Statement) -> Applied:
        """The rows of a constraint take its place."""
        level = statement.lower
        lower = [rows_for(constraint) for constraint in level.constraints]
        upper = [rows_for(constraint) for constraint in statement.upper_constraints]
        after = replace(
            statement,
            upper_constraints=tuple(row for rows in upper for row in rows),
            followers=(
                Lower(
                    level.objective,
                    [row for rows in lower for row in rows],
                    level.variables,
                    name=level.name,
                ),
            ),
        )
        stated = zip((*statement.upper_constraints, *level.constraints), upper + lower, strict=True)
        first = next(shorten(row) for row, rows in stated if rows != [row])
        reason = f"{first} holds where each of its pieces does"
        counts = tuple(len(rows) for rows in lower)
        return _PlainRows(self.name, reason, statement, after, counts)


@dataclass(frozen=True, eq=False)
class _PlainRows(Applied):
    counts: tuple[int, ...]  # lower constraints after, for each one before

    def invert_multipliers(self, multipliers: list[np.ndarray], values: Values) -> list[np.ndarray]:
        """At most one piece of a kink pushes each way, so what they push adds up."""
        if not multipliers:
            return multipliers
        found, position = [], 0
        for constraint, count in zip(self.before.lower.constraints, self.counts, strict=True):
            own = multipliers[position : position + count]
            is_same = count == 1 and np.size(own[0]) == constraint.size
            found.append(own[0] if is_same else _sum_of(own, constraint.shape))
            position += count
        return found


def _sum_of(pieces: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    parts = [np.asarray(piece, float).ravel(order="F") for piece in pieces]
    if size == 1:
        return np.full(shape, sum(part.sum() for part in parts))
    return np.reshape(sum(parts), shape, order="F")


def rows_for(constraint: Constraint) -> list[Constraint]:
    """The rows without kinks that a constraint stands for; the constraint itself where it has none."""
    if type(constraint) is not Inequality:
        return [constraint]
    terms = [*_terms(constraint.args[0], +1.0), *_terms(constraint.args[1], -1.0)]
    pieces = [_pieces(term, sign) for term, sign in terms]
    kinked = [k for k, found in enumerate(pieces) if found is not None]
    if len(kinked) != 1:
        return [constraint]
    (place,) = kinked
    term, sign = terms[place]
    if term.size != constraint.size:
        return [constraint]  # one kink for many rows
    rest = [other if way > 0 else -other for k, (other, way) in enumerate(terms) if k != place]
    below = -sum(rest) if rest else cp.Constant(0.0)
    rows: list[Constraint] = []
    for piece in pieces[place] or ():
        whole = piece if piece.size >= term.size else piece + np.zeros(term.shape)
        row = (whole if sign > 0 else -whole) <= below
        rows += rows_for(row)
    return [row for row in rows if row.variables()] if all(map(_may_hold, rows)) else [constraint]


def _may_hold(row: Constraint) -> bool:
    """Whether a row is one of variables, or numbers that keep it, so that it can be left out."""
    return bool(row.variables()) or (not row.parameters() and bool(np.all(row.violation() <= 0)))


def _terms(expression: Expression, sign: float) -> list[tuple[Expression, float]]:
    """The summands of an expression and their signs."""
    if isinstance(expression, AddExpression):
        return [term for part in expression.args for term in _terms(part, sign)]
    if isinstance(expression, NegExpression):
        return _terms(expression.args[0], -sign)
    return [(expression, sign)]


def _pieces(term: Expression, sign: float) -> list[Expression] | None:
    """Expressions of which each must be below where ``sign * term`` is; None where it has no kink."""
    if not term.args:
        return None
    argument = term.args[0]
    if sign > 0 and isinstance(term, abs_atom):
        return [argument, -argument]
    if sign > 0 and isinstance(term, norm_inf) and term.size == 1:
        return [cp.vec(argument, order="F"), -cp.vec(argument, order="F")]
    if (sign > 0 and isinstance(term, maximum)) or (sign < 0 and isinstance(term, minimum)):
        return list(term.args)
    largest = max_atom if sign > 0 else min_atom
    if isinstance(term, largest) and term.size == 1:
        return [cp.vec(argument, order="F")]
    return _scaled_pieces(term, sign)


def _scaled_pieces(term: Expression, sign: float) -> list[Expression] | None:
    """The pieces of a kink times a number of known sign."""
    if not isinstance(term, DivExpression | MulExpression):
        return None
    left, right = term.args
    if isinstance(term, DivExpression):
        factor, kink = right, left
    else:
        factor, kink = (left, right) if left.is_constant() else (right, left)
    if not factor.is_constant() or factor.parameters():
        return None
    if factor.size > 1 and (type(term) is MulExpression or factor.shape != kink.shape):
        return None  # perhaps a large matrix, of which no copy is needed
    numbers = np.asarray(dense(factor.value), float)
    if isinstance(term, DivExpression):
        numbers = 1 / np.where(numbers, numbers, np.nan)
    signs = set(np.sign(numbers).ravel())
    if len(signs) != 1 or not signs <= {-1.0, 1.0}:
        return None
    pieces = _pieces(kink, sign * signs.pop())
    return None if pieces is None else [_times(numbers, piece) for piece in pieces]


def _times(numbers: np.ndarray, piece: Expression) -> Expression:
    same = np.unique(numbers)
    return float(same[0]) * piece if same.size == 1 else cp.multiply(numbers, piece)
