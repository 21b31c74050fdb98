"""Where a model lies: a point near its answers, and how far from it they may be.

The middle of X and the lower answer there move with the model when all of it is moved, and so does what
is found here. Where a range has two ends it is asked alone. Elsewhere an upper variable is near the
point at which both objectives have no slope and rows hold, by least squares, and a lower one near the
lower answer there; these are asked only where coefficients show that they are far from zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, lsmr

from blomodel.basics import limits
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.compiler.passes.derivatives import jvp
from blomodel.compiler.tape import Tape
from blomodel.model.model import Model
from blomodel.transformations.ranges import At, Line, implied_ranges, middle_of
from blomodel.transformations.units import slope_there

FAR = 2.0**13  # as in ``scales``: what lies beyond may be far from zero
ROUNDS = 40  # of least squares at most; one does where slopes are linear, and curved rows halve the way
LOOKS = 3  # lower answers elsewhere in X


@dataclass(frozen=True)
class Whereabouts:
    """Of x, then y: a point, and by how much entries vary around it (inf: not known)."""

    point: np.ndarray
    spread: np.ndarray


def find_whereabouts(model: Model, p: np.ndarray, deadline: Deadline = NEVER) -> Whereabouts:
    """Look at the ranges of a model's variables, and at lower answers where these have none."""
    low, high = implied_ranges(model, p)
    point = middle_of(low, high)
    has_range = np.isfinite(low) & np.isfinite(high)
    spread = np.where(has_range, np.where(has_range, high, 0.0) - np.where(has_range, low, 0.0), np.inf)
    found = _Search(model, p, point, spread, low, high, deadline)
    if not has_range.all() and found.is_far():
        found.search(~has_range)
        if not has_range[model.x.size :].all():
            found.ask_below(~has_range[model.x.size :])
    return Whereabouts(found.point, found.spread)


class _Search:
    """A point and spreads that become known entry by entry."""

    def __init__(
        self,
        model: Model,
        p: np.ndarray,
        point: np.ndarray,
        spread: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        deadline: Deadline,
    ) -> None:
        self.model, self.p = model, p
        self.point, self.spread = point, spread
        self.low, self.high = low, high
        self.deadline = deadline

    @property
    def at(self) -> At:
        n_x = self.model.x.size
        return self.point[:n_x], self.point[n_x:], self.p

    def is_far(self) -> bool:
        """Whether a row or a slope of an objective is met only far from here."""
        model, at = self.model, self.at
        for rows in (model.upper_in, model.upper_eq, model.lower_in, model.lower_eq):
            if not len(rows):
                continue
            line = Line.of(rows, at)
            largest = abs(sp.csr_array(line.slopes)).max(axis=1).toarray().ravel()
            # A row that is flat here, as a square is at zero, says nothing of where it is met.
            if np.any((np.abs(line.constants) > FAR * largest) & (largest > 0.0)):
                return True
        return any(np.abs(_step_down(slope, at)).max(initial=0.0) > FAR for slope in self._slopes)

    @property
    def _slopes(self) -> list[Tape]:
        """Of the objectives that decide entries without a range."""
        model, is_free = self.model, np.isinf(self.high - self.low)
        of_levels = ((model.f_grad, is_free[: model.x.size]), (model.g_grad, is_free[model.x.size :]))
        return [slope for slope, free in of_levels if free.any()]

    def search(self, is_free: np.ndarray) -> None:
        """Move to where slopes vanish and rows hold, in the entries without a range."""
        for _ in range(ROUNDS):
            step = self._least_squares(is_free)
            if step is None:
                break
            self.point = np.clip(self.point + step, self.low, self.high)
            if np.abs(step).max(initial=0.0) <= 1.0:
                break
        around = [np.abs(_step_down(slope, self.at)) for slope in self._slopes]
        self.spread[is_free] = np.max(around, axis=0)[is_free]

    def _least_squares(self, is_free: np.ndarray) -> np.ndarray | None:
        """One step: f has no slope in what is free, g has none in y, equations and broken rows hold."""
        model, at, z = self.model, self.at, self.point
        below = np.arange(is_free.size) >= model.x.size
        rows = self._broken_rows()
        products = [(jvp(slope, ("x", "y")), mask) for slope, mask in self._masked(is_free, below)]
        left = [slope(*at)[mask] for slope, mask in self._masked(is_free, below)]
        left += [value for _, value in rows]
        sizes = np.cumsum([0, *map(len, left)])

        def times(v: np.ndarray) -> np.ndarray:
            full = np.zeros(z.size)
            full[is_free] = np.ravel(v)
            parts = [product(*at, full)[mask] for product, mask in products]
            return np.concatenate([*parts, *(matrix @ full for matrix, _ in rows)])

        def transposed(w: np.ndarray) -> np.ndarray:
            total, w = np.zeros(z.size), np.ravel(w)
            for k, (product, mask) in enumerate(products):
                full = np.zeros(z.size)
                full[mask] = w[sizes[k] : sizes[k + 1]]
                total += product(*at, full)  # second derivatives are symmetric
            for k, (matrix, _) in enumerate(rows, start=len(products)):
                total += matrix.T @ w[sizes[k] : sizes[k + 1]]
            return total[is_free]

        shape = (int(sizes[-1]), int(is_free.sum()))
        right = -np.concatenate(left)
        if not np.all(np.isfinite(right)) or not right.any():
            return None
        operator = LinearOperator(shape, times, rmatvec=transposed, dtype=float)
        found = lsmr(operator, right, atol=1e-10, btol=1e-10, maxiter=200)[0]
        if not np.all(np.isfinite(found)):
            return None
        step = np.zeros(z.size)
        step[is_free] = found
        return step

    def _broken_rows(self) -> list[tuple[sp.csr_array, np.ndarray]]:
        """Slopes and values of equations, and of inequalities that do not hold here."""
        model, found = self.model, []
        kinds = (model.upper_in, model.lower_in, model.upper_eq, model.lower_eq)
        for rows, is_equality in zip(kinds, (False, False, True, True), strict=True):
            if len(rows):
                line = rows.linearise(*self.at)
                slopes = sp.csr_array(sp.hstack([line.in_x, line.in_y]))
                broken = np.full(len(rows), True) if is_equality else line.value > 0.0
                found.append((slopes[broken], line.value[broken]))
        return found

    def _masked(self, is_free: np.ndarray, below: np.ndarray) -> list[tuple[Tape, np.ndarray]]:
        return [(self.model.f_grad, is_free), (self.model.g_grad, is_free & below)]

    def ask_below(self, is_free: np.ndarray) -> None:
        """The lower answer here, and how far it moves with x, for entries of y without a range."""
        n_x = self.model.x.size
        answer = self._answer(self.point[:n_x])
        if answer is None:
            return
        moved = np.zeros(answer.size)
        random = np.random.default_rng(0)
        width = np.where(np.isfinite(self.spread[:n_x]), self.spread[:n_x], 1.0)
        for _ in range(LOOKS):
            x = self.point[:n_x] + width * random.uniform(-0.5, 0.5, n_x)
            x = np.clip(x, self.low[:n_x], self.high[:n_x])
            other = self._answer(x)
            if other is not None:
                moved = np.maximum(moved, np.abs(other - answer))
        mine = np.flatnonzero(is_free)
        self.point[n_x + mine], self.spread[n_x + mine] = answer[mine], moved[mine]

    def _answer(self, x: np.ndarray) -> np.ndarray | None:
        near = self.point[self.model.x.size :]
        answer, _ = self.model.solve_lower(x, self.p, near, deadline=self.deadline)
        return answer.y if np.isfinite(answer.value) and np.all(np.isfinite(answer.y)) else None


def _step_down(slope: Tape, at: At) -> np.ndarray:
    """The move along a slope that ends where it would vanish, if it fell as it does here; else zeros."""
    here = slope_there(slope, *at)
    size = float(np.abs(here).max(initial=0.0))
    # A slope below one leads far only where curvature is next to nothing: not asked with large data.
    least = 0.0 if limits.FEW_LOOKS.allows(slope.n_products) else 1.0
    if not least < size < np.inf:
        return np.zeros(here.size)
    direction = here / size
    bend = float(direction @ jvp(slope, ("x", "y"))(*at, direction))
    length = size * float(direction @ direction) / bend if np.isfinite(bend) and bend > 0.0 else 0.0
    return direction * length
