"""Minimise a function with kinks over a box: quasi-Newton steps under weak Wolfe conditions.

A BFGS matrix with a line search that asks only for a decrease and for a slope that has risen copes with
kinks [1]_: the matrix learns the directions across which the slope jumps and steps along the others.
Where its line search fails, gradients from points nearby stand for the pieces that meet there; a
direction along which all of them fall leads on, or there is none and the point is stationary [2]_.

.. [1] Lewis, Overton. Nonsmooth optimization via quasi-Newton methods. Math. Program. 141 (2013).
.. [2] Burke, Lewis, Overton. A robust gradient sampling algorithm for nonsmooth, nonconvex optimization.
   SIAM J. Optim. 15 (2005).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
import scipy.sparse as sp

from blomodel.methods.search.evaluation import WithAnswer
from blomodel.solvers.convex_qp import solve_convex_qp

DECREASE, CURVATURE = 1e-4, 0.5  # of the weak Wolfe conditions
TRIALS = 25  # points of one line search
SAMPLES = 8  # gradients from points nearby, at least
RADII = (1e-3, 1e-5)  # of their distance, relative to the size of x
SHORTEST = 1e-10  # relative to the size of x

Found = TypeVar("Found", bound=WithAnswer)
Bounds = tuple[np.ndarray, np.ndarray]


def minimise_across_kinks(
    evaluate: Callable[[np.ndarray], Found],
    start: Found,
    bounds: Bounds,
    *,
    max_evaluations: int,
    tolerance: float = 1e-9,
    seed: int = 0,
) -> Found:
    """The best point that the descent from ``start`` has seen.

    Parameters
    ----------
    evaluate : callable
        The function at x, with the gradient of one piece where several meet.
    start : evaluation
        With a value and a gradient.
    bounds : tuple of arrays
        Every point that is asked for lies between them.
    max_evaluations : int
    tolerance : float
        Relative decrease of the function below which a round counts as none.
    """
    search = _KinkedDescent(evaluate, bounds, max_evaluations, seed)
    current = start
    for radius in RADII:
        while search.left > 0:
            before = current.value
            current = search.quasi_newton(current)
            current = search.sampled_step(current, radius)
            if before - current.value <= tolerance * (1 + abs(before)):
                break
    return current


class _KinkedDescent(Generic[Found]):
    def __init__(
        self,
        evaluate: Callable[[np.ndarray], Found],
        bounds: Bounds,
        max_evaluations: int,
        seed: int,
    ) -> None:
        self._evaluate, self.bounds, self.left = evaluate, bounds, max_evaluations
        self.draw = np.random.default_rng(seed)

    def at(self, x: np.ndarray) -> Found:
        """The function at the point of the box nearest to x."""
        self.left -= 1
        return self._evaluate(np.clip(x, *self.bounds))

    def quasi_newton(self, current: Found) -> Found:
        """BFGS in the variables that are not held by a bound."""
        n = current.x.size
        inverse: np.ndarray | None = None
        lower, upper = self.bounds
        while self.left > 0:
            gradient = current.gradient
            held = ((current.x <= lower) & (gradient > 0)) | ((current.x >= upper) & (gradient < 0))
            free = np.flatnonzero(~held)
            slope = gradient[free]
            if not len(free) or not np.abs(slope).max() > 0:
                return current
            if inverse is None:
                scale = 0.01 * (1 + np.abs(current.x).max()) / np.linalg.norm(slope)
                inverse = scale * np.eye(n)
            step = np.zeros(n)
            step[free] = -inverse[np.ix_(free, free)] @ slope
            if not step @ gradient < 0:
                return current
            following = self._line_search(current, step)
            if following is None:
                return current
            moved, turned = following.x - current.x, following.gradient - gradient
            along = float(moved @ turned)
            if along > 1e-14 * np.linalg.norm(moved) * np.linalg.norm(turned):
                image = inverse @ turned
                inverse = (
                    inverse
                    + np.outer(moved, moved) * (1 + float(turned @ image) / along) / along
                    - (np.outer(moved, image) + np.outer(image, moved)) / along
                )
            gain = current.value - following.value
            is_short = np.abs(moved).max() <= SHORTEST * (1 + np.abs(current.x).max())
            current = following
            if is_short or gain <= 1e-13 * (1 + abs(current.value)):
                return current
        return current

    def _line_search(self, current: Found, step: np.ndarray) -> Found | None:
        """A point with enough decrease, and if possible with a slope that has risen."""
        slope = float(current.gradient @ step)
        low, high, length = 0.0, np.inf, 1.0
        best: Found | None = None
        for _ in range(TRIALS):
            if self.left <= 0:
                break
            trial = self.at(current.x + length * step)
            moved = trial.x - current.x  # bounds may have cut it short
            expected = min(float(current.gradient @ moved), 0.0)
            if not trial.value < current.value + DECREASE * expected:
                high = length
            elif not _has_gradient(trial):
                return trial
            else:
                if best is None or trial.value < best.value:
                    best = trial
                is_cut = bool(np.any(moved != length * step))
                if is_cut or float(trial.gradient @ step) >= CURVATURE * slope:
                    return best
                low = length
            length = (low + high) / 2 if np.isfinite(high) else 2 * length
            if length * np.abs(step).max() <= SHORTEST * (1 + np.abs(current.x).max()):
                break
        return best

    def sampled_step(self, current: Found, radius: float) -> Found:
        """A step along which the gradients of points nearby all fall; the point itself without one."""
        n = current.x.size
        reach = radius * (1 + np.abs(current.x).max(initial=0))
        gradients = [current.gradient]
        for _ in range(min(max(SAMPLES, n + 1), 4 * SAMPLES)):
            if self.left <= 0:
                return current
            nearby = self.at(current.x + reach * self.draw.uniform(-1, 1, n))
            if nearby.value < current.value:
                return nearby  # lucky
            if nearby.is_finite and _has_gradient(nearby):
                gradients.append(nearby.gradient)
        direction = _common_descent(np.array(gradients), current.x, self.bounds, reach)
        if direction is None:
            return current
        for length in (100.0, 10.0, 1.0, 0.1, 0.01):
            if self.left <= 0:
                break
            trial = self.at(current.x + length * direction)
            if trial.value < current.value:
                return trial
        return current


def _has_gradient(found: WithAnswer) -> bool:
    return bool(np.abs(found.gradient).max(initial=0) > 0)


def _common_descent(
    gradients: np.ndarray, x: np.ndarray, bounds: Bounds, reach: float
) -> np.ndarray | None:
    """The step within reach along which the slowest of the gradients falls fastest."""
    n = x.size
    size = float(np.abs(gradients).max())
    if size == 0.0:
        return None
    # Unknowns: the step in units of reach, and the largest slope along it.
    quadratic = sp.csc_array(sp.diags_array(np.append(np.full(n, 1e-3), 1e-9)))
    linear = np.append(np.zeros(n), 1.0)
    below = np.hstack([gradients / size, -np.ones((len(gradients), 1))])
    unit = np.hstack([np.eye(n), np.zeros((n, 1))])
    rows = sp.csc_array(np.vstack([below, unit, -unit]))
    room_up = np.minimum(1.0, (bounds[1] - x) / reach)
    room_down = np.minimum(1.0, (x - bounds[0]) / reach)
    right = np.concatenate([np.zeros(len(gradients)), room_up, room_down])
    answer = solve_convex_qp(
        quadratic, linear, sp.csc_array((0, n + 1)), np.zeros(0), rows, right, accuracy=1e-8
    )
    if not answer.has_point or answer.y[n] > -1e-9:
        return None
    return reach * answer.y[:n]
