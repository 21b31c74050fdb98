"""Measures of the paper on ALT-PBGD, PBGD-Free and BLOCC: flatness, slopes, derivatives of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from blomodel.compiler.expressions.constraints import INEQUALITY, SPECTRAL, as_row
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.declare.point import read_level
from blomodel.errors import LowerLevelError, ModelError
from blomodel.model.model import Model
from blomodel.reformulations.forms.left_out_slope import LeftOutSlope, left_out_of_model
from blomodel.solvers.convex_qp import solve_convex_qp
from blomodel.structure.flatness import Flatness, flatness_of_model
from blomodel.studies.diagnostics.points import ASKED_BY, lower_answer, read_upper

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

ACTIVE = 1e-6  # rows and multipliers below this, relative to the point, count as zero


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


@dataclass(frozen=True)
class CoupledPenalty:
    """F_gamma^lambda of (62) at an x.

    Attributes
    ----------
    value : float
        F_gamma^lambda(x).
    y : array
        Where the minimum over Y is attained.
    multipliers : array
        The lower level's multipliers at x, of all its rows, inequalities first.
    gamma : float
        The penalty weight.
    """

    value: float
    y: np.ndarray
    multipliers: np.ndarray
    gamma: float

    def __str__(self) -> str:
        return f"F_gamma^lambda = {self.value:.6g} for gamma = {self.gamma:g}"


def flatness(
    problem: BilevelProblem,
    x: object,
    y: object | None = None,
    *,
    alpha: float = 1.5,
    modulus: float = 1.0,
    gamma: float = 10.0,
) -> Flatness:
    r"""The (delta, alpha)-flatness of f at the lower answer y*(x): Definition 11 and (34).

    .. math:: |f(x, y^*(x)) - f(x, y)| \le c\,\|y^*(x) - y\|^{\alpha} + \delta

    for all y; (34) asks it of the penalised answer y_gamma(x) alone. ``bias`` of the result is the order
    of what PBGD-Free leaves out, squared: delta gamma + gamma^(-2 (alpha - 1) / (2 - alpha)), (46).

    Parameters
    ----------
    y : optional
        The lower answer at x, when it is known.
    alpha, modulus : float
        Exponent and modulus c, fixed beforehand; delta follows from them.
    gamma : float
        Penalty weight of the answer that the lower answer is compared with: that of the run in question.
    """
    model, p, at_x = read_upper(problem, x)
    at_y = None if y is None else read_level(problem.levels, "lower", y, ASKED_BY)
    return flatness_of_model(model, p, at_x, at_y, alpha=alpha, modulus=modulus, gamma=gamma)


def left_out_slope(problem: BilevelProblem, x: object, *, gamma: float = 10.0) -> LeftOutSlope:
    r"""What PBGD-Free leaves out of the slope of F_gamma at x, by two exact minimisations.

    The update bias b of the proof of Theorem 2, with y at the penalised answer:

    .. math:: \nabla F_\gamma(x) - \nabla_x f(x, y_\gamma(x)) =
              \gamma\,(\nabla_x g(x, y_\gamma(x)) - \nabla_x g(x, y^*(x))),

    and the multipliers of both minimisations where lower constraints hold x, as in (56).
    """
    return left_out_of_model(*read_upper(problem, x), gamma)


def penalty_smoothness(
    problem: BilevelProblem, points: Sequence[object], gamma: float = 10.0
) -> PenaltySmoothness:
    """Smoothness of F_gamma along the upper points given, such as a method's history of x."""
    problem.check_data()
    model, p = problem.plain_model, problem.parameter_values()
    vectors = [read_level(problem.levels, "upper", point, ASKED_BY) for point in points]
    if len(vectors) < 2:
        raise ModelError("penalty_smoothness needs at least two points.")
    gradients = [left_out_of_model(model, p, x, gamma).slope for x in vectors]
    ratios = []
    for k in range(len(vectors) - 1):
        moved = float(np.linalg.norm(vectors[k + 1] - vectors[k]))
        if moved > 0:
            ratios.append(float(np.linalg.norm(gradients[k + 1] - gradients[k])) / moved)
    return PenaltySmoothness(max(ratios, default=0.0), gamma, np.array(ratios))


def answer_derivative(
    problem: BilevelProblem, x: object, direction: object, *, is_printed: bool = False
) -> np.ndarray:
    r"""The derivative of the lower answer y*(x) along a direction d: (15) and (57).

    The projection of :math:`-(\nabla_{yy} L)^{-1}\nabla_{yx} L\, d` onto the directional critical cone
    in the norm of :math:`\nabla_{yy} L`, L being the lower Lagrangian: the w that minimises
    :math:`\tfrac12 w^{\top}\nabla_{yy} L\, w + w^{\top}\nabla_{yx} L\, d` subject to

    .. math:: \nabla_y c_i\, w + \nabla_x c_i\, d = 0 \;(\lambda_i > 0), \qquad
              \nabla_y c_i\, w + \nabla_x c_i\, d \le 0 \;(\lambda_i = 0 = c_i).

    (58) demands the equation of every active row, which is the same under the paper's strict
    complementarity. The lower level must be strongly convex in y.

    Parameters
    ----------
    direction : number, array, list or dict
        In the upper variables, given as a point is.
    is_printed : bool
        Take the curvature of g alone, as (15) is printed for Y that does not depend on x. Where an
        active row of Y is curved, as in the paper's Figure 4 (a ball), that is not the derivative: the
        multiplier's share of the curvature is missing. (57) has it.
    """
    model, p, at_x = read_upper(problem, x)
    d = read_level(problem.levels, "upper", direction, ASKED_BY)
    if not model.has_smooth_kkt:
        raise ModelError(
            "answer_derivative needs lower constraints row by row, not a matrix inequality."
        )
    answer = lower_answer(model, at_x, np.zeros(model.y.size), p)
    y, multipliers = answer.y, np.zeros(0)
    if model.n_lower_rows:
        exact = model.lower_program.solve(at_x, p, accuracy=1e-10)
        y, multipliers = exact.y, model.split_duals(exact.duals)
    in_x, in_y = model.lower_hessian(at_x, y, p, 0 * multipliers if is_printed else multipliers)
    curvature = in_y.toarray()
    _check_curvature(curvature)
    rows = model.lower_in.linearise(at_x, y, p)
    equal = model.lower_eq.linearise(at_x, y, p)
    scale = 1 + float(np.abs(y).max(initial=0))
    active = rows.value >= -ACTIVE * scale
    pushed = multipliers[: len(model.lower_in)] > ACTIVE * (1 + np.abs(multipliers).max(initial=0))
    tight, weak = active & pushed, active & ~pushed
    found = solve_convex_qp(
        sp.csr_array(curvature),
        in_x @ d,
        sp.vstack([rows.in_y[tight], equal.in_y], format="csr"),
        -np.concatenate([rows.in_x[tight] @ d, equal.in_x @ d]),
        rows.in_y[weak],
        -(rows.in_x[weak] @ d),
    )
    if not found.has_point:
        raise LowerLevelError(
            "answer_derivative: no direction in y follows d within the active lower rows; the "
            "lower level has no answers there.",
            at_x,
        )
    return found.y


def _check_curvature(curvature: np.ndarray) -> None:
    least = float(np.linalg.eigvalsh((curvature + curvature.T) / 2)[0])
    if least <= 1e-10 * (1 + float(np.abs(curvature).max(initial=0))):
        raise ModelError(
            "answer_derivative: the lower level is not strongly convex in y here (least eigenvalue "
            f"{least:.3g}), so that its answer may not have a derivative."
        )


def coupled_penalty(problem: BilevelProblem, x: object, *, gamma: float = 10.0) -> CoupledPenalty:
    r"""F_gamma^lambda of (62): the penalty function with the coupled rows in the lower objective.

    .. math:: F_\gamma^\lambda(x) = \min_{y \in Y} f(x, y) + \gamma\,(g^\lambda(x, y) -
              \min_{y \in Y} g^\lambda(x, y)), \qquad
              g^\lambda(x, y) = g(x, y) + \langle\lambda_g^*(x), c(x, y)\rangle,

    where c are the lower rows that hold x, Y is made of the others, and lambda are the lower level's
    multipliers at x. By duality the inner minimum is v(x). f must be convex in y.
    """
    model, p, at_x = read_upper(problem, x)
    exact = model.lower_program.solve(at_x, p, accuracy=1e-10)
    if not exact.has_point:
        raise LowerLevelError(f"The lower level is {exact.status.value} at this x.", at_x)
    multipliers = model.split_duals(exact.duals)
    fixed = Substitution(model.x.leaves, [cp.Constant(v) for v in model.x.unpack(at_x).values()])
    lagrangian, own = _lower_lagrangian(model, multipliers)
    objective = fixed(model.f_expression / gamma + lagrangian)
    program = cp.Problem(cp.Minimize(objective), [fixed(row) for row in own])
    kept = [leaf.value for leaf in model.y.leaves]
    try:
        program.solve(solver=cp.CLARABEL)
        if program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            raise LowerLevelError(f"The minimum over Y in (62) is {program.status} at this x.", at_x)
        y = model.y.pack()
    except cp.error.DCPError as error:
        raise ModelError("coupled_penalty: f / gamma + g must be convex in y at this x.") from error
    finally:
        for leaf, value in zip(model.y.leaves, kept, strict=True):
            leaf.value = value
    return CoupledPenalty(
        value=gamma * (float(program.value) - exact.value), y=y, multipliers=multipliers, gamma=gamma
    )


def _lower_lagrangian(
    model: Model, multipliers: np.ndarray
) -> tuple[cp.Expression, list[cp.Constraint]]:
    """g + <lambda, c> over the rows that hold x, and the constraints that do not."""
    total, own = model.g_expression, []
    for position, constraint in enumerate(model.lower_constraints):
        if not any(variable in model.x for variable in constraint.variables()):
            own.append(constraint)
            continue
        kind, expression = as_row(constraint)
        if kind == SPECTRAL:
            raise ModelError("coupled_penalty needs lower constraints row by row.")
        rows = model.lower_in if kind == INEQUALITY else model.lower_eq
        shift = 0 if kind == INEQUALITY else len(model.lower_in)
        where = rows.slices[position]
        weights = multipliers[where.start + shift : where.stop + shift]
        if kind == INEQUALITY:
            weights = np.maximum(weights, 0.0)
        total = total + weights @ cp.vec(expression, order="F")
    return total, own
