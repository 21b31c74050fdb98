"""Expressions in variables that are counted from another place.

With :math:`z = o + z'` written out, a row such as ``z - 1000002 <= 0`` would add the millions to what is
left of z and take them away again, and the sum is rounded to ten places in between. So what is constant
is drawn together first: every affine atom is applied to what moves and to what is constant apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.conv import conv, convolve
from cvxpy.atoms.affine.kron import kron
from cvxpy.atoms.affine.wraps import Wrap
from cvxpy.atoms.cumprod import cumprod
from cvxpy.constraints.constraint import Constraint
from cvxpy.constraints.nonpos import Inequality
from cvxpy.constraints.zero import Equality

_PRODUCTS = (MulExpression, multiply, DivExpression, conv, convolve, kron)
_NOT_OF_SUMS = (cumprod, Wrap)  # a wrapped sum has a property that its terms may not have


class _Split(NamedTuple):
    """An expression as the sum of what moves and what is constant; one of them may be missing."""

    moving: Any
    constant: Any


class Translation:
    """Replace variables in expressions and constraints by new ones and their origins.

    Parameters
    ----------
    moved : dict
        By variable: the one that is counted from the origin, and the origin.
    """

    def __init__(self, moved: Mapping[cp.Variable, tuple[cp.Variable, np.ndarray]]) -> None:
        self._moved = {old.id: new for old, new in moved.items()}
        self._known: dict[int, tuple[Any, _Split | None]] = {}  # by the id of a part, kept with it

    def __call__(self, part: cp.Expression | Constraint) -> cp.Expression | Constraint:
        """The part in the new variables; the part itself where it holds none of them."""
        if isinstance(part, Constraint):
            return self._constraint(part)
        return self._replaced(part)

    def _constraint(self, part: Constraint) -> Constraint:
        if not any(self._split(argument) for argument in part.args):
            return part
        args = [self._replaced(argument) for argument in part.args]
        if isinstance(part, Inequality | Equality):
            left, right = (self._split(argument) or _alone(argument) for argument in part.args)
            if left.constant is not None and right.constant is not None:
                # Both sides may be far away; what counts is the difference.
                difference = _number(left.constant - right.constant)
                args = [_whole(_Split(left.moving, difference)), _or_zeros(right.moving, part.args[1])]
        replaced = part.copy(args)
        if part.label:
            replaced.set_label(part.label)
        return replaced

    def _replaced(self, part: Any) -> Any:
        split = self._split(part)
        return part if split is None else _whole(split)

    def _split(self, part: Any) -> _Split | None:
        """What moves and what is constant; None for parts without any of the variables."""
        known = self._known.get(id(part))
        if known is None:
            known = self._known[id(part)] = part, self._look(part)
        return known[1]

    def _look(self, part: Any) -> _Split | None:
        if isinstance(part, cp.Variable):
            found = self._moved.get(part.id)
            return None if found is None else _Split(found[0], cp.Constant(found[1]))
        if not any(self._split(argument) for argument in part.args):
            return None
        pairs = [self._split(argument) or _alone(argument) for argument in part.args]
        if isinstance(part, AddExpression):
            return _Split(_sum([pair.moving for pair in pairs]), _sum([pair.constant for pair in pairs]))
        if _is_linear(part, pairs):
            return _Split(*(_applied(part, pairs, kind) for kind in _Split._fields))
        return _Split(part.copy([_whole(pair) for pair in pairs]), None)


def _alone(part: Any) -> _Split:
    """A part without any variable that is replaced."""
    return _Split(None, part) if part.is_constant() else _Split(part, None)


def _is_linear(part: Any, pairs: list[_Split]) -> bool:
    """Whether an atom of sums is the sum of the atom of their terms; of a product, in one factor."""
    if not isinstance(part, AffAtom) or isinstance(part, _NOT_OF_SUMS):
        return False
    if isinstance(part, DivExpression):
        return pairs[1].moving is None
    return not isinstance(part, _PRODUCTS) or sum(pair.moving is not None for pair in pairs) == 1


def _applied(part: Any, pairs: list[_Split], kind: str) -> Any:
    """The atom of what moves, or of what is constant; None where there is nothing of the kind."""
    terms = [getattr(pair, kind) for pair in pairs]
    if isinstance(part, _PRODUCTS):
        # The factor that does not move stands in both products.
        terms = [pair.constant if pair.moving is None else getattr(pair, kind) for pair in pairs]
        if any(term is None for term in terms):
            return None
    elif all(term is None for term in terms):
        return None
    new = part.copy([_or_zeros(term, old) for term, old in zip(terms, part.args, strict=True)])
    return new if kind == "moving" else _number(new)


def _or_zeros(term: Any, old: Any) -> Any:
    return cp.Constant(np.zeros(old.shape)) if term is None else term


def _number(part: Any) -> Any:
    """A constant as one number, unless it holds parameters."""
    return part if part.parameters() else cp.Constant(part.value)


def _sum(terms: list[Any]) -> Any:
    """The sum of terms of one shape, some of which may be missing."""
    found = [term for term in terms if term is not None]
    if not found:
        return None
    total = found[0] if len(found) == 1 else AddExpression(found)
    return _number(total) if total.is_constant() else total


def _whole(split: _Split) -> Any:
    terms = [term for term in split if term is not None]
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]
