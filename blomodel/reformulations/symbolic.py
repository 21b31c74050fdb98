"""Derivatives of cvxpy expressions as cvxpy expressions.

Reverse mode, on the expression itself: beginning with one cotangent for each output, every atom
turns the cotangent of its value into one for each of its arguments, until the variables are
reached. The results are expressions that can be printed, put into a constraint and differentiated
again. Matrices keep their shape; where an atom is applied as a matrix, elements are counted column by
column as cvxpy does. ``derivative_rules.py`` holds one function for each atom of cvxpy. An atom without
one is differentiated through its definition, and refused where it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.index import index, special_index

from blomodel.basics import arrays
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.definitions import write_out
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import jacobian
from blomodel.compiler.rules import labels
from blomodel.errors import UnsupportedAtomError
from blomodel.text.shorten import shorten

# Gives the cotangent of the argument with the given number.
PullBack = Callable[[Any, cp.Expression, int], cp.Expression]
PULL_BACKS: dict[type, PullBack] = {}
_ALWAYS: set[type] = set()  # atoms whose function refuses nothing


def pulls_back(*atoms: type, always: bool = False) -> Callable[[PullBack], PullBack]:
    """Register the function that pulls cotangents back through these atoms; ``always``: any of them."""

    def register(function: PullBack) -> PullBack:
        PULL_BACKS.update(dict.fromkeys(atoms, function))
        if always:
            _ALWAYS.update(atoms)
        return function

    return register


def gradient(expression: cp.Expression, variables: Sequence[cp.Variable]) -> list[cp.Expression]:
    """Gradient of a scalar expression, one expression of the variable's shape for each variable.

    Examples
    --------
    >>> import cvxpy as cp
    >>> y = cp.Variable(2, name="y")
    >>> slope = gradient(cp.sum_squares(y), [y])[0]
    >>> y.value = [1, 2]
    >>> print(slope.value)
    [2. 4.]
    """
    one = cp.Constant(np.ones(expression.shape))
    return pull_back([(expression, one)], variables)


def pull_back(
    outputs: Sequence[tuple[cp.Expression, cp.Expression]], variables: Sequence[cp.Variable]
) -> list[cp.Expression]:
    """Gradient of sum_k <cotangent_k, output_k> with the cotangents held fixed.

    Parameters
    ----------
    outputs : sequence of pairs
        An expression and its cotangent, an expression of the same shape.
    variables : sequence of cvxpy.Variable

    Returns
    -------
    list of cvxpy expressions
        In the variables' shapes; a constant zero where nothing depends on a variable.
    """
    from blomodel.reformulations import derivative_rules  # noqa: F401 - they register themselves

    outputs = [(write_out(output, _has_pull_back), cotangent) for output, cotangent in outputs]
    wanted = {variable.id: _Collected(variable) for variable in variables}
    order = _in_order([expression for expression, _ in outputs], set(wanted))
    cotangents: dict[int, list[cp.Expression]] = {id(node): [] for node in order}
    for expression, cotangent in outputs:
        if id(expression) in cotangents:
            cotangents[id(expression)].append(cotangent)
    for node in reversed(order):
        if not cotangents[id(node)]:
            continue  # a variable of which only elements were picked
        cotangent = add(cotangents[id(node)])
        if isinstance(node, cp.Variable):
            wanted[node.id].whole.append(cotangent)
            continue
        if _picks_entries(node):
            wanted[node.args[0].id].pick(node, cotangent)
            continue
        for number, argument in enumerate(node.args):
            if id(argument) in cotangents:
                cotangents[id(argument)].append(_apply(node, cotangent, number))
    return [wanted[variable.id].total() for variable in variables]


def check_pull_back(outputs: Sequence[cp.Expression], variables: Sequence[cp.Variable]) -> None:
    """Raise UnsupportedAtomError where ``pull_back`` would; the sums and stacks are not written."""
    from blomodel.reformulations import derivative_rules  # noqa: F401 - they register themselves

    roots = [write_out(output, _has_pull_back) for output in outputs]
    order = _in_order(roots, {variable.id for variable in variables})
    held = {id(node) for node in order}
    for node in order:
        if isinstance(node, cp.Variable) or type(node) in _ALWAYS or _picks_entries(node):
            continue
        for number, argument in enumerate(node.args):
            if id(argument) in held:
                _apply(node, cp.Constant(np.ones(node.shape)), number)


def _picks_entries(node: Any) -> bool:
    return isinstance(node, index | special_index) and isinstance(node.args[0], cp.Variable)


def _has_pull_back(part: cp.Expression) -> bool:
    return type(part) in PULL_BACKS


def _in_order(roots: Sequence[cp.Expression], wanted: set[int]) -> list[Any]:
    """Every sub-expression that holds a wanted variable, arguments before what uses them."""
    holds: dict[int, bool] = {}
    order: list[Any] = []
    stack: list[Any] = list(roots)
    while stack:
        node = stack[-1]
        if id(node) in holds:
            stack.pop()
            continue
        waiting = [argument for argument in node.args if id(argument) not in holds]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        own = isinstance(node, cp.Variable) and node.id in wanted
        holds[id(node)] = own or any(holds[id(argument)] for argument in node.args)
        if holds[id(node)]:
            order.append(node)
    return order


def _apply(atom: Any, cotangent: cp.Expression, number: int) -> cp.Expression:
    pull = PULL_BACKS.get(type(atom))
    if pull is None:
        raise unsupported(atom, "has no symbolic derivative")
    return pull(atom, cotangent, number)


def unsupported(atom: Any, why: str) -> UnsupportedAtomError:
    """The error for an atom that cannot be differentiated symbolically."""
    return UnsupportedAtomError(
        f"the atom '{type(atom).__name__}' in '{shorten(atom)}' {why}. Rewrite it with smooth atoms "
        "(sums, products, quotients, powers, exp, log, quadratic forms, the atoms of cvxpy.nlp) or, "
        "if it is convex and has kinks, with a variable and constraints of the lower level; "
        "method 'auto' needs no symbolic derivative."
    )


class _Collected:
    """What arrives at one variable: cotangents of the whole of it, and of single elements."""

    def __init__(self, variable: cp.Variable) -> None:
        self.variable = variable
        self.whole: list[cp.Expression] = []
        self._parts: list[tuple[np.ndarray, cp.Expression]] = []

    def pick(self, atom: Any, cotangent: cp.Expression) -> None:
        """Note the cotangent of picked elements."""
        places = np.asarray(atom.numeric([labels(self.variable.shape).astype(float)]))
        self._parts.append((places.ravel(order="F").astype(int), cotangent))

    def total(self) -> cp.Expression:
        shape = self.variable.shape
        if self._parts:
            single = all(len(places) == 1 for places, _ in self._parts)
            self.whole.append(self._stack() if single else self._scatter())
        return add(self.whole) if self.whole else cp.Constant(np.zeros(shape))

    def _stack(self) -> cp.Expression:
        """Single elements stacked, which reads better than a sum of unit vectors."""
        elements: list[list[cp.Expression]] = [[] for _ in range(self.variable.size)]
        for places, cotangent in self._parts:
            elements[places[0]].append(in_shape(cotangent, ()))
        zero = cp.Constant(0.0)
        stacked = cp.hstack([add(terms) if terms else zero for terms in elements])
        return in_shape(stacked, self.variable.shape)

    def _scatter(self) -> cp.Expression:
        terms = []
        for places, cotangent in self._parts:
            ones, columns = np.ones(len(places)), np.arange(len(places))
            matrix = sp.csr_array((ones, (places, columns)), (self.variable.size, len(places)))
            terms.append(apply_matrix(matrix, cotangent, self.variable.shape))
        return add(terms)


# Building blocks of the rules; they leave out factors of one and terms of zero.


def add(terms: Sequence[cp.Expression]) -> cp.Expression:
    """The sum of terms of the same shape."""
    kept = [term for term in terms if not _is_all(term, 0.0)]
    if not kept:
        return terms[0]
    total = kept[0]
    for term in kept[1:]:
        total = total + term
    return total


def times(first: cp.Expression, second: cp.Expression) -> cp.Expression:
    """The elementwise product of two expressions of the same shape, or of one with a scalar."""
    for one, other in ((first, second), (second, first)):
        if _is_all(one, 1.0) and one.size <= other.size:
            return other
    shape = first.shape if first.size >= second.size else second.shape
    if _is_all(first, 0.0) or _is_all(second, 0.0):
        return cp.Constant(np.zeros(shape))
    if isinstance(first, cp.Constant) and isinstance(second, cp.Constant):
        return cp.Constant(dense(first) * dense(second))
    for one, other in ((first, second), (second, first)):
        if isinstance(one, cp.Constant) and 0 < one.size <= other.size:
            number = float(dense(one).flat[0])
            if _is_all(one, number):
                return number * other
    if first.shape == () or second.shape == ():
        return first * second
    return cp.multiply(first, second)


def in_shape(expression: cp.Expression, shape: tuple[int, ...]) -> cp.Expression:
    """The expression with its elements, column by column, in another shape."""
    if expression.shape == shape:
        return expression
    if isinstance(expression, cp.Constant):
        return cp.Constant(dense(expression).reshape(shape, order="F"))
    if shape == ():
        return expression[(0,) * expression.ndim]
    return cp.reshape(expression, shape, order="F")


def spread(expression: cp.Expression, shape: tuple[int, ...], axis: Any = None) -> cp.Expression:
    """The expression repeated along the axes that a reduction of that shape has removed."""
    if expression.shape == shape:
        return expression
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis) % len(shape)
    kept = tuple(1 if k in axes else length for k, length in enumerate(shape))
    if isinstance(expression, cp.Constant):
        values = dense(expression).reshape(kept, order="F")
        return cp.Constant(np.broadcast_to(values, shape).copy())
    if expression.size == 1:
        return in_shape(expression, ()) * np.ones(shape)
    return cp.broadcast_to(in_shape(expression, kept), shape)


def gather_up(cotangent: cp.Expression, shape: tuple[int, ...]) -> cp.Expression:
    """The cotangent of an argument of this shape that was broadcast to the cotangent's shape."""
    if cotangent.shape == shape:
        return cotangent
    if prod(shape) == 1:
        return in_shape(cp.sum(cotangent), shape)
    source = np.broadcast_to(labels(shape), cotangent.shape).ravel(order="F")
    places = np.arange(len(source))
    matrix = sp.csr_array((np.ones(len(source)), (source, places)), (prod(shape), len(source)))
    return apply_matrix(matrix, cotangent, shape)


def apply_matrix(
    matrix: sp.csr_array, expression: cp.Expression, shape: tuple[int, ...]
) -> cp.Expression:
    """A constant matrix times the elements of an expression, in the given shape."""
    if expression.size == 1:
        column = matrix.toarray().reshape(shape, order="F")
        return times(in_shape(expression, ()), cp.Constant(column))
    flat = expression if expression.ndim == 1 else cp.vec(expression, order="F")
    if isinstance(flat, cp.Constant):
        return cp.Constant((matrix @ dense(flat)).reshape(shape, order="F"))
    return in_shape(cp.Constant(sp.csc_array(matrix)) @ flat, shape)


def coefficient_matrix(atom: Any, number: int) -> sp.csr_array:
    """Matrix of an atom that is linear in one argument, whatever constants the others are."""
    stand_in = cp.Variable(atom.args[number].shape)
    arguments = list(atom.args)
    arguments[number] = stand_in
    block = Block("y", [stand_in])
    return sp.csr_array(
        jacobian(lower([atom.copy(arguments)], [block]), ("y",), (np.zeros(block.size),))
    )


def dense(constant: cp.Expression) -> np.ndarray:
    """The value of a constant as an array."""
    return arrays.dense(constant.value).astype(float)


def _is_all(expression: cp.Expression, number: float) -> bool:
    return isinstance(expression, cp.Constant) and bool(np.all(dense(expression) == number))
