r"""Linear rows that join the lower level's answer with its multipliers.

On every piece complementarity holds, so that stationarity times :math:`y - Yx`, for any matrix Y, gives

.. math:: (y - Yx)^T (Hy + c) = \sum_i \lambda_i (v_i + (B + AY)_i x) + \mu^T (w + (E_x + E_y Y) x)

where the lower rows are :math:`Bx + Ay + v \le 0` and :math:`E_x x + E_y y + w = 0`. A relaxation that
drops complementarity loses this. With :math:`\beta_i \ge (B + AY)_i x`, the signs of the multipliers
and a tangent of the convex left-hand side, a linear row is left. It often bounds the multipliers: where
:math:`v_i + \beta_i < 0` for all i, :math:`Yx` is an inner point of the lower level for every x.
The row for Y = 0 is that of Kleinert, Labbé, Plein and Schmidt (2021).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.model.model import Model
from blomodel.programs.adjoint import factorised
from blomodel.solvers.complementarity import ComplementarityQP
from blomodel.solvers.highs import BoundedProgram

Array = np.ndarray
SAFE = 1e-8  # relative: what rounding may cost in a range
SHIFT = 1e-12  # relative, so that least squares without a unique answer can be factorised
NO_MATTER = 1e-12  # relative: smaller numbers are rounding


def with_duality_rows(
    qp: ComplementarityQP, model: Model, p: Array, deadline: Deadline = NEVER
) -> ComplementarityQP:
    """The same problem with rows that every complementary point satisfies; fewer after the deadline.

    ``qp`` stands for the KKT conditions, linear ones, in z = (x, y, multipliers).
    """
    if not model.conditions.multipliers_are_unknowns:
        return qp
    rows = _duality_rows(qp, model, p, deadline)
    if not rows:
        return qp
    return dataclasses.replace(
        qp,
        A_in=sp.csc_array(sp.vstack([qp.A_in, sp.csr_array(np.array(rows))])),
        b_in=np.concatenate([qp.b_in, np.zeros(len(rows))]),
    )


def _duality_rows(qp: ComplementarityQP, model: Model, p: Array, deadline: Deadline) -> list[Array]:
    x, y = np.zeros(model.x.size), np.zeros(model.y.size)
    inside, on = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
    none = np.zeros(len(inside.value) + len(on.value))
    cross, hessian = model.lower_hessian(x, y, p, none)
    if np.any(cross.data) or not len(inside.value) or not x.size:
        return []
    slope = model.lower_stationarity(x, y, p, none)
    program = _relaxation(qp)
    rows = []
    given = inside.in_y, inside.in_x, on.in_y, on.in_x
    for follow in _rules(*map(sp.csr_array, given), is_linear=not np.any(hessian.data)):
        left = on.in_x + on.in_y @ follow
        if np.abs(left.data).max(initial=0) > NO_MATTER * (1 + np.abs(on.in_x.data).max(initial=0)):
            continue
        reach = _largest(program, sp.csr_array(inside.in_x + inside.in_y @ follow), deadline)
        if np.all(np.isfinite(reach)):
            # The tangent of y'Hy at 0 is 0.
            rows.append(np.concatenate([-(follow.T @ slope), slope, -(inside.value + reach), -on.value]))
    return rows


def _rules(
    A: sp.csr_array, B: sp.csr_array, E_y: sp.csr_array, E_x: sp.csr_array, *, is_linear: bool
) -> Iterator[sp.csr_array]:
    """Matrices Y: none, and the one with which y = Yx keeps the rows' values nearest to those at 0."""
    yield sp.csr_array((A.shape[1], B.shape[1]))
    if not is_linear or (not np.any(B.data) and not np.any(E_x.data)):
        return
    if limits.DENSE_PIECE.allows(A.shape[0]):
        yield sp.csr_array(_nearest(A.toarray(), B.toarray(), E_y.toarray(), E_x.toarray()))
        return
    # Least squares by their normal equations: an orthogonal decomposition would take minutes.
    shift = SHIFT * (1 + np.abs(A.data).max(initial=0.0) ** 2)
    solve = factorised(sp.csc_array(A.T @ A + shift * sp.eye_array(A.shape[1])), E_y)
    if solve is None:
        return
    yield sp.csr_array(solve(-(A.T @ B).toarray(), -E_x.toarray())[0])


def _nearest(A: Array, B: Array, E_y: Array, E_x: Array) -> Array:
    if not len(E_y):
        return np.asarray(np.linalg.lstsq(A, -B)[0])
    start = np.linalg.lstsq(E_y, -E_x)[0]
    kernel = np.eye(A.shape[1]) - np.linalg.pinv(E_y) @ E_y
    return np.asarray(start + kernel @ np.linalg.lstsq(A @ kernel, -(B + A @ start))[0])


def _relaxation(qp: ComplementarityQP) -> BoundedProgram:
    """The points that satisfy all but complementarity."""
    low, high = np.full(len(qp.q), -np.inf), np.full(len(qp.q), np.inf)
    low[qp.columns] = 0.0
    return BoundedProgram(qp.A_eq, qp.b_eq, qp.A_in, qp.b_in, low, high)


def _largest(program: BoundedProgram, rows: sp.csr_array, deadline: Deadline) -> Array:
    """An upper bound of each row over x; infinite where there is none, or no time to find it."""
    largest = np.zeros(rows.shape[0])
    for i in np.flatnonzero(np.diff(rows.indptr)):
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        if deadline.is_over:
            return np.full(len(largest), np.inf)
        if np.any(rows.data[part]):
            cost = np.zeros(program.n)
            cost[rows.indices[part]] = -rows.data[part]
            least = program.minimise(cost, deadline)
            largest[i] = -least.value + SAFE * (1 + abs(least.value)) if least.has_point else np.inf
    return largest
