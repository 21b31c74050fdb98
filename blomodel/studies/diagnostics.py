"""What the papers measure at a point or along a run: stationarity, flatness, local constants.

Each function takes the problem and a point (values of the upper and of the lower variables, as
``bm.certify`` takes them) and returns a small record whose ``print`` is one or two sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blomodel.basics import limits
from blomodel.compiler.passes.derivatives import gradient, hessian, jvp
from blomodel.declare.point import Point, read_level
from blomodel.errors import LowerLevelError, ModelError, NonconvexLowerError
from blomodel.model.model import Model
from blomodel.reformulations.forms.reduced_penalty import ReducedPenalty
from blomodel.structure.flatness import Flatness, _penalised_answer, flatness_of_model

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem


@dataclass(frozen=True)
class GaletMeasures:
    """The stationarity measure of GALET (eq. 8): all three vanish at a solution.

    Attributes
    ----------
    r_x : float
        Squared norm of grad_x f + g_xy w.
    r_w : float
        Squared norm of g_yy (grad_y f + g_yy w).
    r_y : float
        g(x, y) less the lower level's optimal value.
    w : array
        The shadow implicit gradient.
    """

    r_x: float
    r_w: float
    r_y: float
    w: np.ndarray

    def __str__(self) -> str:
        return f"R_x = {self.r_x:.3g}, R_w = {self.r_w:.3g}, R_y = {self.r_y:.3g}"


@dataclass(frozen=True)
class LocalConstants:
    """Constants of the lower objective in y near a point, constraints left aside.

    Attributes
    ----------
    polyak : float
        Smallest ||grad_y g||^2 / (2 (g - v)) over the points looked at; 0: no PL inequality.
    smoothness : float
        Largest ratio of gradient differences, or curvature, over the points looked at.
    strong_convexity : float
        Smallest eigenvalue of g_yy at the point.
    radius : float
        How far from the point was looked.
    """

    polyak: float
    smoothness: float
    strong_convexity: float
    radius: float

    def __str__(self) -> str:
        return (
            f"Within {self.radius:g} of y: PL constant {self.polyak:.3g}, smoothness "
            f"{self.smoothness:.3g}, smallest curvature at y {self.strong_convexity:.3g}."
        )


@dataclass(frozen=True)
class PenaltySmoothness:
    """Smoothness of F_gamma along a trajectory: largest ratio of gradient differences."""

    smoothness: float
    gamma: float
    ratios: np.ndarray

    def __str__(self) -> str:
        return (
            f"Along {len(self.ratios)} steps the gradient of F_gamma, gamma = {self.gamma:g}, changes "
            f"at most {self.smoothness:.3g} times as much as x: steps up to {1 / self.smoothness:.3g}."
            if self.smoothness > 0
            else f"The gradient of F_gamma, gamma = {self.gamma:g}, does not change along the steps."
        )


def _vectors(problem: BilevelProblem, x: object, y: object) -> tuple[np.ndarray, np.ndarray]:
    problem.check_data()
    point = Point.read(problem.levels, x, y, "diagnostics")
    return point.x, point.y


def galet_measures(
    problem: BilevelProblem, x: object, y: object, w: np.ndarray | None = None
) -> GaletMeasures:
    """GALET's R_x, R_w and R_y at a point; without ``w``, at the w that makes R_w least."""
    at_x, at_y = _vectors(problem, x, y)
    model, p = problem.plain_model, problem.parameter_values()
    slope = model.f_grad(at_x, at_y, p)
    slope_x, slope_y = slope[: at_x.size], slope[at_x.size :]
    curve = jvp(gradient(model.g, ("y",)), ("y",))
    cross = jvp(gradient(model.g, ("x",)), ("y",))
    if w is None:
        w = _shadow_gradient(model, at_x, at_y, p, slope_y)
    inner = slope_y + curve(at_x, at_y, p, w)
    r_w = curve(at_x, at_y, p, inner)
    r_x = slope_x + cross(at_x, at_y, p, w)  # (8a)
    value = _lower_value(model, at_x, at_y, p)
    return GaletMeasures(
        r_x=float(r_x @ r_x),
        r_w=float(r_w @ r_w),  # (8b)
        r_y=max(0.0, float(model.g(at_x, at_y, p)[0]) - value),  # (8c)
        w=w,
    )


def _shadow_gradient(
    model: Model, x: np.ndarray, y: np.ndarray, p: np.ndarray, slope_y: np.ndarray
) -> np.ndarray:
    """w of least norm that minimises ||grad_y f + g_yy w||."""
    if limits.DENSE_SHADOW.allows(y.size):
        matrix = hessian(model.g, ("y",), (x, y, p)).toarray()
        return -np.linalg.pinv(matrix, rcond=1e-10, hermitian=True) @ slope_y
    from scipy.sparse.linalg import LinearOperator, lsmr

    curve = jvp(gradient(model.g, ("y",)), ("y",))

    def times(vector: np.ndarray) -> np.ndarray:
        return curve(x, y, p, np.ravel(vector))

    operator = LinearOperator((y.size, y.size), matvec=times, rmatvec=times, dtype=float)
    return np.asarray(lsmr(operator, -slope_y, atol=1e-12, btol=1e-12, maxiter=5000)[0])


def _lower_value(model: Model, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> float:
    answer, _ = model.solve_lower(x, p, y)
    if not answer.status.has_point:
        raise LowerLevelError(f"The lower level is {answer.status.value} at this x.", x)
    return answer.value


def flatness(
    problem: BilevelProblem,
    x: object,
    y: object | None = None,
    *,
    alpha: float = 1.5,
    modulus: float = 1.0,
    gamma: float = 10.0,
) -> Flatness:
    """The (delta, alpha)-flatness of f at the lower answer y*(x).

    Parameters
    ----------
    y : optional
        The lower answer at x, when it is known.
    alpha, modulus : float
        Exponent and modulus c, fixed beforehand; delta follows from them.
    gamma : float
        Penalty weight of the answer that the lower answer is compared with.
    """
    problem.check_data()
    model, p = problem.plain_model, problem.parameter_values()
    at_x = read_level(problem.levels, "upper", x, "diagnostics")
    at_y = None if y is None else read_level(problem.levels, "lower", y, "diagnostics")
    return flatness_of_model(model, p, at_x, at_y, alpha=alpha, modulus=modulus, gamma=gamma)


def local_constants(
    problem: BilevelProblem,
    x: object,
    y: object,
    *,
    radius: float = 1.0,
    samples: int = 50,
    seed: int = 0,
) -> LocalConstants:
    """PL and smoothness constants of g in y, from points within ``radius`` of y."""
    at_x, at_y = _vectors(problem, x, y)
    model, p = problem.plain_model, problem.parameter_values()
    slope_of = gradient(model.g, ("y",))
    random = np.random.default_rng(seed)
    v = _lower_value(model, at_x, at_y, p)
    here = slope_of(at_x, at_y, p)
    polyak, smoothness = np.inf, 0.0
    scale = 1e-12 * (1 + abs(v))
    for k in range(samples + 1):
        direction = random.standard_normal(at_y.size)
        length = radius * random.random() if k else 0.0
        point = at_y + length * direction / np.linalg.norm(direction)
        slope, value = slope_of(at_x, point, p), float(model.g(at_x, point, p)[0])
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            continue
        if value - v > scale:
            polyak = min(polyak, float(slope @ slope) / (2 * (value - v)))
        if length > 0:
            smoothness = max(smoothness, float(np.linalg.norm(slope - here)) / length)
    lowest = np.nan
    if limits.DENSE_SHADOW.allows(at_y.size):
        values = np.linalg.eigvalsh(hessian(model.g, ("y",), (at_x, at_y, p)).toarray())
        lowest, smoothness = float(values[0]), max(smoothness, float(np.abs(values).max()))
    return LocalConstants(
        polyak=polyak if np.isfinite(polyak) else 0.0,
        smoothness=smoothness,
        strong_convexity=lowest,
        radius=radius,
    )


def penalty_smoothness(
    problem: BilevelProblem, points: Sequence[object], gamma: float = 10.0
) -> PenaltySmoothness:
    """Smoothness of F_gamma along the upper points given, such as a method's history of x."""
    problem.check_data()
    model, p = problem.plain_model, problem.parameter_values()
    vectors = [read_level(problem.levels, "upper", point, "diagnostics") for point in points]
    if len(vectors) < 2:
        raise ModelError("penalty_smoothness needs at least two points.")
    gradients = [_penalty_gradient(model, p, x, gamma) for x in vectors]
    ratios = []
    for k in range(len(vectors) - 1):
        moved = float(np.linalg.norm(vectors[k + 1] - vectors[k]))
        if moved > 0:
            ratios.append(float(np.linalg.norm(gradients[k + 1] - gradients[k])) / moved)
    return PenaltySmoothness(max(ratios, default=0.0), gamma, np.array(ratios))


def _penalty_gradient(model: Model, p: np.ndarray, x: np.ndarray, gamma: float) -> np.ndarray:
    try:
        evaluation = ReducedPenalty(model, p)(x, gamma)
        if evaluation.is_finite:
            return evaluation.gradient
        raise LowerLevelError(f"F_gamma has no value at x = {x}.", x)
    except NonconvexLowerError:
        rows = (model.lower_in.tape, model.lower_eq.tape)
        if any(tape is not None and tape.depends_on("x") for tape in rows):
            raise
    answer, _ = model.solve_lower(x, p, np.zeros(model.y.size))
    if not answer.status.has_point:
        raise LowerLevelError(f"The lower level is {answer.status.value} at this x.", x)
    penalised = _penalised_answer(model, p, x, answer.y, gamma)
    n_x = x.size
    change = model.g_grad(x, penalised, p)[:n_x] - model.g_grad(x, answer.y, p)[:n_x]
    return model.f_grad(x, penalised, p)[:n_x] + gamma * change
