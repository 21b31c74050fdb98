"""The problem as it is judged: what was stated, in units in which tolerances mean something.

Where nothing is far from one this is the problem itself. Elsewhere variables, rows and objectives are
counted in their own sizes (``transformations.scales`` and ``units``): a violation of a row that was
multiplied by 1e-9 is then as large as that of the row itself. Points, values, multipliers and texts come
back as they were stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints.constraint import Constraint

from blomodel.basics.arrays import dense
from blomodel.basics.kept_values import kept_values
from blomodel.compiler.expressions.attributes import has_attributes
from blomodel.compiler.expressions.integers import distance_to_integers, integer_entries
from blomodel.declare.point import Point
from blomodel.text.shorten import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blomodel.declare.statement import Statement
    from blomodel.model.model import Model
    from blomodel.model.rows import Rows
    from blomodel.problem import BilevelProblem
    from blomodel.transformations.chain import Chain


# A variable that is farther from zero in its own unit than this is far from it for a reason that the
# units have missed, as where all of a model lies elsewhere: its size then says nothing of a violation.
FARTHEST = 2.0**13
UNCLEAR = 1e-3  # of a violation in a row's own units: solvers leave that much in rows with small slopes


@dataclass(frozen=True)
class Violation:
    """By how much constraints are violated at a point."""

    relative: float  # to 1 + the largest entry of the constraint's own variables, up to FARTHEST
    text: str


@dataclass(frozen=True, eq=False)
class Judged:
    """A problem, the units in which it is judged, and its model in these units.

    Attributes
    ----------
    problem : BilevelProblem
    chain : Chain
        From the problem as it was stated.
    model : Model
    p : array
        Values of the parameters.
    """

    problem: BilevelProblem
    chain: Chain
    model: Model
    p: np.ndarray

    @classmethod
    def of(cls, problem: BilevelProblem) -> Judged:
        """The problem in the units in which it is solved, unless the user has asked for these."""
        chain, model = problem.judged_chain, problem.judged_model
        return cls(problem, chain, model, problem.parameter_values())

    @property
    def statement(self) -> Statement:
        """Both levels in the units of judgement."""
        return self.chain.end

    @property
    def is_as_stated(self) -> bool:
        """Whether nothing is counted in other units."""
        return self.chain is self.problem.plain_chain

    def forward(self, point: Point) -> Point:
        """A point of ``problem.levels`` in the units of judgement."""
        if self.is_as_stated:
            return Point(self.statement.levels, point.x, point.y)
        return self.chain.forward(point, self.p)

    def invert(self, point: Point) -> Point:
        """The point as it was stated."""
        if self.is_as_stated:
            return Point(self.problem.levels, point.x, point.y)
        return self.chain.invert(point)

    def invert_move(self, move: np.ndarray) -> np.ndarray:
        """A move of the upper variables as they were stated."""
        if self.is_as_stated:
            return move
        return self.chain.invert_upper(move) - self.chain.invert_upper(np.zeros(move.size))

    def invert_y(self, point: Point, y: np.ndarray) -> np.ndarray:
        """A lower answer beside a point, as it was stated."""
        return self.invert(Point(point.levels, point.x, y)).y

    @property
    def unit_f(self) -> float:
        """What the upper objective is divided by."""
        return self.chain.invert_value(1.0)

    @property
    def unit_g(self) -> float:
        """What the lower objective is divided by."""
        return self.chain.invert_lower_value(1.0)

    def violations(self, point: Point) -> tuple[Violation, Violation]:
        """Of the upper and of the lower constraints, attributes included.

        The stated variables hold the point, which is in the units of judgement.
        """
        levels = self.problem.levels
        above, below = self._violations_of_rows(point)
        return _with_integers(above, levels.upper), _with_integers(below, levels.lower)

    def _violations_of_rows(self, point: Point) -> tuple[Violation, Violation]:
        """The same without the demand that integers be whole."""
        problem, statement = self.problem, self.statement
        levels = problem.levels
        model = problem.plain_model
        above, below = (model.upper_in, model.upper_eq), (model.lower_in, model.lower_eq)
        if self.is_as_stated:
            return (
                _larger(
                    _violation(problem.constraints, problem.constraints, levels.upper),
                    self._clear(point, *above),
                ),
                _larger(
                    _violation(problem.lower.constraints, problem.lower.constraints, levels.lower),
                    self._clear(point, *below),
                ),
            )
        # What attributes demand are rows at the end of the constraints. Rows that were put together
        # have names of their own.
        pairs = (
            (statement.upper_constraints, problem.constraints),
            (statement.lower.constraints, problem.lower.constraints),
        )
        with kept_values([*statement.levels.upper, *statement.levels.lower]):
            point.assign()
            found = []
            for rows, names in pairs:
                is_same = all(a.size == b.size for a, b in zip(rows, names, strict=False))
                is_same &= len(rows) >= len(names)
                shown = [*names, *rows[len(names) :]] if is_same else rows
                found.append(_violation(rows, shown, ()))
        stated = self.invert(point)
        return (
            _larger(found[0], self._as_stated(stated, *above)),
            _larger(found[1], self._as_stated(stated, *below)),
        )

    def _clear(self, point: Point, inequalities: Rows, equalities: Rows) -> Violation:
        """What is violated so clearly in its own units that no other variable's size excuses it."""
        found = self._as_stated(point, inequalities, equalities)
        return Violation(UNCLEAR * found.relative, found.text)

    def _as_stated(self, point: Point, inequalities: Rows, equalities: Rows) -> Violation:
        """The largest violation of a row, relative to its coefficients and its own variables.

        Units that were guessed too large would hide it.
        """
        worst, label = 0.0, ""
        z = np.abs(np.concatenate([point.x, point.y]))
        for rows, is_equality in ((inequalities, False), (equalities, True)):
            if not len(rows):
                continue
            line = rows.linearise(point.x, point.y, self.p)
            slopes = abs(sp.csr_array(sp.hstack([line.in_x, line.in_y])))
            # Each variable counts with its own slope: a large one with a small slope excuses little.
            slopes.data *= 1.0 + np.minimum(z[slopes.indices], FARTHEST)
            unit = slopes.max(axis=1).toarray().ravel()
            over = np.abs(line.value) if is_equality else np.maximum(line.value, 0.0)
            relative = over / np.where(unit > 0, unit, 1.0)
            k = int(np.argmax(np.where(np.isnan(relative), np.inf, relative)))
            if not relative[k] <= worst:
                worst = float(relative[k])
                label = f"{rows.labels[k]!r} is violated by {over[k]:.3g}"
        return Violation(worst, label)


def _larger(one: Violation, other: Violation) -> Violation:
    return one if not one.relative < other.relative else other


def _violation(
    constraints: Sequence[Constraint], shown: Sequence[Constraint], variables: Sequence[cp.Variable]
) -> Violation:
    """The largest violation of a constraint, or of an attribute, at the variables' values."""
    worst, label = 0.0, ""
    for constraint, name in zip(constraints, shown, strict=True):
        violation = float(np.max(constraint.violation(), initial=0.0))
        relative = violation / _size(constraint.variables())
        if not relative <= worst:
            own = "" if constraint is name else " in its own units"
            worst = relative
            label = f"{shorten(name, 60)!r} is violated by {violation:.3g}{own}"
    for variable in variables:
        if not has_attributes(variable):
            continue
        distance = float(
            np.abs(dense(variable.project(variable.value)) - dense(variable.value)).max(initial=0)
        )
        if not distance / _size([variable]) <= worst:
            worst = distance / _size([variable])
            label = f"an attribute of '{variable.name()}' is violated by {distance:.3g}"
    return Violation(worst, label)


def _with_integers(found: Violation, variables: Sequence[cp.Variable]) -> Violation:
    """The violation, or how far integers are from whole numbers, whatever their size."""
    for variable in variables:
        whole = integer_entries(variable)
        apart = distance_to_integers(np.ravel(dense(variable.value), order="F"), whole)
        if apart > found.relative:
            found = Violation(apart, f"'{variable.name()}' must be whole, and is not by {apart:.3g}")
    return found


def _size(variables: Sequence[cp.Variable]) -> float:
    sizes = (float(np.abs(dense(variable.value)).max(initial=0)) for variable in variables)
    return 1 + min(max(sizes, default=0.0), FARTHEST)
