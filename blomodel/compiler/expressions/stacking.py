"""Expressions that are equal up to their variables and numbers, put together as one.

A thousand customers who each maximise (w_k - p) @ z_k are a thousand small expressions, which cost a
thousand times as much to compile and to look at as one. Put together they are one expression of long
vectors: the variables side by side, the numbers one after another, matrices as blocks on a diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.index import index, special_index
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.affine.wraps import psd_wrap
from cvxpy.atoms.max import max as max_atom
from cvxpy.atoms.min import min as min_atom
from cvxpy.atoms.norm1 import norm1
from cvxpy.atoms.norm_inf import norm_inf
from cvxpy.atoms.quad_form import QuadForm
from cvxpy.atoms.quad_over_lin import quad_over_lin

from blomodel.compiler.expressions.restricting import (
    BY_ENTRY,
    MOVES,
    flat_number,
    linear_part,
    places,
    spread,
)

_PRODUCTS = (MulExpression, multiply, DivExpression)
_SELECTIONS = (index, special_index)
_OF_RUNS = (norm1, norm_inf, max_atom, min_atom)  # of a vector; with an axis, of each column


# cvxpy's classes take long to say whether an expression is one of theirs, and there are few of them.
is_subclass: Callable[[type, Any], bool] = cache(issubclass)


class NotAlike(Exception):
    """The expressions cannot be put together by the rules of this module."""


@dataclass(frozen=True)
class _Look:
    """What is seen of an expression: a number that equal ones share, and of what degree it is."""

    form: int
    is_number: bool
    is_affine: bool


class Forms:
    """Which expressions are equal up to their variables and numbers.

    Parameters
    ----------
    kind_of : callable
        What else must be the same of two variables, such as the level that decides them.
    """

    def __init__(self, kind_of: Callable[[cp.Variable], Hashable]) -> None:
        self._kind_of = kind_of
        self._looks: dict[Hashable, _Look] = {}
        self._known: dict[int, tuple[Any, _Look]] = {}

    def of(self, e: Any) -> int:
        """The form of an expression; the same for equal ones."""
        return self._look(e).form

    def _look(self, e: Any) -> _Look:
        known = self._known.get(id(e))
        if known is not None:
            return known[1]
        kind = type(e)
        if is_subclass(kind, cp.Constant):
            look = self._look_for(("number", e.shape), True, True)
        elif is_subclass(kind, cp.Variable):
            look = self._look_for(("variable", e.shape, self._kind_of(e)), False, True)
        elif is_subclass(kind, cp.Parameter):
            look = self._look_for(("parameter", e.shape, e.sign), False, True)
        else:
            look = self._look_at_atom(e)
        self._known[id(e)] = e, look  # kept, so that its id stays its own
        return look

    def _look_at_atom(self, e: Any) -> _Look:
        kind, parts = type(e), [self._look(arg) for arg in e.args]
        n_moving = len([part for part in parts if not part.is_number])
        if parts and not n_moving:
            return self._look_for(("number", e.shape), True, True)
        is_affine = is_subclass(kind, AffAtom) and all([part.is_affine for part in parts])
        extra: Hashable = ()
        if is_subclass(kind, _PRODUCTS):
            is_affine &= n_moving < 2
            if not is_affine and n_moving == 1:
                # The sign of the number decides whether the product is convex.
                extra = tuple(_sign(a) for a, part in zip(e.args, parts, strict=True) if part.is_number)
        if not is_subclass(kind, _SELECTIONS):
            extra = (extra, _data_key(e.get_data()))
        key = (kind, e.shape, tuple([part.form for part in parts]), extra)
        return self._look_for(key, False, is_affine)

    def _look_for(self, key: Hashable, is_number: bool, is_affine: bool) -> _Look:
        """What is seen of all expressions with a key, made once."""
        found = self._looks.get(key)
        if found is None:
            found = self._looks[key] = _Look(len(self._looks), is_number, is_affine)
        return found

    def is_number(self, e: Any) -> bool:
        """Whether an expression holds neither variables nor parameters."""
        return self._look(e).is_number


def _sign(e: Any) -> tuple[bool, bool]:
    values = flat_number(e)
    if values.size == 1:
        return bool(values[0] >= 0), bool(values[0] <= 0)
    return bool(np.all(values >= 0)), bool(np.all(values <= 0))


def _data_key(data: Any) -> Hashable:
    if isinstance(data, list | tuple):
        return tuple(map(_data_key, data))
    if isinstance(data, cp.Constant):
        return ("number", flat_number(data).tobytes())
    try:
        hash(data)
    except TypeError:
        return ("object", id(data))
    return data


@dataclass(frozen=True)
class _Value:
    """The values of one expression of each member: one that all share, or all of them in a row."""

    expression: Any
    is_shared: bool


class Stack:
    """Puts expressions of the same form together; all calls must speak of equally many members.

    Parameters
    ----------
    forms : Forms
        Which has seen the members.
    count : int
        How many members there are.
    """

    forms: Forms
    count: int

    def __init__(self, forms: Forms, count: int, joined: dict[Hashable, Any]) -> None:
        self.forms, self.count = forms, count
        self._joined = joined  # leaves side by side, which other stacks use too

    def rows(self, members: Sequence[Any], shape: tuple[int, ...]) -> cp.Expression:
        """The members' entries as one vector, one member after another, each spread to a shape."""
        return self._spread(self._value(members), members[0].shape, shape)

    def total(self, members: Sequence[Any], weights: np.ndarray) -> cp.Expression:
        """The sum of scalar members, each with its weight."""
        first = members[0]
        if self.forms.is_number(first):
            return cp.Constant(float(weights @ np.concatenate([flat_number(e) for e in members])))
        if isinstance(first, AddExpression):
            parts = [self.total(args, weights) for args in self._arguments(members)]
            return sum(parts[1:], parts[0])
        if isinstance(first, NegExpression):
            return self.total([e.args[0] for e in members], -weights)
        if isinstance(first, _PRODUCTS) and all(arg.size == 1 for arg in first.args):
            found = self._scaled_total(members, weights)
            if found is not None:
                return found
        elif type(first) is MulExpression and all(arg.ndim == 1 for arg in first.args):
            return self._inner_products(members, weights)
        if isinstance(first, Sum) and first.axis is None:
            value = self._value([e.args[0] for e in members])
            return self._sum(value, first.args[0].size, weights)
        if _is_sum_of_squares(first, self.forms):
            divisors = np.concatenate([flat_number(e.args[1]) for e in members])
            value = self._value([e.args[0] for e in members])
            return self._sum_of_squares(value, first.args[0].size, weights / divisors)
        if isinstance(first, QuadForm):
            return self._quadratic(members, weights)
        return self._sum(self._value(members), 1, weights)

    def _scaled_total(self, members: Sequence[Any], weights: np.ndarray) -> cp.Expression | None:
        """The sum of scalars that are products, one factor of which is a number or shared by all."""
        left, right = self._arguments(members)
        is_quotient = isinstance(members[0], DivExpression)
        for factor, other in ((right, left), (left, right))[: 1 if is_quotient else 2]:
            if self.forms.is_number(factor[0]):
                numbers = np.concatenate([flat_number(e) for e in factor])
                return self.total(other, weights / numbers if is_quotient else weights * numbers)
            if _is_same(factor) and not self.forms.is_number(other[0]):
                return type(members[0])(*_scalars(self.total(other, weights), factor[0], is_quotient))
        return None

    def _inner_products(self, members: Sequence[Any], weights: np.ndarray) -> cp.Expression:
        left, right = self._arguments(members)
        size = left[0].size
        for factor, other in ((left, right), (right, left)):
            if self.forms.is_number(factor[0]):
                numbers = np.repeat(weights, size) * np.concatenate([flat_number(e) for e in factor])
                value = self._value(other)
                if value.is_shared:
                    return numbers.reshape(-1, size).sum(axis=0) @ _flat(value.expression)
                return numbers @ value.expression
        values = self._value(left), self._value(right)
        if all(value.is_shared for value in values):
            return float(weights.sum()) * members[0]
        for value, beside in (values, values[::-1]):
            if value.is_shared:  # the weights go into the matrix that repeats it
                repeated = self._repeated(value.expression, np.repeat(weights, size))
                return cp.sum(cp.multiply(repeated, beside.expression))
        product = cp.multiply(values[0].expression, values[1].expression)
        return self._sum(_Value(product, False), size, weights)

    def _sum(self, value: _Value, size: int, weights: np.ndarray) -> cp.Expression:
        if value.is_shared:
            return float(weights.sum()) * cp.sum(value.expression)
        if np.all(weights == weights[0]):
            whole = cp.sum(value.expression)
            return whole if weights[0] == 1 else float(weights[0]) * whole
        return np.repeat(weights, size) @ value.expression

    def _sum_of_squares(self, value: _Value, size: int, weights: np.ndarray) -> cp.Expression:
        if value.is_shared:
            return float(weights.sum()) * cp.sum_squares(value.expression)
        if np.all(weights == weights[0]):
            squares = cp.sum_squares(value.expression)
            return squares if weights[0] == 1 else float(weights[0]) * squares
        sign = 1.0 if np.all(weights >= 0) else -1.0
        if np.any(sign * weights < 0):
            raise NotAlike
        roots = np.repeat(np.sqrt(sign * weights), size)
        squares = cp.sum_squares(cp.multiply(roots, value.expression))
        return squares if sign > 0 else -squares

    def _quadratic(self, members: Sequence[Any], weights: np.ndarray) -> cp.Expression:
        """Quadratic forms as one, whose matrix has their matrices on its diagonal."""
        if not self.forms.is_number(members[0].args[1]):
            raise NotAlike
        value = self._value([e.args[0] for e in members])
        matrices = np.stack([_dense(e.args[1]) for e in members])
        matrices = weights[:, None, None] * (matrices + matrices.transpose(0, 2, 1)) / 2
        size = matrices.shape[1]
        spectra = np.linalg.eigvalsh(matrices)
        small = 1e-9 * (1e-12 + np.abs(spectra).max())
        sign = 1.0 if spectra.min() >= -small else -1.0
        if sign < 0 and spectra.max() > small:
            raise NotAlike
        if value.is_shared:
            whole, vector = matrices.sum(axis=0), _flat(value.expression)
        else:
            whole, vector = _on_diagonal(matrices), value.expression
            assert vector.size == self.count * size
        form = cp.quad_form(vector, psd_wrap(cp.Constant(sign * whole)))
        return form if sign > 0 else -form

    # Vectors

    def _value(self, members: Sequence[Any]) -> _Value:
        first = members[0]
        if _is_same(members):
            return _Value(first, True)
        if self.forms.is_number(first):
            numbers = np.stack([flat_number(e) for e in members])
            if np.array_equal(numbers, np.broadcast_to(numbers[0], numbers.shape)):
                return _Value(first, True)
            return _Value(cp.Constant(numbers.ravel()), False)
        if isinstance(first, cp.Variable | cp.Parameter):
            key = tuple(leaf.id for leaf in members)
            if key not in self._joined:
                self._joined[key] = cp.hstack([_flat(leaf) for leaf in members])
            return _Value(self._joined[key], False)
        if isinstance(first, MOVES):
            return self._moved(members)
        if isinstance(first, BY_ENTRY):
            return self._by_entry(members)
        if type(first) is MulExpression:
            return self._product(members)
        if isinstance(first, Sum):
            return self._mapped(first, self._value([e.args[0] for e in members]))
        if _is_sum_of_squares(first, self.forms):
            inner = self._value([e.args[0] for e in members])
            if inner.is_shared:
                raise NotAlike  # only the divisors differ
            divisors = np.concatenate([flat_number(e.args[1]) for e in members])
            rows = sp.kron(sp.diags_array(1 / divisors), np.ones((1, first.args[0].size)))
            return _Value(sp.csr_array(rows) @ cp.square(inner.expression), False)
        if isinstance(first, _OF_RUNS) and first.axis is None and not first.keepdims:
            inner = self._value([e.args[0] for e in members])
            if not inner.is_shared:
                shape = (first.args[0].size, self.count)
                columns = cp.reshape(inner.expression, shape, order="F")
                return _Value(type(first)(columns, axis=0), False)
        raise NotAlike

    def _arguments(self, members: Sequence[Any]) -> list[list[Any]]:
        return [[e.args[k] for e in members] for k in range(len(members[0].args))]

    def _moved(self, members: Sequence[Any]) -> _Value:
        """Entries at other places; which, may differ between members where they are selected."""
        first = members[0]
        values = [self._value(args) for args in self._arguments(members)]
        is_selection = isinstance(first, index | special_index)
        sources = np.stack([places(e) for e in members]) if is_selection else places(first)[None, :]
        if np.all(sources == sources[0]):
            sources = sources[:1]
        if len(sources) == 1 and all(value.is_shared for value in values):
            return _Value(first, True)
        if np.any(sources == 0):
            raise NotAlike
        ends = np.cumsum([1, *(arg.size for arg in first.args)])
        member = np.arange(self.count)[:, None]
        sources = np.broadcast_to(sources, (self.count, sources.shape[1]))
        where, begin = np.zeros(sources.shape, dtype=int), 0
        for number, value in enumerate(values):
            here = (sources >= ends[number]) & (sources < ends[number + 1])
            size = first.args[number].size
            place = sources - ends[number] + (0 if value.is_shared else member * size)
            where = np.where(here, begin + place, where)
            begin += size if value.is_shared else size * self.count
        flat = [_flat(value.expression) for value in values]
        whole = flat[0] if len(flat) == 1 else cp.hstack(flat)
        entries = where.ravel()
        is_whole = entries.size == whole.size and np.array_equal(entries, np.arange(entries.size))
        return _Value(whole if is_whole else whole[entries], False)

    def _by_entry(self, members: Sequence[Any]) -> _Value:
        first = members[0]
        values = [self._value(args) for args in self._arguments(members)]
        if all(value.is_shared for value in values):
            return _Value(first, True)
        args = []
        for value, arg in zip(values, first.args, strict=True):
            if value.is_shared and arg.size == 1:
                single = value.expression if arg.shape == () else cp.sum(value.expression)
                args.append(cp.promote(single, (self.count * first.size,)))
            else:
                args.append(self._spread(value, arg.shape, first.shape))
        if isinstance(first, AddExpression):
            return _Value(sum(args[1:], args[0]), False)
        return _Value(first.copy(args), False)

    def _product(self, members: Sequence[Any]) -> _Value:
        left, right = self._arguments(members)
        first = members[0]
        if self.forms.is_number(left[0]) and right[0].ndim == 1:
            columns = right[0].size
            values = np.stack([flat_number(e) for e in left])
            blocks = values.reshape(self.count, columns, -1).transpose(0, 2, 1)
            return self._with_blocks(self._value(right), blocks)
        if self.forms.is_number(right[0]) and left[0].ndim == 1:
            values = np.stack([flat_number(e) for e in right])
            blocks = values.reshape(self.count, -1, left[0].size)
            return self._with_blocks(self._value(left), blocks)
        for factor, other in ((left, right), (right, left)):
            if self.forms.is_number(factor[0]) and self._value(factor).is_shared:
                return self._mapped(first, self._value(other))
        if all(arg.ndim == 1 for arg in first.args):
            parts = [
                self._spread(self._value(args), args[0].shape, args[0].shape) for args in (left, right)
            ]
            rows = sp.csr_array(sp.kron(sp.eye_array(self.count), np.ones((1, left[0].size))))
            return _Value(rows @ cp.multiply(*parts), False)
        raise NotAlike

    def _with_blocks(self, value: _Value, blocks: np.ndarray) -> _Value:
        """Each member's matrix times its vector."""
        if value.is_shared:
            rows = sp.csr_array(blocks.reshape(-1, blocks.shape[2]))
            return _Value(rows @ _flat(value.expression), False)
        return _Value(_on_diagonal(blocks) @ value.expression, False)

    def _mapped(self, first: Any, value: _Value) -> _Value:
        """What is the same linear function of each member's vector."""
        if value.is_shared:
            return _Value(first, True)
        linear = linear_part(first)
        if linear is None:
            raise NotAlike
        whole = sp.csr_array(sp.kron(sp.eye_array(self.count), linear[1]))
        return _Value(whole @ value.expression, False)

    def _spread(self, value: _Value, shape: tuple[int, ...], whole: tuple[int, ...]) -> cp.Expression:
        """The values as one vector, each member's repeated to the shape of a whole."""
        at = spread(shape, whole)
        if value.is_shared:
            if self.forms.is_number(value.expression):
                return cp.Constant(np.tile(flat_number(value.expression)[at], self.count))
            return self._repeated(value.expression, np.ones(self.count * at.size), at)
        size = int(np.prod(shape, dtype=int))
        if at.size == size and np.array_equal(at, np.arange(size)):
            return value.expression
        return value.expression[(np.arange(self.count)[:, None] * size + at).ravel()]

    def _repeated(
        self, shared: cp.Expression, factors: np.ndarray, at: np.ndarray | None = None
    ) -> cp.Expression:
        """A vector once for each member, each entry with a factor."""
        columns = np.arange(shared.size) if at is None else at
        entries = (np.arange(factors.size), np.tile(columns, self.count))
        matrix = sp.csr_array((factors, entries), shape=(factors.size, shared.size))
        return matrix @ _flat(shared)


def _is_same(members: Sequence[Any]) -> bool:
    first = members[0]
    if isinstance(first, cp.Variable | cp.Parameter):
        return all(e.id == first.id for e in members)
    return all(e is first for e in members)


def _is_sum_of_squares(e: Any, forms: Forms) -> bool:
    return (
        isinstance(e, quad_over_lin) and e.axis is None and forms.is_number(e.args[1]) and e.shape == ()
    )


def _scalars(total: cp.Expression, factor: Any, is_quotient: bool) -> tuple[Any, Any]:
    single = factor if factor.shape == () else cp.sum(factor)
    return (total, single) if is_quotient else (single, total)


def _flat(e: Any) -> cp.Expression:
    if e.ndim == 1:
        return e
    return cp.reshape(e, (1,), order="F") if e.shape == () else cp.vec(e, order="F")


def _dense(e: Any) -> np.ndarray:
    value = e.value
    return np.asarray(value.toarray() if sp.issparse(value) else value, dtype=float)


def _on_diagonal(blocks: np.ndarray) -> sp.csr_array:
    """Equally large matrices as the blocks on the diagonal of one."""
    count, rows, columns = blocks.shape
    row, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    shift = np.arange(count)[:, None, None]
    places = ((row + shift * rows).ravel(), (column + shift * columns).ravel())
    whole = sp.csr_array((blocks.ravel(), places), shape=(count * rows, count * columns))
    whole.eliminate_zeros()
    return whole
