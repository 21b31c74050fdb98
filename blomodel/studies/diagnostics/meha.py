"""Measures of the MEHA paper: the residual R_k of (15), the merit function V_k, theta's error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.optimize import lsq_linear

from blomodel.basics.memory import remembered
from blomodel.compiler.passes.derivatives import gradient, hessian, jacobian
from blomodel.errors import ModelError
from blomodel.kernels.prox import L1
from blomodel.model.model import Model
from blomodel.model.rows import Rows
from blomodel.reformulations.reformulation import Reformulation
from blomodel.structure.prox_terms import SplitObjective, split_objective
from blomodel.studies.diagnostics.points import Place, upper_floor

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

ACTIVE = 1e-8  # rows within this of their bound, relative to the point, count as active
ZERO = 1e-12  # entries and groups below this count as zero, where a norm has many slopes


@dataclass(frozen=True)
class MoreauMeasures:
    """What the MEHA paper follows along its iterations.

    Attributes
    ----------
    residual : float
        R_k of (15): distance of 0 from the slopes of f + c (g - v_gamma) and the normals of X and Y.
    merit : float
        V_k: phi_c(x, y) + C_V ||theta - theta*||^2; nan without a lower bound on f.
    gap : float
        g(x, y) - v_gamma(x, y), which the penalty drives to 0.
    theta : array
        theta*(x, y), the proximal point.
    distance : float
        ||theta - theta*|| for the theta given; nan without one.
    c, gamma : float
        Penalty weight and parameter of the envelope.
    """

    residual: float
    merit: float
    gap: float
    theta: np.ndarray
    distance: float
    c: float
    gamma: float

    def __str__(self) -> str:
        return (
            f"R_k = {self.residual:.3g} (15), V_k = {self.merit:.6g}, g - v_gamma = {self.gap:.3g}, "
            f"||theta - theta*|| = {self.distance:.3g} for c = {self.c:g}, gamma = {self.gamma:g}"
        )


def moreau_measures(
    problem: BilevelProblem,
    x: object,
    y: object,
    *,
    c: float,
    gamma: float,
    theta: object | None = None,
    floor: float | None = None,
    smoothness: float | None = None,
) -> MoreauMeasures:
    r"""The residual R_k (15), the merit function V_k and theta's error at a point.

    In the letters of this library (the paper's F is f, its f + g is g):

    .. math:: R_k = \mathrm{dist}\bigl(0,\; \nabla f + c_k(\partial g - \nabla v_\gamma) +
              N_{X \times Y}\bigr), \tag{15}

    .. math:: V_k = \tfrac{1}{c_k}(f - \underline{f}) + g - v_\gamma + C_V\|\theta^k -
              \theta_\gamma^*(x^k, y^k)\|^2, \qquad C_V = (L_f + L_g)^2 + 1/\gamma^2,

    with the gradient (8) of the Moreau envelope. Theorem 3.4 states R_k at (x^{k+1}, y^{k+1}) with
    c_k. Slopes of norms at 0 and normals of active constraints are chosen so that the distance is
    least. A point outside X or Y has the residual infinity.

    Parameters
    ----------
    c, gamma : float
        c_k and the parameter of the envelope; gamma must be below 1 / (2 rho) for a weakly convex g.
    theta : optional
        theta^k, given as lower variables are. Without it V_k has no last term.
    floor : float, optional
        A lower bound on f; without it one is looked for by interval arithmetic
        and, for a jointly convex f, by its minimum over both levels' constraints.
    smoothness : float, optional
        L_f + L_g in C_V; without it curvatures at the point stand for it.
    """
    at = Place.read(problem, x, y)
    model = at.model
    _refuse_coupling(model)
    envelope = _moreau(problem)
    shadow = np.asarray(envelope.functions["proximal_point"](at.x, at.y, gamma))
    value = float(envelope.functions["envelope"](at.x, at.y, gamma))
    split = split_objective(model)
    gap = at.g - value
    distance, correction = np.nan, 0.0
    if theta is not None:
        given = Place.read(problem, x, theta).y
        distance = float(np.linalg.norm(given - shadow))
        size = _smoothness(at, split) if smoothness is None else smoothness
        correction = (size**2 + 1 / gamma**2) * distance**2
    least = upper_floor(model, at.p) if floor is None else floor
    return MoreauMeasures(
        residual=_residual(at, split, shadow, c, gamma),
        merit=(at.f - least) / c + gap + correction if np.isfinite(least) else np.nan,
        gap=gap,
        theta=shadow,
        distance=distance,
        c=c,
        gamma=gamma,
    )


@remembered
def _moreau(problem: BilevelProblem) -> Reformulation:
    """The envelope, compiled once for a problem."""
    return problem.reformulate("moreau")


def _refuse_coupling(model: Model) -> None:
    held = any(variable in model.x for row in model.lower_constraints for variable in row.variables())
    if held or model.coupling_constraints or not model.has_smooth_kkt or model.upper_in.spectral:
        raise ModelError(
            "moreau_measures: (15) is stated for x in X and y in Y, sets of their own given row by row; "
            "here a constraint ties the levels together or demands a semidefinite matrix."
        )


def _smoothness(at: Place, split: SplitObjective) -> float:
    """Largest curvature of the smooth part of g in (x, y), and how fast the weights move with x."""
    point = (at.x, at.y, at.p)
    curvature = float(np.linalg.norm(hessian(split.smooth, ("x", "y"), point).toarray(), 2))
    if split.is_smooth:
        return curvature
    return curvature + float(np.linalg.norm(jacobian(split.weights, ("x",), point).toarray(), 2))


def _residual(at: Place, split: SplitObjective, theta: np.ndarray, c: float, gamma: float) -> float:
    model, n_x = at.model, at.x.size
    at_theta = model.g_grad(at.x, theta, at.p)[:n_x]
    in_x = at.f_slopes[0] + c * (at.g_slopes[0] - at_theta)  # (8), first part
    smooth = gradient(split.smooth, ("y",))(at.x, at.y, at.p)
    in_y = at.f_slopes[1] + c * (smooth - (at.y - theta) / gamma)  # (8), second part
    normals_x = _normals(model.upper_in, model.upper_eq, at, "x")
    normals_y = _normals(model.lower_in, model.lower_eq, at, "y")
    if normals_x is None or normals_y is None:
        return np.inf
    weights = c * split.weights(at.x, at.y, at.p)
    rest_x = _shortest(in_x, *normals_x)
    rest_y = _shortest_with_norms(in_y, split, weights, at.y, *normals_y)
    return float(np.hypot(rest_x, rest_y))


def _normals(
    inequalities: Rows, equalities: Rows, at: Place, block: str
) -> tuple[np.ndarray, np.ndarray] | None:
    """Slopes of the active rows in one block, inequalities and equalities; None outside the set."""
    found = []
    for rows, is_equality in ((inequalities, False), (equalities, True)):
        part = rows.linearise(at.x, at.y, at.p)
        point = at.x if block == "x" else at.y
        small = ACTIVE * (1 + float(np.abs(point).max(initial=0)))
        worst = np.abs(part.value) if is_equality else part.value
        if np.any(worst > 1e3 * small):
            return None
        active = np.full(len(rows), True) if is_equality else part.value >= -small
        slopes = part.in_x if block == "x" else part.in_y
        found.append(sp.csr_array(slopes)[active].toarray())
    return found[0], found[1]


def _shortest(slope: np.ndarray, inside: np.ndarray, equal: np.ndarray) -> float:
    """Distance of 0 from slope + cone of the rows."""
    rows = np.vstack([inside, equal])
    if not len(rows):
        return float(np.linalg.norm(slope))
    low = np.concatenate([np.zeros(len(inside)), np.full(len(equal), -np.inf)])
    found = lsq_linear(rows.T, -slope, bounds=(low, np.full(len(rows), np.inf)), tol=1e-14)
    return float(np.linalg.norm(slope + rows.T @ found.x))


def _shortest_with_norms(
    slope: np.ndarray,
    split: SplitObjective,
    weights: np.ndarray,
    y: np.ndarray,
    inside: np.ndarray,
    equal: np.ndarray,
) -> float:
    """The same with the slopes of weighted norms, which are free within their size at 0."""
    slope, widths, balls = slope.copy(), np.zeros(y.size), []
    rows, places = split.spec
    for kind, first, count, weight, _ in rows:
        where = places[first : first + count]
        if kind == L1:
            own = weights[weight : weight + count]
            is_zero = np.abs(y[where]) <= ZERO
            slope[where] += np.where(is_zero, 0.0, own * np.sign(y[where]))
            widths[where] = np.where(is_zero, own, 0.0)
            continue
        size = float(np.linalg.norm(y[where]))
        if size > ZERO:
            slope[where] += weights[weight] * y[where] / size
        else:
            balls.append((where, float(weights[weight])))
    if split.is_smooth or (not len(inside) and not len(equal)):
        if not split.is_smooth:
            slope = np.sign(slope) * np.maximum(np.abs(slope) - widths, 0.0)
            for where, radius in balls:
                size = float(np.linalg.norm(slope[where]))
                slope[where] *= 0.0 if size <= radius else 1 - radius / size
        return _shortest(slope, inside, equal)
    return _by_program(slope, widths, balls, inside, equal)


def _by_program(
    slope: np.ndarray,
    widths: np.ndarray,
    balls: list[tuple[np.ndarray, float]],
    inside: np.ndarray,
    equal: np.ndarray,
) -> float:
    """The distance by a small cone program, where norms and constraints of y meet."""
    n = slope.size
    size, entry = cp.Variable(n), cp.Variable(n)
    total = slope + entry + size
    outside = np.ones(n, dtype=bool)
    demands: list[cp.Constraint] = [cp.abs(entry) <= widths]
    for where, radius in balls:
        demands.append(cp.norm(size[where], 2) <= radius)
        outside[where] = False
    demands.append(cp.multiply(outside, size) == 0)
    if len(inside):
        total = total + inside.T @ cp.Variable(len(inside), nonneg=True)
    if len(equal):
        total = total + equal.T @ cp.Variable(len(equal))
    return float(cp.Problem(cp.Minimize(cp.norm(total, 2)), demands).solve(solver=cp.CLARABEL))
