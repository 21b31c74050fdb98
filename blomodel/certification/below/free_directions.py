"""Directions in which a lower level neither curves nor is held, and the slopes of g along them.

A slope is not compared with g as a whole, but with what makes it up: along such a direction each summand
of g either cancels to rounding or has a slope of its own. The first counts as zero, the others are
added; so a slope is told from zero whatever the size of the rest of g.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import MulExpression, multiply
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.unary_operators import NegExpression
from scipy.optimize import linprog, nnls
from scipy.sparse.csgraph import connected_components

from blomodel.basics.memory import remembered
from blomodel.certification.surroundings import Place
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient, jacobian
from blomodel.compiler.tape import Tape
from blomodel.errors import BlomodelError
from blomodel.model.flat_lower import variation
from blomodel.model.model import Model

Array = np.ndarray
CANCELS = 1e-13  # share of a summand's slope that rounding leaves where it cancels
ALIKE = 1e-6  # ratio of parts that may cancel one another
ROUNDING = 1e-15  # rows of a matrix below this share of the largest are none
RANK = 1e-10  # singular values below this share of the largest are zero
PRESSES = 1e-7  # force of a row that presses, relative to what g varies by
TOUCHES = 1e-7  # relative distance at which a row may hold y
FALLS = 1e-6  # share of the largest slope that a direction must win


@dataclass(frozen=True)
class FreeDirections:
    """What curvature and pressing rows leave to y at a place.

    Attributes
    ----------
    basis : array
        Of the directions, by columns; none of them mixes parts of y that nothing connects.
    clarity : array
        How clearly each of them is told from the others, from 0 to 1.
    weak : array
        Rows that touch but do not press, along the basis, each with 1 as its largest entry.
    cross : sparse matrix
        How the slope of the lower Lagrangian in y changes with x.
    """

    place: Place
    basis: Array
    clarity: Array
    weak: Array
    cross: sp.csr_array

    def slopes(self, place: Place) -> Array | None:
        """Of g along the basis, at this place or one nearby; None where they are not finite."""
        x, y, p = place.x, place.y, place.p
        parts, point = [], np.concatenate([x, y])
        for summand in _slopes(place.model):
            own_slope = summand(x, y, p)
            if not np.all(np.isfinite(own_slope)):
                return None
            along = self.basis.T @ own_slope
            # A coefficient such as c + C x may cancel too, so its size is that of its terms.
            terms = np.abs(own_slope) + abs(jacobian(summand, ("x", "y"), (x, y, p))) @ np.abs(point)
            along[np.abs(along) <= CANCELS / self.clarity * (np.abs(self.basis).T @ terms)] = 0.0
            parts.append(along)
        return np.array([_sum_of_parts(column) for column in np.transpose(parts)])

    def steepest(self, slopes: Array) -> tuple[Array, float] | None:
        """The direction in the unit box along which g falls most, and the slope; None if it does not."""
        largest = float(np.abs(slopes).max(initial=0.0))
        if largest == 0.0:
            return None
        ends = sp.csr_array(np.vstack([self.weak, self.basis, -self.basis]))
        right = np.concatenate([np.zeros(len(self.weak)), np.ones(2 * len(self.basis))])
        found = linprog(slopes / largest, A_ub=ends, b_ub=right, bounds=(None, None))
        if found.status != 0 or not found.fun < -FALLS:
            return None
        return self.basis @ found.x, float(found.fun * largest)


def free_directions(place: Place) -> FreeDirections | None:
    """The directions at a place; None where there are none, or numbers are missing."""
    model, x, y, p = place.model, place.x, place.y, place.p
    rows, equal = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
    in_y, on_y = rows.in_y.toarray(), equal.in_y.toarray()
    size = 1 + np.abs(y)
    sizes = np.abs(in_y) @ size
    touches = -rows.value <= TOUCHES * np.maximum(sizes, np.abs(in_y).max(axis=1, initial=0.0))
    slope = model.g_grad(x, y, p)[x.size :]
    if not all(np.all(np.isfinite(part)) for part in (slope, in_y, on_y)):
        return None
    own = _fitting_multipliers(slope, np.where(touches[:, None], in_y, 0.0), on_y)
    if place.multipliers.size != own.size:
        return None
    # What a solver leaves on rows, and what a y beside the answer wants of them, is not the same.
    force = np.minimum(own, place.multipliers)[: len(touches)]
    presses = touches & (force * sizes > PRESSES * variation(model, x, y, p))
    own[: len(presses)][~presses] = 0.0
    cross, second = model.lower_hessian(x, y, p, own)
    left = _left_free([second.toarray(), in_y[presses], on_y])
    if left is None or not left[0].shape[1]:
        return None
    basis, clarity = left
    weak = in_y[touches & ~presses] @ basis
    norms = np.abs(weak).max(axis=1, initial=0.0)
    weak = weak[norms > RANK] / norms[norms > RANK, None]
    return FreeDirections(place, basis, clarity, weak, cross)


def _fitting_multipliers(slope: Array, in_y: Array, on_y: Array) -> Array:
    """Multipliers of rows and equations that balance a slope as well as any do."""
    columns = np.hstack([in_y.T, on_y.T, -on_y.T])
    sizes = np.abs(columns).max(axis=0, initial=0.0)
    unit = np.where(sizes > 0, sizes, 1.0)
    steepest = float(np.abs(slope).max(initial=0.0))
    if not columns.size or steepest == 0.0:
        return np.zeros(len(in_y) + len(on_y))
    try:
        found = nnls(columns / unit, -slope / steepest)[0] * steepest / unit
    except RuntimeError:  # too many iterations
        return np.zeros(len(in_y) + len(on_y))
    n, m = len(in_y), len(on_y)
    return np.append(found[:n], found[n : n + m] - found[n + m :])


def _sum_of_parts(parts: Array) -> float:
    """The sum, where large parts that cancel to rounding leave what small ones add up to."""
    rest = parts[parts != 0.0]
    while rest.size:
        sizes = np.abs(rest)
        is_large = sizes >= ALIKE * sizes.max()
        total = float(rest[is_large].sum())
        if abs(total) > CANCELS * sizes[is_large].sum():
            return total
        rest = rest[~is_large]
    return 0.0


def _left_free(parts: list[Array]) -> tuple[Array, Array] | None:
    """A basis of what the rows of some matrices leave, and how clearly each column is told from them.

    Columns that no row connects are kept apart: rounding would mix them otherwise, and a large slope of
    one part of y, which cancels there, would leave its rounding in the directions of another.
    """
    scaled = []
    for part in parts:
        if not np.all(np.isfinite(part)):
            return None
        # Row by row: a large curvature must not make a small one elsewhere look like none.
        of_rows = np.abs(part).max(axis=1, initial=0.0)
        is_row = of_rows > ROUNDING * of_rows.max(initial=0.0)
        scaled += [part[is_row] / of_rows[is_row, None]] if is_row.any() else []
    n = parts[0].shape[1]
    if not scaled:
        return np.eye(n), np.ones(n)
    matrix = np.vstack(scaled)
    meets = sp.csr_array(matrix != 0.0).astype(float)
    count, label = connected_components(meets.T @ meets, directed=False)
    columns, clarity = [], []
    for number in range(count):
        own = np.flatnonzero(label == number)
        kernel, told = _kernel(matrix[np.any(matrix[:, own] != 0.0, axis=1)][:, own])
        block = np.zeros((n, kernel.shape[1]))
        block[own] = kernel
        columns.append(block)
        clarity += [told] * kernel.shape[1]
    return np.hstack(columns), np.array(clarity)


def _kernel(matrix: Array) -> tuple[Array, float]:
    """A basis of what a matrix maps to zero, and the smallest singular value that is none, relative."""
    if not len(matrix):
        return np.eye(matrix.shape[1]), 1.0
    _, singular, vectors = np.linalg.svd(matrix)
    rank = int((singular > RANK * singular.max()).sum())
    basis = vectors[rank:].T
    basis = np.where(np.abs(basis) > np.finfo(float).eps * 4, basis, 0.0)
    return basis, float(singular[rank - 1] / singular[0])


@remembered
def _slopes(model: Model) -> list[Tape]:
    """The gradient in y of each summand of g."""
    try:
        return [gradient(lower([part], model.blocks), ("y",)) for part in summands(model.g_expression)]
    except BlomodelError:
        return [gradient(model.g, ("y",))]


def summands(expression: cp.Expression, factor: float = 1.0) -> list[cp.Expression]:
    """The terms of a sum, with numbers in front of brackets multiplied in."""
    if isinstance(expression, AddExpression):
        return [part for arg in expression.args for part in summands(arg, factor)]
    if isinstance(expression, NegExpression):
        return summands(expression.args[0], -factor)
    if isinstance(expression, MulExpression | multiply):
        first, second = expression.args
        # A constant of shape (1,) changes the shape of what it is multiplied with.
        if first.ndim == 0 and first.is_constant() and not first.parameters():
            return summands(second, factor * float(first.value))
        if second.ndim == 0 and second.is_constant() and not second.parameters():
            return summands(first, factor * float(second.value))
    if isinstance(expression, Sum) and isinstance(expression.args[0], AddExpression):
        parts = expression.args[0].args
        if all(part.shape == expression.args[0].shape for part in parts):
            return [whole for part in parts for whole in summands(cp.sum(part), factor)]
    return [factor * expression]
