"""Lowering rules for affine atoms and for products."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.broadcast_to import broadcast_to
from cvxpy.atoms.affine.concatenate import Concatenate
from cvxpy.atoms.affine.conj import conj
from cvxpy.atoms.affine.conv import conv, convolve
from cvxpy.atoms.affine.cumsum import cumsum
from cvxpy.atoms.affine.diag import diag_mat, diag_vec
from cvxpy.atoms.affine.hstack import Hstack
from cvxpy.atoms.affine.index import index, special_index
from cvxpy.atoms.affine.kron import kron
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.real import real
from cvxpy.atoms.affine.reshape import reshape
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.trace import Trace
from cvxpy.atoms.affine.transpose import transpose
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.affine.upper_tri import upper_tri
from cvxpy.atoms.affine.vstack import Vstack
from cvxpy.atoms.affine.wraps import (
    hermitian_wrap,
    nonneg_wrap,
    nonpos_wrap,
    nsd_wrap,
    psd_wrap,
    skew_symmetric_wrap,
    symmetric_wrap,
)
from cvxpy.atoms.one_minus_pos import one_minus_pos

from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.rules import Lowering, Operand, labels, rule, run_order
from blomodel.compiler.tape import SparseMatrix
from blomodel.compiler.traits import Smoothness
from blomodel.kernels import machine as op

# A sum of many short terms is one instruction; long vectors are added one after another.
_MANY_TERMS, _SHORT_TERM = 8, 64


@rule(
    index,
    special_index,
    reshape,
    transpose,
    Hstack,
    Vstack,
    Concatenate,
    Promote,
    broadcast_to,
    diag_vec,
    diag_mat,
    upper_tri,
)
def _rearrangement(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    """Let the atom rearrange the elements' numbers (from 1, so that 0 is a zero it put in)."""
    numbered, begin = [], 1
    for arg in args:
        numbered.append((labels(arg.shape) + begin).astype(float))
        begin += arg.size
    arranged = np.asarray(atom.numeric(numbered)).ravel(order="F").astype(int)
    pieces, begin = [], 1
    for arg in args:
        target = np.flatnonzero((arranged >= begin) & (arranged < begin + arg.size))
        pieces.append((arg.node, arranged[target] - begin, target))
        begin += arg.size
    return lowering.builder.select(len(arranged), pieces)


# Atoms that hand real values on as they are; they only tell cvxpy more about them.
SAME_VALUE = (
    conj,
    real,
    nonneg_wrap,
    nonpos_wrap,
    psd_wrap,
    nsd_wrap,
    symmetric_wrap,
    hermitian_wrap,
    skew_symmetric_wrap,
)


@rule(*SAME_VALUE)
def _same(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    return args[0].node


@rule(NegExpression)
def _negation(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    return lowering.builder.unary(op.NEG, args[0].node)


# cvxpy counts it among the functions of log-log calculus and says nothing of its smoothness.
@rule(one_minus_pos, smoothness=Smoothness.TWICE)
def _one_minus(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    return lowering.builder.sub(lowering.builder.constant(1.0), args[0].node, atom.size)


@rule(AddExpression)
def _addition(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    b = lowering.builder
    terms = [lowering.spread(arg, atom.shape) for arg in args]
    if len(terms) > _MANY_TERMS and atom.size <= _SHORT_TERM:
        everywhere = np.arange(atom.size)
        return b.select(atom.size, [(b.fill(term, atom.size), everywhere, everywhere) for term in terms])
    total = terms[0]
    for term in terms[1:]:
        total = b.add(total, term, atom.size)
    return total


@rule(Sum)
def _sum(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    return sum_along(lowering.builder, args[0].node, args[0].shape, atom.axis)


def sum_along(b: TapeBuilder, node: int, shape: tuple[int, ...], axis: Any) -> int:
    """Sums along axes; all elements if the axis is None."""
    if axis is None:
        return b.sum(node)
    order, length = run_order(shape, axis)
    if length == len(order):
        return b.sum(node)
    if np.array_equal(order, np.arange(len(order))):
        return b.sum(node, length)
    count = len(order) // length
    return b.select(count, [(node, order, np.repeat(np.arange(count), length))])


@rule(Trace)
def _trace(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    diagonals = np.diagonal(labels(args[0].shape), axis1=-2, axis2=-1)
    target = np.broadcast_to(labels(atom.shape)[..., None], diagonals.shape)
    piece = (args[0].node, diagonals.ravel(order="F"), target.ravel(order="F"))
    if atom.size == 1:
        return lowering.builder.sum(lowering.builder.gather(piece[0], piece[1]))
    return lowering.builder.select(atom.size, [piece])


@rule(cumsum)
def _cumulative_sum(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    b, shape = lowering.builder, args[0].shape
    if atom.axis is None:  # NumPy flattens row by row here
        order = labels(shape).ravel(order="C")
        return b.segments(op.CUMSUM, b.gather(args[0].node, order), len(order))
    order, length = run_order(shape, atom.axis)
    sums = b.segments(op.CUMSUM, b.gather(args[0].node, order), length)
    return b.gather(sums, np.argsort(order))


# Products


@rule(multiply)
def _multiplication(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    left, right = (lowering.spread(arg, atom.shape) for arg in args)
    return lowering.builder.mul(left, right, atom.size)


@rule(DivExpression)
def _division(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    left, right = (lowering.spread(arg, atom.shape) for arg in args)
    return lowering.builder.div(left, right, atom.size)


def apply_left(lowering: Lowering, matrix: Operand, m: int, k: int, node: int, n: int) -> int:
    """An m x k matrix times the k x n matrix in a node."""
    if matrix.minus is not None:
        return lowering.builder.unary(op.NEG, apply_left(lowering, matrix.minus, m, k, node, n))
    sparse = matrix.as_sparse(n)
    if sparse is not None:
        return lowering.builder.sparse(sparse, node, n)
    stored, by_rows = matrix.as_matrix()
    return lowering.builder.matmul(stored, node, m, k, n, a_transposed=by_rows)


@rule(MulExpression)
def _matrix_product(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    b = lowering.builder
    left, right = args
    if not left.shape or not right.shape:
        return b.mul(left.node, right.node, atom.size)
    if len(left.shape) > 2 or len(right.shape) > 2:
        return _batched_product(b, atom, left, right)
    m, k = (1, left.size) if len(left.shape) == 1 else left.shape
    n = 1 if len(right.shape) == 1 else right.shape[1]
    sparse = right.as_sparse(m)
    if sparse is not None:
        # X A = (A' X')': the machine multiplies sparse matrices from the left only.
        flipped = b.gather(left.node, labels((m, k)).T.ravel(order="F"))
        product = b.sparse(sparse.transposed, flipped, m)
        return b.gather(product, labels((n, m)).T.ravel(order="F"))
    return apply_left(lowering, left, m, k, right.node, n)


def _batched_product(b: TapeBuilder, atom: Any, left: Operand, right: Operand) -> int:
    """Products of the matrices in the last two axes, one by one."""
    (m, k), n = left.shape[-2:], right.shape[-1]
    left_numbers = labels(left.shape).reshape(-1, m, k)
    right_numbers = labels(right.shape).reshape(-1, k, n)
    out_numbers = labels(atom.shape).reshape(-1, m, n)
    pieces = []
    for a, c, out in zip(left_numbers, right_numbers, out_numbers, strict=True):
        product = b.matmul(
            b.gather(left.node, a.ravel(order="F")),
            b.gather(right.node, c.ravel(order="F")),
            m,
            k,
            n,
        )
        pieces.append((product, np.arange(m * n), out.ravel(order="F")))
    return b.select(atom.size, pieces)


def _bilinear(
    lowering: Lowering,
    args: list[Operand],
    at: tuple[np.ndarray, np.ndarray, np.ndarray],
    size: int,
) -> int:
    """Sums of products: left[at[0][i]] * right[at[1][i]] is added to element at[2][i]."""
    b = lowering.builder
    for fixed, other in ((0, 1), (1, 0)):
        if args[fixed].is_constant:
            factors = args[fixed].dense().ravel(order="F")[at[fixed]]
            shape = (size, args[other].size)
            matrix = SparseMatrix(sp.coo_array((factors, (at[2], at[other])), shape=shape))
            return b.sparse(matrix, args[other].node)
    products = b.mul(b.gather(args[0].node, at[0]), b.gather(args[1].node, at[1]), len(at[2]))
    return b.select(size, [(products, np.arange(len(at[2])), at[2])])


@rule(kron)
def _kronecker(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    left, right = (labels(arg.shape) for arg in args)
    at_left = np.kron(left, np.ones_like(right)).ravel(order="F")
    at_right = np.kron(np.ones_like(left), right).ravel(order="F")
    return _bilinear(lowering, args, (at_left, at_right, np.arange(atom.size)), atom.size)


@rule(conv, convolve)
def _convolution(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    left, right = (
        grid.ravel()
        for grid in np.meshgrid(np.arange(args[0].size), np.arange(args[1].size), indexing="ij")
    )
    return _bilinear(lowering, args, (left, right, left + right), atom.size)
