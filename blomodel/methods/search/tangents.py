"""A bound from tangents: what the upper level could wish for, where f is convex in x and y together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from blomodel.methods.run.run import Run
from blomodel.model.rows import Rows
from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.highs import BoundedProgram
from blomodel.structure.joint_convexity import convex_constraints

Array = np.ndarray
SAFE = 1e-8  # relative: what the tolerances of the linear program may cost in a bound
MAX_ROUNDS = 20  # linear programs of one call
CLOSED = 0.1  # share of the gap that a round must close for another one
INWARDS = 0.5  # a tangent is taken so far from the linear program's point to the best one


class Tangents:
    """Minimises the tangents of f over what is convex of both levels' constraints.

    f lies above each of its tangents and convex rows above theirs, so that the least value of a linear
    program bounds f at every point of the problem. At a point that minimises f over the constraints of
    both levels its own tangent is enough.
    """

    groups: list[tuple[Rows, Array, bool]]
    n_x: int
    n: int

    def __init__(self, run: Run) -> None:
        model, p = run.model, run.p
        self.run = run
        upper = convex_constraints(model, p, model.upper_constraints)
        lower = convex_constraints(model, p, model.lower_constraints)
        self.groups = [
            (rows, _mask(rows, kept), is_equality)
            for rows, kept, is_equality in (
                (model.upper_eq, upper, True),
                (model.lower_eq, lower, True),
                (model.upper_in, upper, False),
                (model.lower_in, lower, False),
            )
        ]
        self.n_x, self.n = model.x.size, model.x.size + model.y.size
        self.equal: list[tuple[sp.csr_array, Array]] = []
        self.inside: list[tuple[sp.csr_array, Array]] = []

    def bound_at_the_best(self) -> float:
        """The bound that tangents at the best point and around it give; -inf where they give none."""
        run = self.run
        best = run.best()
        if best is None:
            return -np.inf
        middle = np.concatenate([best.x, best.y])
        bound, point = -np.inf, middle
        for _ in range(MAX_ROUNDS):
            run.check_limits()
            if not self._touch(point):
                break
            answer = self._program().minimise(np.append(np.zeros(self.n), 1.0))
            if answer.status is not InnerStatus.OPTIMAL:
                break
            before, bound = bound, max(bound, answer.value - SAFE * (1 + abs(answer.value)))
            gap = best.value - bound
            if gap <= run.tolerance * (1 + abs(best.value)):
                break
            if np.isfinite(before) and bound - before < CLOSED * gap:
                break
            point = middle + INWARDS * (answer.y[:-1] - middle)
        return bound

    def _touch(self, z: Array) -> bool:
        """Add the tangents at a point; whether there were any."""
        model, p = self.run.model, self.run.p
        x, y = z[: self.n_x], z[self.n_x :]
        with np.errstate(all="ignore"):
            value, slope = float(model.f(x, y, p)[0]), model.f_grad(x, y, p)
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            return False
        self.inside.append(
            (sp.csr_array(np.append(slope, -1.0)[None, :]), np.array([slope @ z - value]))
        )
        is_first = len(self.inside) == 1
        for matrix, right, is_equality in self._linearised(x, y, is_first=is_first):
            usable = np.isfinite(right) & np.isfinite(np.asarray(matrix.sum(axis=1)).ravel())
            (self.equal if is_equality else self.inside).append((matrix[usable], right[usable]))
        return True

    def _linearised(
        self, x: Array, y: Array, *, is_first: bool
    ) -> Iterator[tuple[sp.csr_array, Array, bool]]:
        for rows, kept, is_equality in self.groups:
            if not kept.size or (not is_first and (is_equality or rows.is_affine)):
                continue  # the same everywhere
            linear = rows.linearise(x, y, self.run.p)
            empty = sp.csr_array((kept.size, 1), dtype=float)
            slopes = sp.csr_array(sp.hstack([linear.in_x[kept], linear.in_y[kept], empty]))
            right = slopes @ np.concatenate([x, y, [0.0]]) - linear.value[kept]
            yield slopes, right, is_equality

    def _program(self) -> BoundedProgram:
        nothing = (sp.csr_array((0, self.n + 1), dtype=float), np.zeros(0))
        A_eq, b_eq = _stacked([nothing, *self.equal])
        A_in, b_in = _stacked([nothing, *self.inside])
        anything = np.full(self.n + 1, np.inf)
        return BoundedProgram(A_eq, b_eq, A_in, b_in, -anything, anything)


def _mask(rows: Rows, kept: set[int]) -> Array:
    """The rows of the constraints that are kept, but for those of matrices."""
    chosen = [
        np.arange(where.start, where.stop) for position, where in rows.slices.items() if position in kept
    ]
    return np.concatenate([np.empty(0, int), *chosen])


def _stacked(parts: list[tuple[sp.csr_array, Array]]) -> tuple[sp.csr_array, Array]:
    return (
        sp.csr_array(sp.vstack([matrix for matrix, _ in parts])),
        np.concatenate([right for _, right in parts]),
    )
