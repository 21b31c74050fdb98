"""Curvature constants of a problem near a point, from which default step sizes follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blomodel.basics import limits
from blomodel.compiler.passes.derivatives import gradient, jvp
from blomodel.compiler.tape import Tape
from blomodel.model.oracle import Oracle
from blomodel.structure.prox_terms import SplitObjective

ITERATIONS = 30  # of each power iteration; about two digits, which is what a step size needs
FEW_ITERATIONS = 10  # about one digit, where each costs as much as an iteration of the method
ACCURACY = 1e-3
RADII = (1.0, 3.0, 0.3)  # how far from the start curvature is looked at
SMALL = 1e-12  # curvature below this counts as none
LOWER_ACCURACY = 0.01  # y is found until its slope is this part of the slope in x
MANY_LOWER_STEPS = 500  # in y at most, where they go on until y is accurate

Points = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Constants:
    """Largest curvatures of f and g over the points looked at.

    Attributes
    ----------
    g_yy, g_xx, f_yy, f_xx : float
        Largest absolute eigenvalue of the Hessian in that block.
    g_xy, f_xy : float
        Norm of the mixed second derivative.
    strong_convexity : float
        Smallest eigenvalue of the lower Hessian in y; negative where g is not convex.
    """

    g_yy: float
    g_xx: float
    g_xy: float
    f_yy: float
    f_xx: float
    f_xy: float
    strong_convexity: float

    def merged(self, other: Constants) -> Constants:
        """The worse of both in every respect."""
        values = {name: max(value, getattr(other, name)) for name, value in vars(self).items()}
        values["strong_convexity"] = min(self.strong_convexity, other.strong_convexity)
        return Constants(**values)

    @property
    def is_strongly_convex(self) -> bool:
        """Whether the lower Hessian is safely positive definite at the points looked at."""
        return self.strong_convexity > 1e-6 * max(self.g_yy, SMALL)

    @property
    def sensitivity(self) -> float:
        """Bound on how fast the lower answer moves with x; 0 where it says nothing."""
        return self.g_xy / self.strong_convexity if self.is_strongly_convex else 0.0

    @property
    def upper_curvature(self) -> float:
        """Curvature of f(x, y*(x)) as far as f's second derivatives and the sensitivity tell."""
        moved = self.sensitivity
        return self.f_xx + 2 * self.f_xy * moved + self.f_yy * moved**2

    @property
    def weak_convexity(self) -> float:
        """How nonconvex g is in y: the rho of weak convexity, 0 for convex g."""
        return max(0.0, -self.strong_convexity)


def estimate_constants(
    oracle: Oracle,
    x: np.ndarray,
    y: np.ndarray,
    seed: int,
    *,
    n_points: int | None = None,
    place: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None,
) -> Constants:
    """Estimate the constants at (x, y) and at points around it.

    Parameters
    ----------
    oracle : Oracle
    x, y : array
        Where the method starts.
    seed : int
        Of the random vectors.
    n_points : int
        Number of points looked at, the start among them; fewer in large problems by default, and one
        where an evaluation is dear: the estimate should cost little beside the iterations.
    place : callable, optional
        Moves a point into the sets X and Y.
    """
    random = np.random.default_rng(seed)
    f, g, p = oracle.model.f, oracle.g_tape, oracle.p
    is_dear = not limits.CHEAP_EVALUATION.allows(f.n_products + g.n_products)
    if n_points is None:
        n_points = 1 if is_dear else 8 if x.size + y.size <= 10_000 else 3
    points = _points(x, y, n_points, random, place)
    count = FEW_ITERATIONS if is_dear else ITERATIONS
    g_yy = g_xx = g_xy = f_yy = f_xx = f_xy = 0.0
    smallest = np.inf
    for x_at, y_at in points:
        at = (x_at, y_at, p)
        top = _largest_eigenvalue(g, "y", at, random, count)
        g_yy, g_xx = max(g_yy, top), max(g_xx, _largest_eigenvalue(g, "x", at, random, count))
        f_yy = max(f_yy, _largest_eigenvalue(f, "y", at, random, count))
        f_xx = max(f_xx, _largest_eigenvalue(f, "x", at, random, count))
        g_xy = max(g_xy, _mixed_norm(g, at, random, count))
        f_xy = max(f_xy, _mixed_norm(f, at, random, count))
        smallest = min(smallest, _smallest_eigenvalue(g, "y", at, top, random))
    return Constants(
        g_yy=g_yy,
        g_xx=g_xx,
        g_xy=g_xy,
        f_yy=f_yy,
        f_xx=f_xx,
        f_xy=f_xy,
        strong_convexity=smallest if np.isfinite(smallest) else 0.0,
    )


def envelope_curvature(oracle: Oracle, x: np.ndarray, y: np.ndarray, gamma: float, seed: int) -> float:
    """Largest eigenvalue of G_xy (G_yy + I / gamma)^-1 G_yx: the Moreau penalty's curvature in x."""
    g, at = oracle.g_tape, (x, y, oracle.p)
    forward, back = _hessian_action(g, "y", "x", at), _hessian_action(g, "x", "y", at)
    curvature = _hessian_action(g, "y", "y", at)
    if forward is None or back is None:
        return 0.0

    def shifted(v: np.ndarray) -> np.ndarray:
        return v / gamma if curvature is None else curvature(v) + v / gamma

    return _power(lambda v: back(_solve(shifted, forward(v))), x.size, np.random.default_rng(seed))


def weights_curvature(
    split: SplitObjective, x: np.ndarray, y: np.ndarray, p: np.ndarray, gamma: float, seed: int
) -> float:
    """What weights w(x) of the nonsmooth part add to the Moreau penalty's curvature in x.

    A norm has slope 1 and theta answers a slope by at most gamma times as much: |w'|^2 gamma. It counts
    twice, since theta answers late, and steps up to the bound itself would go on swinging. Weights
    that are curved themselves add the sum of norm_k(y) w_k''.
    """
    if not split.weights.depends_on("x"):
        return 0.0
    random = np.random.default_rng(seed)
    forward, back = jvp(split.weights, ("x",)), split.weights_vjp
    bend, norms = jvp(back, ("x",)), split.penalties(y)
    slope_squared = _power(lambda v: back(x, y, p, forward(x, y, p, v)), x.size, random)
    return 2 * gamma * slope_squared + _power(lambda v: bend(x, y, p, norms, v), x.size, random)


def safe_step(curvature: float, fallback: float = 1.0) -> float:
    """One over a curvature, or the fallback where that is no number."""
    return 1.0 / curvature if np.isfinite(curvature) and curvature > SMALL else fallback


def _points(
    x: np.ndarray,
    y: np.ndarray,
    count: int,
    random: np.random.Generator,
    place: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]] | None,
) -> Points:
    points: Points = [(x, y)]
    for number in range(count - 1):
        radius = RADII[number % len(RADII)]
        near = (
            x + radius * random.standard_normal(x.size),
            y + radius * random.standard_normal(y.size),
        )
        points.append(near if place is None else place(*near))
    return points


def _hessian_action(
    tape: Tape, outer: str, inner: str, at: tuple[np.ndarray, ...]
) -> Callable[[np.ndarray], np.ndarray] | None:
    """A vector in ``inner`` times the second derivative in (outer, inner); None where it is zero."""
    if not (tape.depends_on(outer) and tape.depends_on(inner)):
        return None
    action = jvp(gradient(tape, (outer,)), (inner,))
    return lambda vector: action(*at, vector)


def _largest_eigenvalue(
    tape: Tape, block: str, at: tuple[np.ndarray, ...], random: np.random.Generator, count: int
) -> float:
    apply = _hessian_action(tape, block, block, at)
    return 0.0 if apply is None else _power(apply, tape.input_size(block), random, count)


def _smallest_eigenvalue(
    tape: Tape, block: str, at: tuple[np.ndarray, ...], largest: float, random: np.random.Generator
) -> float:
    """The largest eigenvalue of (largest I - H) tells the smallest one of H."""
    apply = _hessian_action(tape, block, block, at)
    if apply is None or largest <= SMALL:
        return 0.0
    shift = 1.01 * largest
    top = _power(lambda v: shift * v - apply(v), tape.input_size(block), random)
    return shift - top


def _mixed_norm(
    tape: Tape, at: tuple[np.ndarray, ...], random: np.random.Generator, count: int
) -> float:
    forward = _hessian_action(tape, "x", "y", at)
    back = _hessian_action(tape, "y", "x", at)
    if forward is None or back is None:
        return 0.0
    return float(np.sqrt(_power(lambda v: back(forward(v)), tape.input_size("y"), random, count)))


def _solve(apply: Callable[[np.ndarray], np.ndarray], right: np.ndarray) -> np.ndarray:
    """Conjugate gradients to the accuracy that a step size needs."""
    solution, residual = np.zeros_like(right), right.copy()
    search, square = right.copy(), float(right @ right)
    goal = ACCURACY**2 * square
    for _ in range(50):
        if not square > goal:
            break
        image = apply(search)
        curvature = float(search @ image)
        if not curvature > 0:
            break
        solution += square / curvature * search
        residual -= square / curvature * image
        before, square = square, float(residual @ residual)
        search = residual + square / before * search
    return solution


def _power(
    apply: Callable[[np.ndarray], np.ndarray],
    size: int,
    random: np.random.Generator,
    count: int = ITERATIONS,
) -> float:
    """Largest absolute eigenvalue of a symmetric map; points where it is not a number count as 0."""
    vector = random.standard_normal(size)
    length, estimate = float(np.linalg.norm(vector)), 0.0
    for _ in range(count):
        if not (np.isfinite(length) and length > SMALL):
            return estimate
        vector = apply(vector / length)
        before, length = estimate, float(np.linalg.norm(vector))
        if not np.isfinite(length):
            return before
        estimate = length
        if abs(estimate - before) <= ACCURACY * estimate:
            break
    return estimate
