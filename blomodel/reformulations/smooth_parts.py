"""Kinked atoms written with variables and complementarity, so that a nonlinear solver can take them.

Unlike an epigraph this is exact wherever the atom stands, convex or not, once the relaxation t is zero:

* a Euclidean norm by length and direction: u = r z, |z| <= 1, r (1 - |z|^2) <= t;
* an absolute value by positive and negative part: u = p - n, p n <= t, |u| = p + n;
* a maximum by weights: v - u_i >= 0, w >= 0, sum w = 1, w_i (v - u_i) <= t.

Another kinked atom is split through its definition. One that has none stays as it is, and the nonlinear
language refuses it where it cannot be stated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import cvxpy as cp
import numpy as np
from cvxpy.atoms.elementwise.abs import abs as abs_atom
from cvxpy.atoms.elementwise.maximum import maximum
from cvxpy.atoms.elementwise.minimum import minimum
from cvxpy.atoms.max import max as max_atom
from cvxpy.atoms.min import min as min_atom
from cvxpy.atoms.norm1 import norm1
from cvxpy.atoms.norm_inf import norm_inf
from cvxpy.atoms.pnorm import Pnorm, PnormApprox
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.expressions.definitions import write_out
from blomodel.reformulations.symbolic import spread, times

_SPLIT = (abs_atom, maximum, minimum, max_atom, min_atom, norm1, norm_inf, Pnorm, PnormApprox)


class Part(Protocol):
    """Variables that stand for one atom."""

    def constraints(self, t: cp.Parameter) -> list[Constraint]:
        """What ties them to the atom's argument."""

    def start(self) -> None:
        """Give them the values that belong to the argument's present value."""


@dataclass(frozen=True, eq=False)
class NormParts:
    """Length and direction of u: u = length * direction."""

    argument: cp.Expression
    length: cp.Variable
    direction: cp.Variable
    axis: Any

    @property
    def shortfall(self) -> cp.Expression:
        """1 - |direction|^2, at least zero."""
        return 1.0 - cp.sum(cp.square(self.direction), axis=self.axis)

    def constraints(self, t: cp.Parameter) -> list[Constraint]:
        """Rows for u = length * direction, and a direction of length 1 wherever u is not zero."""
        length = spread(self.length, self.argument.shape, self.axis)
        return [
            self.argument == times(length, self.direction),
            self.shortfall >= 0,
            cp.multiply(self.length, self.shortfall) <= t,
        ]

    def start(self) -> None:
        """Length and direction of the present u."""
        values = _value(self.argument)
        length = np.sqrt(np.sum(values**2, axis=self.axis, keepdims=values.ndim > 0))
        self.length.save_value(length.reshape(self.length.shape, order="F"))
        self.direction.save_value(values / np.maximum(length, 1e-8))


@dataclass(frozen=True, eq=False)
class SignParts:
    """Positive and negative part of u: u = positive - negative."""

    argument: cp.Expression
    positive: cp.Variable
    negative: cp.Variable

    def constraints(self, t: cp.Parameter) -> list[Constraint]:
        """Parts of which at most one is positive, up to ``t``."""
        return [
            self.argument == self.positive - self.negative,
            cp.multiply(self.positive, self.negative) <= t,
        ]

    def start(self) -> None:
        """The parts of the present u."""
        values = _value(self.argument)
        self.positive.save_value(np.maximum(values, 0.0))
        self.negative.save_value(np.maximum(-values, 0.0))


@dataclass(frozen=True, eq=False)
class MaximumParts:
    """The largest element of a vector u, and weights that show which it is."""

    argument: cp.Expression
    largest: cp.Variable
    weights: cp.Variable

    def constraints(self, t: cp.Parameter) -> list[Constraint]:
        """Weights that add up to 1 and lie on the largest elements, up to ``t``."""
        slack = self.largest - self.argument
        return [slack >= 0, cp.sum(self.weights) == 1, cp.multiply(self.weights, slack) <= t]

    def start(self) -> None:
        """The largest element of the present u, and equal weights where it is reached."""
        values = _value(self.argument)
        self.largest.save_value(values.max())
        self.weights.save_value((values == values.max()) / np.sum(values == values.max()))


@dataclass
class SmoothParts:
    """Replaces kinked atoms and remembers what stands for them."""

    parts: list[Part] = field(default_factory=list)

    def split_norms(self, expression: Any, is_wanted: Callable[[Any], bool]) -> Any:
        """The expression with a length in place of each Euclidean norm that is wanted."""
        return self._split_norms(expression, is_wanted) if _holds_norm(expression) else expression

    def _split_norms(self, expression: Any, is_wanted: Callable[[Any], bool]) -> Any:
        if not is_wanted(expression) or not expression.args:
            return expression
        arguments = [self._split_norms(argument, is_wanted) for argument in expression.args]
        if _is_norm(expression):
            return self._length(expression, arguments[0])
        return _rebuilt(expression, arguments)

    def split_kinks(self, expression: Any) -> Any:
        """The expression with variables in place of every kinked atom that can be replaced."""
        return self._split(write_out(expression, lambda part: isinstance(part, _SPLIT)))

    def _split(self, expression: Any) -> Any:
        if not expression.args or not expression.variables():
            return expression
        arguments = [self._split(argument) for argument in expression.args]
        if _is_norm(expression):
            return self._length(expression, arguments[0])
        if isinstance(expression, abs_atom):
            return self._absolute(arguments[0])
        if isinstance(expression, maximum | minimum):
            return self._extreme(arguments, isinstance(expression, maximum))
        if expression.shape == () and isinstance(expression, norm1):
            return cp.sum(self._absolute(arguments[0]))
        if expression.shape == () and isinstance(expression, norm_inf | max_atom | min_atom):
            flat = cp.vec(arguments[0], order="F")
            if isinstance(expression, norm_inf):
                return self._largest(cp.hstack([flat, -flat]))
            is_max = isinstance(expression, max_atom)
            return self._largest(flat) if is_max else -self._largest(-flat)
        return _rebuilt(expression, arguments)

    def constraints(self, t: cp.Parameter) -> list[Constraint]:
        """What ties the new variables to the atoms they stand for."""
        return [constraint for part in self.parts for constraint in part.constraints(t)]

    def start(self) -> None:
        """Values that fit the present values of the other variables; inner parts come first."""
        for part in self.parts:
            part.start()

    def _name(self, what: str) -> str:
        return f"{what}_{len(self.parts) + 1}"

    def _length(self, atom: Any, argument: cp.Expression) -> cp.Variable:
        length = cp.Variable(atom.shape, nonneg=True, name=self._name("length"))
        direction = cp.Variable(argument.shape, name=self._name("direction"))
        self.parts.append(NormParts(argument, length, direction, atom.axis))
        return length

    def _signs(self, argument: cp.Expression) -> SignParts:
        positive, negative = (
            cp.Variable(argument.shape, nonneg=True, name=self._name(what))
            for what in ("positive", "negative")
        )
        signs = SignParts(argument, positive, negative)
        self.parts.append(signs)
        return signs

    def _absolute(self, argument: cp.Expression) -> cp.Expression:
        signs = self._signs(argument)
        return signs.positive + signs.negative

    def _extreme(self, arguments: list[Any], is_max: bool) -> cp.Expression:
        """max(a, b) = a + (b - a)_+ and min(a, b) = a - (a - b)_+, argument by argument."""
        best = arguments[0]
        for other in arguments[1:]:
            signs = self._signs(other - best if is_max else best - other)
            best = best + signs.positive if is_max else best - signs.positive
        return best

    def _largest(self, argument: cp.Expression) -> cp.Variable:
        largest = cp.Variable(name=self._name("largest"))
        weights = cp.Variable(argument.shape, nonneg=True, name=self._name("weights"))
        self.parts.append(MaximumParts(argument, largest, weights))
        return largest


def _rebuilt(expression: Any, arguments: list[Any]) -> Any:
    if all(new is old for new, old in zip(arguments, expression.args, strict=True)):
        return expression
    return expression.copy(arguments)


def _value(expression: cp.Expression) -> np.ndarray:
    return np.asarray(expression.value, dtype=float)


def _is_norm(expression: Any) -> bool:
    """Whether an expression is a Euclidean norm."""
    return isinstance(expression, Pnorm | PnormApprox) and float(expression.p) == 2.0


def _holds_norm(expression: Any) -> bool:
    """Whether there is a Euclidean norm anywhere in it."""
    return _is_norm(expression) or any(map(_holds_norm, expression.args))
