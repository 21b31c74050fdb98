r"""Strong duality of each follower as a linear row, with the products of x and y enclosed.

Stationarity times y, less each lower row times its multiplier, vanishes at every lower answer:

.. math:: y^T H y + c^T y + \sum_{ij} C_{ij} x_i y_j
          - \sum_k \lambda_k (B_k x + v_k) - \mu^T w = 0

where the lower rows are :math:`Bx + Ay + v \le 0` and :math:`Ey + w = 0`. A relaxation that drops
complementarity loses this, and its multipliers are then often unbounded: a price may be anything. Here
each product :math:`x_i y_j` gets an unknown of its own between McCormick's four planes, the convex
:math:`y^T H y` is left out, and :math:`B_k x` is replaced by its largest value, so that a linear row is
left, and a second one where nothing was left out. On a piece that decides y the planes are exact.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from blomodel.basics.deadline import NEVER, Deadline
from blomodel.model.model import Model
from blomodel.solvers.complementarity import ComplementarityQP
from blomodel.solvers.highs import BoundedProgram

Array = np.ndarray
SAFE = 1e-8  # relative: what rounding may cost in a range
# The rows say again what pieces say: without room the simplex method would stumble over rounding.
ROOM = 1e-6
NO_MATTER = 1e-10  # relative: smaller numbers are rounding


@dataclass(frozen=True)
class DualityIdentity:
    """What vanishes: sum_j y_j (stationary_j z - right_j) - sum_k m_k (row_k z - right_k).

    The products of multipliers and y have been taken out of the rows, since they cancel.
    """

    y: Array  # entries of z
    stationary: sp.csr_array
    stationary_right: Array
    m: Array
    rows: sp.csr_array
    rows_right: Array
    n_pairs: int  # the first so many of m are multipliers of inequalities, not negative
    follower: tuple[Array, Array]  # number of the follower to which each y and each m belongs

    def weighted(self, weights: Mapping[int, float], n: int) -> tuple[sp.csc_array, Array]:
        """Hessian and gradient at 0 of a sum of multiples, one for each follower, over n unknowns."""
        of_y, of_m = (
            np.array([weights.get(int(number), 0.0) for number in numbers]) for numbers in self.follower
        )
        rows = sp.vstack([sp.diags_array(of_y) @ self.stationary, sp.diags_array(-of_m) @ self.rows])
        entries = np.concatenate([self.y, self.m])
        place = sp.csr_array(
            (np.ones(len(entries)), (entries, np.arange(len(entries)))), (n, len(entries))
        )
        form = place @ rows
        linear = np.zeros(n)
        np.add.at(
            linear, entries, np.concatenate([-of_y * self.stationary_right, of_m * self.rows_right])
        )
        return sp.csc_array(form + form.T), linear

    def cancelling_weights(self, mixed: sp.csr_array) -> dict[int, float]:
        """For each follower the multiple that takes most of the products of x and y away.

        ``mixed`` holds the second derivatives of a function: a row for each x, a column for each
        entry of z.
        """
        n_x = mixed.shape[0]
        own = sp.csr_array(self.stationary[:, :n_x])  # a row for each y
        other = sp.csr_array(mixed.T)[self.y]
        along = np.asarray(own.multiply(other).sum(axis=1)).ravel()
        squares = np.asarray(own.multiply(own).sum(axis=1)).ravel()
        numbers = self.follower[0]
        along, squares = np.bincount(numbers, along), np.bincount(numbers, squares)
        return {k: -along[k] / squares[k] for k in np.flatnonzero(along).tolist()}


def with_duality_products(
    qp: ComplementarityQP, model: Model, p: Array, deadline: Deadline = NEVER
) -> ComplementarityQP:
    """The same problem with unknowns for products at the end of z, and rows for each follower.

    Followers whose turn comes after the deadline get none. ``qp`` stands for the KKT conditions, linear
    ones, in z = (x, y, multipliers).
    """
    identity = find_identity(qp, model)
    if identity is None:
        return qp
    return _Enclosure(qp, model, identity, deadline).extended()


def find_identity(qp: ComplementarityQP, model: Model) -> DualityIdentity | None:
    """Strong duality of each follower as a form in z; None where rows and equations do not fit."""
    conditions, n_x = model.conditions, model.x.size
    A_eq, A_in = sp.csr_array(qp.A_eq), sp.csr_array(qp.A_in)
    equations, entries, is_stationary = conditions.equation_partners()
    others = equations[~is_stationary]
    y, m = entries[is_stationary], np.concatenate([conditions.columns, entries[~is_stationary]])
    stationary = sp.csr_array(A_eq[equations[is_stationary]])
    rows = sp.csr_array(sp.vstack([A_in[conditions.rows], A_eq[others]]))
    rows_right = np.concatenate([qp.b_in[conditions.rows], qp.b_eq[others]])
    has_bound = np.isfinite(rows_right)  # a row without one is never tight
    rows, rows_right, kept = rows[has_bound], rows_right[has_bound], m[has_bound]
    if not y.size or not kept.size:
        return None
    # A row may have been stated with the other sign than its multiplier in the equations.
    in_stationary, in_rows = sp.csc_array(stationary[:, kept]), sp.csc_array(rows[:, y].T)
    squares = np.asarray(in_rows.multiply(in_rows).sum(axis=0)).ravel()
    sign = np.asarray(in_stationary.multiply(in_rows).sum(axis=0)).ravel()
    sign = sign / np.where(squares > 0, squares, 1.0)
    difference = in_stationary - in_rows @ sp.diags_array(sign)
    size = 1 + np.abs(in_stationary.data).max(initial=0)
    if np.abs(difference.data).max(initial=0) > NO_MATTER * size:
        return None
    rows, rows_right = sp.diags_array(sign) @ rows, sign * rows_right
    follower = _followers(stationary, rows, n_x, y, kept)
    columns = np.ones(len(qp.q))
    columns[m] = 0.0
    stationary = stationary @ sp.diags_array(columns)
    columns = np.ones(len(qp.q))
    columns[y] = 0.0
    rows = sp.csr_array(rows @ sp.diags_array(columns))
    stationary.eliminate_zeros()
    rows.eliminate_zeros()
    n_pairs = int(has_bound[: len(conditions.rows)].sum())
    return DualityIdentity(
        y, sp.csr_array(stationary), qp.b_eq[equations[is_stationary]],
        kept, rows, rows_right, n_pairs, follower,
    )  # fmt: skip


def _followers(
    stationary: sp.csr_array, rows: sp.csr_array, n_x: int, y: Array, m: Array
) -> tuple[Array, Array]:
    """Which entries of y and multipliers belong together: those that meet in a row, x apart."""
    incidence = sp.csr_array(sp.vstack([stationary, rows]))[:, n_x:]
    n_forms = incidence.shape[0]
    owners = sp.csr_array(
        (np.ones(n_forms), (np.arange(n_forms), np.concatenate([y, m]) - n_x)), shape=incidence.shape
    )
    meet = abs(incidence) + owners
    graph = sp.block_array([[None, meet], [meet.T, None]], format="csr")
    label = connected_components(graph, directed=False)[1][:n_forms]
    return label[: y.size], label[y.size :]


class _Enclosure:
    """Collects unknowns and rows that are to be added."""

    def __init__(
        self, qp: ComplementarityQP, model: Model, identity: DualityIdentity, deadline: Deadline
    ) -> None:
        self.deadline = deadline
        self.qp, self.n_x, self.identity = qp, model.x.size, identity
        self.n = len(qp.q)
        self.program = _relaxation(qp)
        self.ranges: dict[int, tuple[float, float]] = {}
        self.products: dict[tuple[int, int], int] = {}  # of two entries of z: where it stands
        self.below: list[tuple[dict[int, float], float]] = []  # rows that are at most a number

    def extended(self) -> ComplementarityQP:
        """The problem with what was found."""
        for follower in np.unique(self.identity.follower[0]):
            self._add_follower(int(follower))
        if not self.below:
            return self.qp
        qp, n = self.qp, self.n + len(self.products)
        n_new = n - self.n
        below = _matrix([row for row, _ in self.below], n)

        def padded(matrix: Any) -> sp.csr_array:
            empty = sp.csr_array((matrix.shape[0], n_new), dtype=float)
            return sp.csr_array(sp.hstack([sp.csr_array(matrix), empty]))

        P = sp.csc_array(sp.block_diag([sp.csc_array(qp.P), sp.csc_array((n_new, n_new), dtype=float)]))
        return dataclasses.replace(
            qp,
            P=P,
            q=np.concatenate([qp.q, np.zeros(n_new)]),
            A_eq=sp.csc_array(padded(qp.A_eq)),
            A_in=sp.csc_array(sp.vstack([padded(qp.A_in), below])),
            b_in=np.concatenate([qp.b_in, [right for _, right in self.below]]),
        )

    def _add_follower(self, follower: int) -> None:
        identity, n_x = self.identity, self.n_x
        row: dict[int, float] = {}
        has_left_out = False
        products = []
        for j in np.flatnonzero(identity.follower[0] == follower).tolist():
            entry = int(identity.y[j])
            row[entry] = row.get(entry, 0.0) - identity.stationary_right[j]
            columns, slopes = _entries(identity.stationary, j)
            has_left_out |= bool(np.any(columns >= n_x))  # y'Hy, which is not negative
            products += [
                (int(i), entry, slope)
                for i, slope in zip(columns, slopes, strict=True)
                if i < n_x and slope != 0.0
            ]
        for k in np.flatnonzero(identity.follower[1] == follower).tolist():
            entry = int(identity.m[k])
            columns, slopes = _entries(identity.rows, k)
            reach = 0.0
            if columns.size:
                if k >= identity.n_pairs or np.any(columns >= n_x):
                    return  # a multiplier without a sign, times x
                reach = self._largest(columns, slopes)
                has_left_out = True
                if not np.isfinite(reach):
                    return
            row[entry] = row.get(entry, 0.0) + identity.rows_right[k] - reach
        enclosed = [self._enclose(i, j) for i, j, _ in products]
        if not all(enclosed):
            return
        for i, j, slope in products:
            place = self.products[i, j]
            row[place] = row.get(place, 0.0) + slope
        room = ROOM * (1 + max((abs(slope) for slope in row.values()), default=0.0))
        self.below.append((row, room))
        if not has_left_out:
            self.below.append(({place: -slope for place, slope in row.items()}, room))

    def _enclose(self, i: int, j: int) -> bool:
        """An unknown for a product; whether it is bounded from both sides."""
        if (i, j) in self.products:
            return True
        one, other = self._range(i), self._range(j)
        w = self.n + len(self.products)
        planes: list[tuple[dict[int, float], float]] = []
        for a in (0, 1):
            for b in (0, 1):
                # (z_i - one)(z_j - other) is at least 0 at equal ends, else at most 0.
                if np.isfinite(one[a]) and np.isfinite(other[b]):
                    sign = -1.0 if a == b else 1.0
                    planes.append(
                        ({w: sign, i: -sign * other[b], j: -sign * one[a]}, -sign * one[a] * other[b])
                    )
        sides = {plane[w] for plane, _ in planes}
        if len(sides) < 2:
            return False
        self.products[i, j] = w
        self.below += planes
        return True

    def _range(self, entry: int) -> tuple[float, float]:
        """Ends of an unknown over the relaxation, with room for rounding."""
        if entry not in self.ranges:
            here, one = np.array([entry]), np.ones(1)
            self.ranges[entry] = -self._largest(here, -one), self._largest(here, one)
        return self.ranges[entry]

    def _largest(self, columns: Array, slopes: Array) -> float:
        """An upper bound of a linear function over the relaxation; infinite where there is none."""
        cost = np.zeros(self.program.n)
        cost[columns] = -slopes
        least = self.program.minimise(cost, self.deadline)
        return -least.value + SAFE * (1 + abs(least.value)) if least.has_point else np.inf


def _entries(matrix: sp.csr_array, row: int) -> tuple[Array, Array]:
    here = slice(matrix.indptr[row], matrix.indptr[row + 1])
    return matrix.indices[here], matrix.data[here]


def _matrix(rows: list[dict[int, float]], n: int) -> sp.csr_array:
    lengths = [len(row) for row in rows]
    where = np.repeat(np.arange(len(rows)), lengths)
    columns = np.array([column for row in rows for column in row], dtype=int)
    data = np.array([value for row in rows for value in row.values()], dtype=float)
    return sp.csr_array((data, (where, columns)), shape=(len(rows), n))


def _relaxation(qp: ComplementarityQP) -> BoundedProgram:
    """The points that satisfy all but complementarity."""
    low, high = np.full(len(qp.q), -np.inf), np.full(len(qp.q), np.inf)
    low[qp.columns] = 0.0
    return BoundedProgram(qp.A_eq, qp.b_eq, qp.A_in, qp.b_in, low, high)
