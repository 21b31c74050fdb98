"""The registry of lowering rules, and the walk over an expression that applies them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.hstack import Hstack
from cvxpy.atoms.affine.reshape import reshape
from cvxpy.atoms.affine.unary_operators import NegExpression

from blomodel.basics import limits
from blomodel.basics.arrays import is_on_disk
from blomodel.compiler.blocks import Block
from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.large_constants import is_large
from blomodel.compiler.tape import SparseMatrix
from blomodel.compiler.traits import declare
from blomodel.errors import DataError, ModelError, UnsupportedAtomError
from blomodel.kernels import machine as op
from blomodel.text.shorten import shorten

# Constant matrices larger than this with fewer nonzeros than the given share are kept sparse: the first
# share for a product with a vector, the second for one with a matrix, which BLAS does much faster
# (5000 x 784 times 784 x 10: 2.7 ms, as a sparse matrix with a share of 0.19: 10.8 ms).
_SPARSE_FROM, _SPARSE_SHARE, _SPARSE_SHARE_OF_MANY = 256, 0.25, 0.05


class Operand:
    """The value of a sub-expression: a constant known now, a node of the tape, or minus another one."""

    builder: TapeBuilder
    shape: tuple[int, ...]
    value: Any
    size: int

    def __init__(
        self,
        builder: TapeBuilder,
        shape: tuple[int, ...],
        value: Any = None,
        node: int = -1,
        minus: Operand | None = None,
    ) -> None:
        self.builder, self.shape, self.value, self._node = builder, shape, value, node
        self.minus = minus
        self.size = prod(shape)

    @property
    def is_constant(self) -> bool:
        """Whether the value is known now."""
        return self.value is not None

    @property
    def node(self) -> int:
        """The node; a constant becomes one only when it is asked for as a vector."""
        if self._node < 0 and self.minus is not None:
            self._node = self.builder.unary(op.NEG, self.minus.node)
        elif self._node < 0:
            self._node = self.builder.constant(self.dense())
        return self._node

    def dense(self) -> np.ndarray:
        """The constant, as an array of the expression's shape."""
        value = self.value.toarray() if hasattr(self.value, "toarray") else self.value
        array = np.asarray(value, dtype=float)
        if array.shape != self.shape:
            array = np.reshape(array, self.shape, order="F")
        if is_large(array):
            # cvxpy's constants are copies of their own, which nobody changes: tapes read them in place.
            array = array.view()
            array.flags.writeable = False
        return array

    def as_matrix(self) -> tuple[int, bool]:
        """The node of a matrix, and whether it is stored row by row: large data stay as they are."""
        if self._node < 0 and len(self.shape) == 2 and self.is_constant:
            array = self.dense()
            if is_large(array) and array.flags.c_contiguous:
                return self.builder.constant(array.T), True
        return self.node, False

    def as_sparse(self, columns: int = 1) -> SparseMatrix | None:
        """The constant as a sparse matrix, where that pays for a product with so many columns."""
        if not self.is_constant or len(self.shape) != 2:
            return None
        if sp.issparse(self.value):
            return _rows_of(self.value)
        if is_on_disk(self.value):
            return None
        share = np.count_nonzero(self.value) / max(self.size, 1)
        limit = _SPARSE_SHARE if columns == 1 else _SPARSE_SHARE_OF_MANY
        if self.size > _SPARSE_FROM and share < limit:
            is_same = isinstance(self.value, np.ndarray) and self.value.shape == self.shape
            return _rows_of(self.value) if is_same else SparseMatrix(self.dense())
        return None


_ROWS: dict[int, tuple[weakref.ref[Any], SparseMatrix]] = {}  # of matrices that stand in many tapes


def _rows_of(matrix: Any) -> SparseMatrix:
    """The matrix by rows, found once while it lives."""
    number = id(matrix)
    known = _ROWS.get(number)
    if known is not None and known[0]() is matrix:
        return known[1]
    rows = SparseMatrix(matrix)
    if not limits.COPIED_CONSTANT.allows(rows.csr.nnz):
        _ROWS[number] = (weakref.ref(matrix, lambda _: _ROWS.pop(number, None)), rows)
    return rows


Rule = Callable[["Lowering", Any, list[Operand]], int]
RULES: dict[type, Rule] = {}


def rule(*atoms: type, **traits: Any) -> Callable[[Rule], Rule]:
    """Register the function that emits the nodes of these atoms, and what else is to be known of them.

    Parameters
    ----------
    *atoms : type
        Classes of cvxpy atoms.
    **traits
        What ``blomodel.compiler.traits.declare`` takes: how smooth the atoms are where cvxpy does not
        say, what cvxpy's reading of them hides, and a definition in other atoms.
    """

    def register(function: Rule) -> Rule:
        declare(*atoms, **traits)
        RULES.update(dict.fromkeys(atoms, function))
        return function

    return register


class Lowering:
    """One walk over expressions; rules use its builder and its helpers."""

    blocks: list[Block]
    builder: TapeBuilder

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.blocks = list(blocks)
        self.builder = TapeBuilder(
            [block.name for block in self.blocks], [block.size for block in self.blocks]
        )
        self.done: dict[int, Operand] = {}
        self.parents: dict[int, Any] = {}  # for error messages

    def lower(self, expression: Any) -> Operand:
        """The operand of an expression; an explicit stack, so that depth does not matter."""
        stack = [expression]
        while stack:
            current = stack[-1]
            if id(current) in self.done:
                stack.pop()
                continue
            if isinstance(current, Hstack) and self._are_leaves(current.args):
                stack.pop()
                self.done[id(current)] = self._side_by_side(current)
                continue
            waiting = [arg for arg in current.args if id(arg) not in self.done]
            if waiting:
                for arg in waiting:
                    self.parents[id(arg)] = current
                stack.extend(waiting)
            else:
                stack.pop()
                self.done[id(current)] = self._operand(current)
        return self.done[id(expression)]

    def _operand(self, expression: Any) -> Operand:
        if isinstance(expression, cp.Constant):
            return self.constant(expression.shape, expression.value)
        if isinstance(expression, (cp.Variable, cp.Parameter)):
            return Operand(self.builder, expression.shape, node=self.leaf(expression))
        args = [self.done[id(arg)] for arg in expression.args]
        if isinstance(expression, NegExpression) and is_on_disk(args[0].value):
            return Operand(self.builder, expression.shape, minus=args[0])  # a file is not copied
        if all(arg.is_constant for arg in args) and not _has_parameter_data(expression):
            with np.errstate(all="ignore"):
                value = expression.numeric([arg.value for arg in args])
            return self.constant(expression.shape, value)
        apply = RULES.get(type(expression))
        if apply is None:
            raise UnsupportedAtomError(self._unsupported(expression))
        node = apply(self, expression, args)
        node = self.builder.fill(node, expression.size)
        return Operand(self.builder, expression.shape, node=node)

    def constant(self, shape: tuple[int, ...], value: Any) -> Operand:
        """The operand of a constant; complex numbers are refused, since tapes hold real ones."""
        if np.iscomplexobj(value):
            raise ModelError("complex numbers cannot be compiled; split real and imaginary parts.")
        return Operand(self.builder, shape, value=value)

    def leaf(self, leaf: Any) -> int:
        """The part of an input block that belongs to a variable or parameter."""
        for block in self.blocks:
            if leaf in block:
                place = block.slice_of(leaf)
                return self.builder.gather(
                    self.builder.input(block.name), np.arange(place.start, place.stop)
                )
        names = [block.name for block in self.blocks]
        raise DataError(f"'{leaf.name()}' is in none of the blocks {names} being compiled.")

    def _are_leaves(self, args: Sequence[Any]) -> bool:
        """Whether all are leaves of one of the blocks, each as a vector."""
        leaves = [_flattened_leaf(arg) for arg in args]
        if len(leaves) < 2 or any(leaf is None for leaf in leaves):
            return False
        return any(all(leaf in block for leaf in leaves) for block in self.blocks)

    def _side_by_side(self, stacked: Hstack) -> Operand:
        """Leaves of one block as one piece of it, without a node for each."""
        leaves = [_flattened_leaf(arg) for arg in stacked.args]
        block = next(block for block in self.blocks if leaves[0] in block)
        slices = [block.slice_of(leaf) for leaf in leaves]
        places = np.concatenate([np.arange(place.start, place.stop) for place in slices])
        node = self.builder.gather(self.builder.input(block.name), places)
        return Operand(self.builder, stacked.shape, node=node)

    def _unsupported(self, expression: Any) -> str:
        name = type(expression).__name__
        around = shorten(self.parents.get(id(expression), expression), 120)
        return (
            f"the atom '{name}' in '{around}' cannot be compiled. Rewrite it with atoms that can: "
            "sums, products, quotients, powers, norms, maxima, quadratic forms, exp, log and the "
            "atoms of cvxpy.nlp; or give it a rule (blomodel.compiler.rules.rule)."
        )

    def spread(self, operand: Operand, shape: tuple[int, ...]) -> int:
        """The operand's node, broadcast to a shape; a scalar is left to be repeated."""
        size = prod(shape)
        if operand.size in (1, size):
            return operand.node
        return self.builder.gather(
            operand.node, np.broadcast_to(labels(operand.shape), shape).ravel(order="F")
        )

    def runs(self, operand: Operand, axis: int | Sequence[int] | None) -> tuple[int, int]:
        """The operand with the elements that a reduction joins side by side; their number."""
        order, length = run_order(operand.shape, axis)
        return self.builder.gather(operand.node, order), length


def _flattened_leaf(e: Any) -> Any:
    """The leaf that a vector holds column by column; None for any other expression."""
    if isinstance(e, reshape) and e.order == "F" and e.ndim == 1:
        e = e.args[0]
    elif e.ndim > 1:
        return None
    return e if isinstance(e, (cp.Variable, cp.Parameter)) else None


def labels(shape: tuple[int, ...]) -> np.ndarray:
    """The numbers of the elements of an array, in the order in which they are stored."""
    return np.arange(prod(shape)).reshape(shape, order="F")


def run_order(shape: tuple[int, ...], axis: int | Sequence[int] | None) -> tuple[np.ndarray, int]:
    """An order of the elements in which those along the axes are consecutive; their number."""
    numbers = labels(shape)
    if axis is None or not shape:
        return numbers.ravel(order="F"), numbers.size
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    moved = np.moveaxis(numbers, axes, range(len(axes)))
    return moved.ravel(order="F"), int(np.prod(moved.shape[: len(axes)]))


def _has_parameter_data(expression: Any) -> bool:
    # Exponents and thresholds may be parameters that are no arguments of the atom.
    data = expression.get_data() or []
    return any(isinstance(item, cp.Expression) and item.parameters() for item in data)
