"""An x of X at which a lower level that is quadratic in y is not convex in y, looked for by numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blomodel.basics import limits
from blomodel.errors import BlomodelError
from blomodel.programs.hoisting import Hoister
from blomodel.programs.parametric import ParametricProgram
from blomodel.programs.points import corner_points, generic_points

if TYPE_CHECKING:
    from blomodel.model.model import Model

NEGLIGIBLE = 1e-9  # curvature below this, relative to the largest one seen, is rounding
KEPT = 1e-9  # violation of an upper row, relative to x, that still counts as kept
N_RANDOM = 24  # further points of X where a Hessian is cheap
SWEEPS = 3  # over the entries of x, each moved to where the curvature along a direction is least


@dataclass(frozen=True)
class ConcaveX:
    """Where the lower objective is not convex in y, and the smallest eigenvalue there."""

    x: np.ndarray
    eigenvalue: float


def find_concave_x(model: Model, program: ParametricProgram, p: np.ndarray) -> ConcaveX | None:
    """An x of X with negative curvature below; None where none was seen.

    Looks at generic points and corners of the bounds on x, then moves from the least convex of them
    along the direction of least curvature. Only x that keep the upper rows without y count, so that
    ``x * y**2`` with ``x >= 0`` stays convex.
    """
    if not program.has_moving_hessian or model.x.size == 0:
        return None
    with np.errstate(invalid="ignore"):  # cvxpy multiplies infinite bounds by zero
        if Hoister(model.blocks, model.x_bounds)(model.g_expression).is_convex():
            return None  # by cvxpy's rules, with the signs that the bounds on x give
    look = _Look(model, program, p)
    low, high = model.bounds(p)
    points = [*corner_points(low, high), *generic_points(low, high)]
    if limits.CURVATURE_SAMPLES.allows(model.y.size):
        points += _random_points(low, high)
    seen = [found for point in points if (found := look.at(point)) is not None]
    if not seen:
        return None
    least = min(seen, key=lambda found: found.eigenvalue)
    if limits.CURVATURE_SAMPLES.allows(model.x.size) and limits.CURVATURE_SAMPLES.allows(model.y.size):
        least = look.descend(least, (low, high))
    return least if least.eigenvalue < -NEGLIGIBLE * look.scale else None


class _Look:
    """Curvatures of the lower objective at points of X."""

    def __init__(self, model: Model, program: ParametricProgram, p: np.ndarray) -> None:
        self.model, self.program, self.p = model, program, p
        self.scale = 0.0  # the largest curvature seen

    def at(self, x: np.ndarray) -> ConcaveX | None:
        """The smallest eigenvalue at x, or at the point of X nearest to it."""
        allowed = self._allowed(x)
        if allowed is None:
            return None
        matrix = self.program.hessian(allowed, self.p)
        if not np.isfinite(matrix.data).all():
            return None
        self.scale = max(self.scale, float(np.abs(matrix.data).max(initial=0.0)))
        # A Cholesky factor is cheaper than an eigenvalue, which matters in many variables only.
        is_small = limits.CURVATURE_SAMPLES.allows(self.model.y.size)
        if not is_small and self.program.is_convex(allowed, self.p):
            return ConcaveX(allowed, 0.0)
        return ConcaveX(allowed, self.program.convexity(allowed, self.p))

    def _allowed(self, x: np.ndarray) -> np.ndarray | None:
        if self._keeps_rows(x):
            return x
        try:
            near = self.model.projection_program.solve(np.empty(0), np.concatenate([self.p, x]))
        except BlomodelError:
            return None
        if not near.status.has_point:
            return None
        point = near.y[: x.size]
        return point if self._keeps_rows(point) else None

    def _keeps_rows(self, x: np.ndarray) -> bool:
        small = KEPT * (1 + np.abs(x).max(initial=0))
        return self.model.upper_violation_without_y(x, self.p) <= small

    def descend(self, best: ConcaveX, bounds: tuple[np.ndarray, np.ndarray]) -> ConcaveX:
        """Move entries of x to where the curvature along the least convex direction is smallest."""
        low, high = (corner_points(*bounds)[k] for k in (0, 2))
        for _ in range(SWEEPS):
            matrix = self.program.hessian(best.x, self.p).toarray()
            direction = np.linalg.eigh((matrix + matrix.T) / 2)[1][:, 0]
            x = best.x.copy()
            for k in range(x.size):
                tried = {
                    low[k],
                    high[k],
                    (low[k] + high[k]) / 2,
                    float(np.clip(0, low[k], high[k])),
                    x[k],
                }
                x[k] = min(sorted(tried), key=lambda at: self._along(direction, x, k, at))
            found = self.at(x)
            if found is None or not found.eigenvalue < best.eigenvalue:
                break
            best = found
        return best

    def _along(self, direction: np.ndarray, x: np.ndarray, k: int, at: float) -> float:
        moved = x.copy()
        moved[k] = at
        curvature = float(direction @ (self.program.hessian(moved, self.p) @ direction))
        return curvature if np.isfinite(curvature) else np.inf


def _random_points(low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """Points of the box, some with entries at its ends."""
    random = np.random.default_rng(21)
    first, _, last = corner_points(low, high)
    share = random.random((N_RANDOM, low.size))
    share[::2] = np.round(share[::2])
    return list(first + share * (last - first))
