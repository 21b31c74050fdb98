"""Second-order test: whether f curves upwards along all directions in which it is level.

The matrix is the Hessian of the Lagrangian of the KKT conditions as they are around the point, reduced
to the directions; each product with it costs two solves with the factor of the lower level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from blomodel.basics import limits
from blomodel.basics.arrays import largest_in_rows
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.certification.directions import AnyMatrix, Directions, Level
from blomodel.model.kkt_hessian import KktWeights

POSITIVE = 1e-9  # smallest curvature, relative to the largest
NOISE = 1e-14  # relative: what rounding leaves in a curvature
ROUND = 1e-7  # the same after each direction was scaled to curvature one
VISIBLE = 1e-9  # change of f, relative, over a move of about x's size
HELD = 1e-7  # multiplier of a row that keeps f from falling, relative to the slope of f
HARDLY_HELD = 1e-11  # the same of a row that may do so nearby
IN_TURN = 24  # directions up to which products with the matrix cost less than the matrix
FULL = 0.1  # share of nonzeros from which a matrix is multiplied as a plain one
NEARBY = 1e-3  # radius, relative to the size of x, in which such rows outweigh a negative curvature


@dataclass(frozen=True)
class Growth:
    """How f grows around a point where it is level.

    Attributes
    ----------
    is_positive : bool
        Whether f curves upwards along each direction that is left; where f is quadratic on linear
        pieces, it is enough that it does not curve downwards.
    n_left : int
        Dimension of what the pressing rows leave.
    gain : float
        What a Newton step would still gain in the directions that curve; infinite where f curves
        downwards.
    step : array or None
        That step, or a direction along which f curves downwards, in the unknowns of the directions.
    is_flat : bool
        Whether f is level to second order along some of them.
    flat : array or None
        The one direction along which f does not visibly curve, where it curves upwards along all others.
    """

    is_positive: bool
    n_left: int
    gain: float = np.inf
    step: np.ndarray | None = None
    is_flat: bool = False
    flat: np.ndarray | None = None


class Curvature:
    """The reduced Hessian of the Lagrangian that belongs to a level."""

    directions: Directions
    level: Level

    def __init__(self, directions: Directions, level: Level) -> None:
        self.directions, self.level = directions, level
        here = directions.around
        place, model = here.place, here.place.model
        rows, n_weak = directions.row_multipliers(level), len(here.weak)
        equations = directions.equation_multipliers(level)
        n_s, n_e = here.n_stationarity, len(here.eq_rows)
        below, equal = np.zeros(len(model.lower_in)), np.zeros(len(model.lower_eq))
        pairs = model.conditions.rows
        below[pairs[here.strong]] = equations[n_s + n_e :]
        below[pairs[here.weak]] = rows[:n_weak]
        equal[here.eq_rows] = equations[n_s : n_s + n_e]
        above = np.zeros(len(model.upper_in))
        above[here.above_rows] = rows[2 * n_weak :]
        weights = KktWeights(
            own=place.multipliers,
            upper=(above, directions.upper_equality_multipliers(level)),
            lower=(below, equal),
            stationarity=equations[:n_s],
        )
        self._at = (place.x, place.y, place.p, weights)
        self._n_z = len(place.z)

    def product(self, v: np.ndarray) -> np.ndarray:
        """The matrix times v."""
        here, model = self.directions.around, self.directions.around.place.model
        whole = np.zeros(self._n_z)
        whole[here.kept] = self.directions.lift(v)
        changed = model.kkt_hessian.product(*self._at, whole)
        return self.directions.pull(changed[here.kept])

    def within(self, basis: np.ndarray) -> np.ndarray | None:
        """The matrix in the columns of a basis, all at once; None where rows below are not affine.

        With affine rows the second derivatives in (x, y) are all there are.
        """
        here, model = self.directions.around, self.directions.around.place.model
        if not (model.lower_in.is_affine and model.lower_eq.is_affine):
            return None
        second = model.kkt_hessian.matrix(*self._at)
        n = second.shape[0]
        whole = np.zeros((self._n_z, basis.shape[1]))
        whole[here.kept] = self.directions.lift(basis)
        is_full = second.nnz > FULL * n**2
        return np.asarray(whole[:n].T @ ((second.toarray() if is_full else second) @ whole[:n]))

    def is_surely_negative(self, basis: np.ndarray) -> bool:
        """Whether f curves downwards in a part of the columns that the rest hides by its size.

        Each entry is known up to its own rounding, and compared with the curvature of its own columns.
        """
        here, model = self.directions.around, self.directions.around.place.model
        matrix = self.within(basis)
        if matrix is None or not np.all(np.isfinite(matrix)):
            return False
        second = model.kkt_hessian.matrix(*self._at)
        n = second.shape[0]
        whole = np.zeros((self._n_z, basis.shape[1]))
        whole[here.kept] = np.abs(self.directions.lift(basis))
        blurred = NOISE * np.asarray(whole[:n].T @ (abs(second) @ whole[:n])).sum(axis=1)
        shifted = (matrix + matrix.T) / 2 + np.diag(blurred)
        sizes = np.abs(np.diag(shifted))
        unit = 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0))
        return bool(np.linalg.eigvalsh(unit[:, None] * shifted * unit)[0] < -ROUND)


def growth(directions: Directions, level: Level, deadline: Deadline = NEVER) -> Growth:
    """Whether f curves upwards along all directions that the pressing rows leave."""
    force = level.pressing * _sizes(directions.rows)
    size = 1 + np.abs(directions.slope).max(initial=0.0)
    held = force > HELD * size
    curvature = Curvature(directions, level)
    found = _growth_beside(curvature, held, deadline)
    slightly = (force > HARDLY_HELD * size) & ~held
    if found.is_positive or found.n_left <= 0 or not slightly.any():
        return found
    # Rows that hardly press still hold f up, if only nearby, where they outweigh the curvature.
    other = _growth_beside(curvature, held | slightly, deadline)
    if not other.is_positive:
        return found
    step = np.zeros(len(directions.slope)) if other.step is None else other.step
    return other if _hold_up(curvature, held, slightly, step, deadline) else found


def _growth_beside(curvature: Curvature, held: np.ndarray, deadline: Deadline) -> Growth:
    """The same for given rows that are held."""
    directions, level = curvature.directions, curvature.level
    basis = _left(directions, held)
    if basis is None:
        return Growth(False, -1)
    n_left = basis.shape[1]
    if n_left == 0:
        return Growth(True, 0, gain=0.0)
    is_large = not limits.CURVED_UNKNOWNS.allows(n_left)
    if is_large:
        return _by_lanczos(curvature, basis, level, deadline)
    basis = _dense(basis)
    matrix = None if n_left <= IN_TURN or deadline.is_over else curvature.within(basis)
    if matrix is not None and np.all(np.isfinite(matrix)):
        return _judge((matrix + matrix.T) / 2, basis, curvature)
    if not limits.CURVED_DIRECTIONS.allows(n_left):
        return _by_lanczos(curvature, basis, level, deadline)
    columns = []
    for k in range(n_left):
        if deadline.is_over:
            return Growth(False, n_left)
        columns.append(basis.T @ curvature.product(basis[:, k]))
    matrix = np.array(columns)
    if not np.all(np.isfinite(matrix)):
        return Growth(False, n_left)
    return _judge((matrix + matrix.T) / 2, basis, curvature)


def _hold_up(
    curvature: Curvature, held: np.ndarray, slightly: np.ndarray, step: np.ndarray, deadline: Deadline
) -> bool:
    """Whether rows that press a little make good for all curvature that they take part in, nearby.

    A move is d = Ta + Sb, where T leaves these rows as they are and b is how far each gives way. f rises
    by the multipliers times |b|, and falls by no more than b'(S'HT)a + b'(S'HS)b/2. The multipliers are
    those after the Newton ``step`` that is left.
    """
    directions, level = curvature.directions, curvature.level
    around, along = _left(directions, held), _left(directions, held | slightly)
    n_rows = int(slightly.sum())
    if around is None or along is None or not limits.CURVED_DIRECTIONS.allows(n_rows):
        return False
    rows = _dense(directions.rows[slightly]) @ around
    if np.linalg.matrix_rank(rows) < n_rows:
        return False
    giving = around @ np.linalg.pinv(rows)
    radius = NEARBY * (1 + np.abs(directions.around.place.x).max(initial=0.0))
    for column, multiplier in zip(giving.T, level.pressing[slightly], strict=True):
        if deadline.is_over:
            return False
        bent = curvature.product(column)
        most = np.linalg.norm(along.T @ bent) + 0.5 * np.linalg.norm(giving.T @ bent)
        left = multiplier - column @ level.rest - bent @ step
        if not left >= max(radius * most, 0.5 * multiplier):
            return False
    return True


def _visible(directions: Directions) -> float:
    """The smallest curvature along which f changes at all."""
    place = directions.around.place
    value = abs(float(place.model.f(place.x, place.y, place.p)[0]))
    return VISIBLE * (1 + value) / (1 + np.abs(place.x).max(initial=0.0)) ** 2


def _judge(matrix: np.ndarray, basis: AnyMatrix, curvature: Curvature) -> Growth:
    directions, level = curvature.directions, curvature.level
    values, vectors = np.linalg.eigh(matrix)
    size, n_left = float(np.abs(values).max()), len(values)
    if values[0] < -1e-6 * size and -values[0] > _visible(directions):
        return Growth(False, n_left, step=basis @ vectors[:, 0])
    diagonal = np.diag(matrix)
    is_positive = bool(
        values[0] > POSITIVE * size and values[0] > _visible(directions) and diagonal.min() > 0
    )
    if is_positive:
        unit = 1 / np.sqrt(diagonal)
        is_positive = bool(np.linalg.eigvalsh(unit[:, None] * matrix * unit)[0] > ROUND)
    rest = basis.T @ level.rest
    is_enough = is_positive or _is_enough(values[0], size, directions)
    least = POSITIVE * size if is_enough else max(POSITIVE * size, _visible(directions))
    curved = values > least
    step = -vectors[:, curved] @ ((vectors[:, curved].T @ rest) / values[curved])
    gain = float(-0.5 * rest @ step)
    if not is_enough:
        has_one = n_left > 1 and curved[1:].all() and not curved[0]
        return Growth(False, n_left, gain=gain, flat=basis @ vectors[:, 0] if has_one else None)
    if not is_positive and curvature.is_surely_negative(basis):
        return Growth(False, n_left)
    return Growth(True, n_left, gain=gain, step=basis @ step, is_flat=not is_positive)


def _is_enough(lowest: float, largest: float, directions: Directions) -> bool:
    """Whether a smallest curvature of about zero shows a local optimum, as it does for QPs."""
    if lowest < -POSITIVE * largest:
        return False
    return directions.around.place.model.is_linear_quadratic or _is_held_by_rows(directions)


def _is_held_by_rows(directions: Directions) -> bool:
    """Whether y is settled by affine active rows alone, so that f is quadratic in x around the point.

    As many rows press as y has entries. While they do, which multipliers of a definite sign ensure, y is
    an affine function of x, whatever the lower objective.
    """
    here = directions.around
    model = here.place.model
    if here.factor is None or len(here.weak) or not model.conditions.multipliers_are_unknowns:
        return False
    if len(here.strong) + len(here.eq_rows) != model.y.size:
        return False
    is_affine = model.lower_in.is_affine and model.lower_eq.is_affine and model.has_affine_upper_rows
    return is_affine and model.f_is_quadratic


def _by_lanczos(curvature: Curvature, basis: AnyMatrix, level: Level, deadline: Deadline) -> Growth:
    """The same from few products, where there are many directions."""
    n_left = basis.shape[1]

    def product(u: np.ndarray) -> np.ndarray:
        if deadline.is_over:
            raise _OutOfTime
        return basis.T @ curvature.product(basis @ u.ravel())

    operator = spl.LinearOperator((n_left, n_left), matvec=product, dtype=float)
    start = np.random.default_rng(0).standard_normal(n_left)
    try:
        largest = float(abs(spl.eigsh(operator, 1, v0=start, tol=1e-2, return_eigenvectors=False)[0]))
        lowest, vector = spl.eigsh(operator, 1, which="SA", v0=start, tol=1e-2, maxiter=60, ncv=40)
        is_positive = lowest[0] > max(POSITIVE * largest, _visible(curvature.directions))
        if not is_positive and not _is_enough(float(lowest[0]), largest, curvature.directions):
            is_negative = lowest[0] < -1e-6 * largest
            return Growth(False, n_left, step=basis @ vector[:, 0] if is_negative else None)
        rest = basis.T @ level.rest
        step, info = spl.cg(operator, -rest, rtol=1e-3, maxiter=100)
    except (_OutOfTime, spl.ArpackError):
        return Growth(False, n_left)
    gain = float(-0.5 * rest @ step) if info == 0 else np.inf
    return Growth(True, n_left, gain=gain, step=basis @ step, is_flat=not is_positive)


class _OutOfTime(Exception):
    pass


def _left(directions: Directions, is_pressing: np.ndarray) -> AnyMatrix | None:
    """A basis of what the equations and the pressing rows leave; None where it would be too large.

    A tight row whose multiplier is zero does not press, so it leaves its direction. Unknowns that no row
    ties to others are kept or fixed alone, so that a basis is dense for the others only.
    """
    n = len(directions.slope)
    parts = [sp.csr_array(part) for part in (directions.equal, directions.rows[is_pressing])]
    held = sp.csr_array(sp.vstack(parts))
    held.eliminate_zeros()
    # Rows in one unknown are most of them: bounds.
    lengths = np.diff(held.indptr)
    fixed = np.zeros(n, dtype=bool)
    fixed[held.indices[held.indptr[:-1][lengths == 1]]] = True
    others = sp.csc_array(held[lengths > 1])
    is_tied = ~fixed & (np.diff(others.indptr) > 0)
    tied, alone = np.flatnonzero(is_tied), np.flatnonzero(~fixed & ~is_tied)
    if not limits.CURVED_UNKNOWNS.allows(tied.size):
        return None
    inner = np.zeros((0, 0))
    if tied.size:
        _, values, vectors = scipy.linalg.svd(others[:, tied].toarray(), full_matrices=True)
        rank = int((values > 1e-9 * max(values.max(initial=0.0), 1e-300)).sum())
        inner = vectors[rank:].T
    n_alone, n_inner = alone.size, inner.shape[1]
    if limits.CURVED_UNKNOWNS.allows(n):
        basis = np.zeros((n, n_alone + n_inner))
        basis[alone, np.arange(n_alone)] = 1.0
        basis[tied, n_alone:] = inner
        return basis
    row, column = np.nonzero(inner)
    entries = np.concatenate([np.ones(n_alone), inner[row, column]])
    places = (
        np.concatenate([alone, tied[row]]),
        np.concatenate([np.arange(n_alone), n_alone + column]),
    )
    return sp.csc_array((entries, places), shape=(n, n_alone + n_inner))


def _dense(matrix: AnyMatrix) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix


def _sizes(matrix: AnyMatrix) -> np.ndarray:
    if sp.issparse(matrix) and matrix.shape[1]:
        return largest_in_rows(matrix)
    plain = _dense(matrix)
    return np.abs(plain).max(axis=1) if plain.size else np.zeros(plain.shape[0])
