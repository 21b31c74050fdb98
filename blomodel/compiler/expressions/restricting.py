"""Expressions cut down to the entries of one group of variables.

Where entries of variables fall into groups that never meet, an expression has entries that belong to one
group each, and sums of such. What belongs to a group is written here in variables that hold the group's
entries alone, so that nothing of the other groups has to be compiled with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.broadcast_to import broadcast_to
from cvxpy.atoms.affine.concatenate import Concatenate
from cvxpy.atoms.affine.cumsum import cumsum
from cvxpy.atoms.affine.diag import diag_mat, diag_vec
from cvxpy.atoms.affine.hstack import Hstack
from cvxpy.atoms.affine.index import index, special_index
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.reshape import reshape
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.transpose import transpose
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.affine.vstack import Vstack
from cvxpy.atoms.axis_atom import AxisAtom
from cvxpy.atoms.elementwise.elementwise import Elementwise
from cvxpy.atoms.norm1 import norm1
from cvxpy.atoms.quad_form import QuadForm
from cvxpy.atoms.quad_over_lin import quad_over_lin

from blomodel.compiler.rules import labels, run_order
from blomodel.errors import ModelError

# Atoms that only put entries at other places.
MOVES = (
    index,
    special_index,
    reshape,
    transpose,
    Promote,
    broadcast_to,
    diag_mat,
    diag_vec,
    Hstack,
    Vstack,
    Concatenate,
)
BY_ENTRY = (AddExpression, NegExpression, multiply, DivExpression, Elementwise)
_NOBODY = np.iinfo(np.int64).max  # the first group of an entry that holds no variable
_MIXED = "entries of several groups meet in an expression that cannot be taken apart"


class NotSeparable(ModelError):
    """An expression in which groups meet in a way that this module does not take apart."""


class Owners:
    """The groups that each entry of an expression holds: the first and the last of them.

    Parameters
    ----------
    groups : dict
        From a variable's id to the group of each of its entries, flattened column by column.
    """

    def __init__(self, groups: Mapping[int, np.ndarray]) -> None:
        self.groups = groups
        self._known: dict[int, tuple[Any, np.ndarray, np.ndarray]] = {}
        # Asked for once for each group, by the expression's id; the expression is kept with it.
        self._held: dict[int, tuple[Any, frozenset[int]]] = {}
        self._linear: dict[int, tuple[Any, tuple[Any, sp.csr_array] | None]] = {}
        self._places: dict[int, tuple[Any, np.ndarray]] = {}
        self._span: dict[int, tuple[Any, int, int]] = {}

    def held(self, e: Any) -> frozenset[int]:
        """The ids of the variables in an expression."""
        if id(e) not in self._held:
            self._held[id(e)] = e, frozenset(variable.id for variable in e.variables())
        return self._held[id(e)][1]

    def linear_part(self, e: Any) -> tuple[Any, sp.csr_array] | None:
        """The argument that an atom is linear in, and the matrix; see ``linear_part``."""
        if id(e) not in self._linear:
            self._linear[id(e)] = e, linear_part(e)
        return self._linear[id(e)][1]

    def places(self, e: Any) -> np.ndarray:
        """Where the entries of an atom that only moves them come from; see ``places``."""
        if id(e) not in self._places:
            self._places[id(e)] = e, places(e)
        return self._places[id(e)][1]

    def of(self, e: Any) -> tuple[np.ndarray, np.ndarray]:
        """The first and last group of each entry; the last is -1 where an entry holds no variable."""
        if id(e) not in self._known:
            self._known[id(e)] = (e, *self._find(e))  # kept, so that its id stays its own
        return self._known[id(e)][1:]

    def concerns(self, e: Any, group: int) -> bool:
        """Whether an expression may hold variables of a group."""
        if id(e) not in self._span:
            low, high = self.of(e)
            self._span[id(e)] = e, int(low.min(initial=_NOBODY)), int(high.max(initial=-1))
        return self._span[id(e)][1] <= group <= self._span[id(e)][2]

    def _find(self, e: Any) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(e, cp.Variable):
            return self.groups[e.id], self.groups[e.id]
        if not self.held(e):  # perhaps a large matrix, of which no copy is needed
            return np.broadcast_to(_NOBODY, e.size), np.broadcast_to(-1, e.size)
        is_linear = not isinstance(e, (*MOVES, *BY_ENTRY)) and self.linear_part(e) is not None
        parts = [] if is_linear else [self.of(arg) for arg in e.args]
        if isinstance(e, MOVES):
            low = np.concatenate([[_NOBODY], *(low for low, _ in parts)])
            high = np.concatenate([[-1], *(high for _, high in parts)])
            where = self.places(e)
            return low[where], high[where]
        if isinstance(e, BY_ENTRY):
            sources = [spread(arg.shape, e.shape) for arg in e.args]
            lows = [low[at] for (low, _), at in zip(parts, sources, strict=True)]
            highs = [high[at] for (_, high), at in zip(parts, sources, strict=True)]
            return np.minimum.reduce(lows), np.maximum.reduce(highs)
        linear = self.linear_part(e)
        if linear is not None:
            inner, matrix = linear
            low, high = self.of(inner)
            return _by_row(matrix, low, np.minimum, _NOBODY), _by_row(matrix, high, np.maximum, -1)
        if _is_by_run(e):
            order, length = run_order(e.args[0].shape, e.axis)
            low, high = (part[order].reshape(-1, length) for part in parts[0])
            return low.min(axis=1), high.max(axis=1)
        lowest = min(int(low.min(initial=_NOBODY)) for low, _ in parts)
        highest = max(int(high.max(initial=-1)) for _, high in parts)
        return np.full(e.size, lowest), np.full(e.size, highest)


class Restriction:
    """Expressions of a group, from those of all groups.

    Parameters
    ----------
    owners : Owners
    group : int
    own : dict
        From a variable's id to the variable that holds the group's entries of it, in the same order;
        the variable itself where all its entries belong to the group.
    """

    owners: Owners
    group: int
    own: Mapping[int, cp.Variable]

    def __init__(self, owners: Owners, group: int, own: Mapping[int, cp.Variable]) -> None:
        self.owners, self.group, self.own = owners, group, own
        self._position = {}
        self._whole = set()  # variables that belong to the group as wholes
        for key, variable in own.items():
            mine = owners.groups[key] == group
            if variable.id == key:
                self._whole.add(key)
            place = np.where(mine, np.cumsum(mine) - 1, -1)
            self._position[key] = (variable, place)

    def is_untouched(self, e: Any) -> bool:
        """Whether the expression holds no variable but such as belong to the group as wholes."""
        return self.owners.held(e) <= self._whole

    def entries(self, e: Any) -> np.ndarray:
        """Which entries belong to the group; those without variables belong to the first one."""
        low, high = self.owners.of(e)
        if np.any((low != high) & (high >= 0)):
            raise NotSeparable(_MIXED)
        return np.flatnonzero((high == self.group) | ((high < 0) & (self.group == 0)))

    def sum(self, e: Any) -> cp.Expression | None:
        """The terms of a scalar expression that belong to the group; None where there are none."""
        if self.owners.held(e) and self.is_untouched(e):
            return e
        return self._weighted(np.ones(1), e)

    def full(self, e: Any) -> cp.Expression:
        """An expression that belongs to the group as a whole, in the group's variables."""
        if not self.owners.held(e) or self.is_untouched(e):
            return e
        flat = self.select(e, np.arange(e.size))
        return flat[0] if e.shape == () else cp.reshape(flat, e.shape, order="F")

    def select(self, e: Any, at: np.ndarray) -> cp.Expression:
        """Some entries of an expression as a vector, all of which belong to the group."""
        if not self.owners.held(e):
            return _numbers(e, at)
        if self.is_untouched(e) and at.size == e.size and np.array_equal(at, np.arange(e.size)):
            return cp.reshape(e, (1,), order="F") if e.shape == () else cp.vec(e, order="F")
        if isinstance(e, cp.Variable):
            return self._select_variable(e, at)
        if isinstance(e, MOVES):
            return self._select_moved(e, at)
        if isinstance(e, BY_ENTRY):
            return e.copy([self._select_spread(arg, e.shape, at) for arg in e.args])
        linear = self.owners.linear_part(e)
        if linear is not None:
            inner, matrix = linear
            rows = sp.csr_array(matrix[at])
            used = np.unique(rows.indices)
            if not used.size:
                return cp.Constant(np.zeros(at.size))
            return sp.csr_array(rows[:, used]) @ self.select(inner, used)
        if _is_by_run(e):
            order, length = run_order(e.args[0].shape, e.axis)
            runs = self.select(e.args[0], order.reshape(-1, length)[at].ravel())
            is_first = e.axis == 0
            shape = (length, at.size) if is_first else (at.size, length)
            return cp.vec(e.copy([cp.reshape(runs, shape, order="F" if is_first else "C")]), order="F")
        whole = e.copy([self.full(arg) for arg in e.args])
        flat = cp.reshape(whole, (1,), order="F") if whole.shape == () else cp.vec(whole, order="F")
        return flat if np.array_equal(at, np.arange(e.size)) else flat[at]

    def _select_variable(self, e: cp.Variable, at: np.ndarray) -> cp.Expression:
        if e.id not in self._position:
            raise NotSeparable(_MIXED)
        variable, place = self._position[e.id]
        where = place[at]
        if np.any(where < 0):
            raise NotSeparable(_MIXED)
        flat = cp.reshape(variable, (1,), order="F") if variable.shape == () else variable
        flat = cp.vec(flat, order="F") if flat.ndim > 1 else flat
        is_all = where.size == variable.size and np.array_equal(where, np.arange(variable.size))
        return flat if is_all else flat[where]

    def _select_spread(self, arg: Any, shape: tuple[int, ...], at: np.ndarray) -> cp.Expression:
        if arg.size == 1 and at.size != 1:
            return cp.promote(self.select(arg, np.zeros(1, int))[0], at.shape)
        return self.select(arg, spread(arg.shape, shape)[at])

    def _select_moved(self, e: Any, at: np.ndarray) -> cp.Expression:
        ends = np.cumsum([1, *(arg.size for arg in e.args)])
        source = self.owners.places(e)[at]
        if isinstance(e, Promote):
            return cp.promote(self.select(e.args[0], np.zeros(1, int))[0], at.shape)
        pieces, order = [], []
        for number, arg in enumerate(e.args):
            here = np.flatnonzero((source >= ends[number]) & (source < ends[number + 1]))
            if here.size:
                pieces.append(self.select(arg, source[here] - ends[number]))
                order.append(here)
        zeros = np.flatnonzero(source == 0)
        if zeros.size:
            pieces.append(cp.Constant(np.zeros(zeros.size)))
            order.append(zeros)
        joined = pieces[0] if len(pieces) == 1 else cp.hstack(pieces)
        back = np.argsort(np.concatenate(order))
        return joined if np.array_equal(back, np.arange(back.size)) else joined[back]

    def _weighted(self, weights: np.ndarray, e: Any) -> cp.Expression | None:
        """What belongs to the group of the sum of an expression's entries, each with its weight."""
        low, high = self.owners.of(e)
        counts = weights != 0
        mine = counts & ((low == high) & (high == self.group))
        mine |= counts & (high < 0) & (self.group == 0)
        mixed = counts & (low != high) & (high >= 0)
        terms = []
        if mine.any() and e.size == 1:
            term = self.full(e)
            term = term if term.shape == () else cp.sum(term)
            terms.append(term if weights[0] == 1 else float(weights[0]) * term)
        elif mine.any():
            at = np.flatnonzero(mine)
            chosen = self.select(e, at)
            factors = weights[at]
            terms.append(
                cp.sum(chosen) if np.all(factors == 1) else cp.sum(cp.multiply(factors, chosen))
            )
        is_concerned = mixed & (low <= self.group) & (self.group <= high)
        if is_concerned.any() or (self.group == 0 and mixed.any()):
            terms += self._taken_apart(np.where(mixed, weights, 0.0), e)
        return None if not terms else sum(terms[1:], terms[0])

    def _taken_apart(self, weights: np.ndarray, e: Any) -> list[cp.Expression]:
        """The same where groups meet in the entries: term by term."""
        if isinstance(e, AddExpression):
            found = []
            for arg in e.args:
                if self.group and not self.owners.concerns(arg, self.group):
                    continue  # the first group is asked about all, and finds where groups meet
                to = spread(arg.shape, e.shape)
                found.append(self._weighted(np.bincount(to, weights, minlength=arg.size), arg))
            return [term for term in found if term is not None]
        if isinstance(e, MOVES):
            ends = np.cumsum([1, *(arg.size for arg in e.args)])
            whole = np.bincount(self.owners.places(e), weights, minlength=int(ends[-1]))
            parts = np.split(whole, ends[:-1])[1:]
            pairs = zip(parts, e.args, strict=True)
            return [term for term in (self._weighted(w, arg) for w, arg in pairs) if term is not None]
        linear = self.owners.linear_part(e)
        if linear is not None:
            inner, matrix = linear
            term = self._weighted(matrix.T @ weights, inner)
            return [] if term is None else [term]
        if e.size == 1:
            return self._function_apart(float(weights[0]), e)
        raise NotSeparable(_MIXED)

    def _function_apart(self, weight: float, e: Any) -> list[cp.Expression]:
        """Functions of vectors that are sums over entries."""
        if type(e) is MulExpression:  # an inner product, since its value is one number
            at = self.entries(cp.multiply(*(cp.vec(arg, order="F") for arg in e.args)))
            parts = [self.select(arg, at) for arg in e.args]
            found = cp.sum(cp.multiply(*parts)) if at.size else None
        elif isinstance(e, quad_over_lin) and e.axis is None and not e.args[1].variables():
            at = self.entries(e.args[0])
            found = e.copy([self.select(e.args[0], at), e.args[1]]) if at.size else None
        elif isinstance(e, norm1) and e.axis is None:
            at = self.entries(e.args[0])
            found = cp.norm1(self.select(e.args[0], at)) if at.size else None
        elif isinstance(e, QuadForm) and not e.args[1].variables() and not e.args[1].parameters():
            at = self.entries(e.args[0])
            found = self._quadratic(e, at) if at.size else None
        else:
            raise NotSeparable(_MIXED)
        if found is None:
            return []
        return [found if weight == 1 else weight * found]

    def _quadratic(self, e: QuadForm, at: np.ndarray) -> cp.Expression:
        matrix = sp.csr_array(e.args[1].value)
        rest = np.setdiff1d(np.arange(matrix.shape[0]), at)
        if matrix[at][:, rest].nnz and np.any(matrix[at][:, rest].data):
            raise NotSeparable(_MIXED)
        own = cp.Constant(sp.csc_array(matrix[at][:, at]))
        if e.args[1].args:  # a wrap that says that the matrix is semidefinite
            own = e.args[1].copy([own])
        return e.copy([self.select(e.args[0], at), own])


def linear_part(e: Any) -> tuple[Any, sp.csr_array] | None:
    """The one argument that an atom is linear in, and the matrix; None where it is not of this kind."""
    if not isinstance(e, AffAtom):
        return None
    if isinstance(e, NegExpression):
        return e.args[0], -sp.eye_array(e.size, format="csr")
    if isinstance(e, Sum | cumsum):
        return e.args[0], _sums(e)
    if isinstance(e, MulExpression | multiply | DivExpression):
        left, right = e.args
        if _is_number(right) and not _is_number(left):
            return _with_number_right(e, left, right)
        if _is_number(left) and not _is_number(right) and not isinstance(e, DivExpression):
            return _with_number_left(e, left, right)
    return None


def _is_by_run(e: Any) -> bool:
    """Whether an atom takes the rows, or the columns, of a matrix one by one."""
    return isinstance(e, AxisAtom) and len(e.args) == 1 and e.args[0].ndim == 2 and e.axis in (0, 1, -1)


def _is_matrix_product(e: Any) -> bool:
    # In cvxpy products and quotients by entries are kinds of matrix products.
    return type(e) is MulExpression and all(arg.shape for arg in e.args)


def _is_number(e: Any) -> bool:
    return not e.variables() and not e.parameters()


def _with_number_right(e: Any, left: Any, right: Any) -> tuple[Any, sp.csr_array] | None:
    if _is_matrix_product(e):
        columns = right.value.reshape(-1, 1) if right.ndim == 1 else right.value
        if left.ndim > 2 or right.ndim > 2:
            return None
        rows = 1 if left.ndim == 1 else left.shape[0]
        return left, sp.csr_array(sp.kron(sp.csr_array(columns).T, sp.eye_array(rows)))
    factors = flat_number(right)[spread(right.shape, e.shape)]
    if isinstance(e, DivExpression):
        factors = 1.0 / factors
    return left, _scaling(factors, spread(left.shape, e.shape), left.size)


def _with_number_left(e: Any, left: Any, right: Any) -> tuple[Any, sp.csr_array] | None:
    if _is_matrix_product(e):
        if left.ndim > 2 or right.ndim > 2:
            return None
        rows = left.value.reshape(1, -1) if left.ndim == 1 else left.value
        columns = 1 if right.ndim == 1 else right.shape[1]
        return right, sp.csr_array(sp.kron(sp.eye_array(columns), sp.csr_array(rows)))
    factors = flat_number(left)[spread(left.shape, e.shape)]
    return right, _scaling(factors, spread(right.shape, e.shape), right.size)


def _scaling(factors: np.ndarray, source: np.ndarray, width: int) -> sp.csr_array:
    count = source.size
    return sp.csr_array((factors, (np.arange(count), source)), shape=(count, width))


def _sums(e: Any) -> sp.csr_array:
    inner = e.args[0]
    if isinstance(e, cumsum):
        axis = 0 if e.axis is None else e.axis
        order, length = run_order(inner.shape, axis)
        runs = order.reshape(-1, length)
        rows = np.concatenate([np.repeat(run, np.arange(1, length + 1)) for run in runs])
        columns = np.concatenate([run[:k] for run in runs for k in range(1, length + 1)])
        return sp.csr_array((np.ones(rows.size), (rows, columns)), shape=(e.size, inner.size))
    order, length = run_order(inner.shape, e.axis)
    rows = np.repeat(np.arange(e.size), length)
    return sp.csr_array((np.ones(order.size), (rows, order)), shape=(e.size, inner.size))


def places(e: Any) -> np.ndarray:
    """Where each entry comes from: 0 a zero, else 1 + its place in all arguments one after another."""
    ends = np.cumsum([1, *(arg.size for arg in e.args)])
    numbered = [labels(arg.shape) + begin for arg, begin in zip(e.args, ends, strict=False)]
    return np.asarray(e.numeric(numbered)).ravel(order="F").astype(int)


def spread(shape: tuple[int, ...], whole: tuple[int, ...]) -> np.ndarray:
    """The entry of an argument of this shape that each entry of the whole is made of."""
    return np.broadcast_to(labels(shape), whole).ravel(order="F")


def flat_number(e: Any) -> np.ndarray:
    """The entries of a constant, column by column."""
    value = e.value
    value = value.toarray() if sp.issparse(value) else np.asarray(value, dtype=float)
    return value.ravel(order="F")


def _numbers(e: Any, at: np.ndarray) -> cp.Expression:
    if not e.parameters():
        return cp.Constant(flat_number(e)[at])
    flat = cp.reshape(e, (1,), order="F") if e.shape == () else cp.vec(e, order="F")
    return flat[at]


def _by_row(matrix: sp.csr_array, values: np.ndarray, reduce: Any, empty: int) -> np.ndarray:
    """The least or greatest value over the entries of each row."""
    rows = sp.csr_array(matrix)
    rows.eliminate_zeros()
    found = np.full(rows.shape[0], empty)
    filled = np.flatnonzero(np.diff(rows.indptr))
    if filled.size:
        found[filled] = reduce.reduceat(values[rows.indices], rows.indptr[filled])
    return found
