"""Measures of the paper on perturbed gradient descent: F of (1), epsilon-KKT points, directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blomodel.errors import ModelError
from blomodel.studies.diagnostics.points import Place, needs_free_lower

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

RHOS = ("square", "root")


@dataclass(frozen=True)
class KktResidual:
    """How far a point is from a KKT point of min f subject to grad_y g = 0 (Definition 2.4).

    Attributes
    ----------
    lower : float
        ||grad_y g||^2.
    in_x : float
        ||grad_x f + g_yx' nu||^2.
    in_y : float
        ||grad_y f + g_yy nu||^2.
    nu : array
        The multiplier of grad_y g = 0.
    """

    lower: float
    in_x: float
    in_y: float
    nu: np.ndarray

    @property
    def epsilon(self) -> float:
        """The smallest epsilon for which the point is an epsilon-KKT point with this multiplier."""
        return max(self.lower, self.in_x, self.in_y)

    def __str__(self) -> str:
        return (
            f"epsilon-KKT point with epsilon = {self.epsilon:.3g}: ||grad_y g||^2 = {self.lower:.3g}, "
            f"residuals squared {self.in_x:.3g} in x and {self.in_y:.3g} in y."
        )


@dataclass(frozen=True)
class Perturbation:
    """The direction of perturbed gradient descent at a point: (7), (8a), (8b).

    Attributes
    ----------
    weight : float
        lambda of (8b).
    in_x, in_y : array
        The direction: -grad f - lambda grad h.
    h : float
        ||grad_y g||^2, which the constraint of the QP (7) makes fall.
    h_slope : float
        Norm of grad h.
    """

    weight: float
    in_x: np.ndarray
    in_y: np.ndarray
    h: float
    h_slope: float

    @property
    def norm(self) -> float:
        """Length of the direction in (x, y), the measure where F of (1) need not exist."""
        return float(np.sqrt(self.in_x @ self.in_x + self.in_y @ self.in_y))

    def __str__(self) -> str:
        return (
            f"direction of length {self.norm:.3g}, lambda = {self.weight:.3g}, h = {self.h:.3g}, "
            f"||grad h|| = {self.h_slope:.3g}"
        )


def hypergradient(problem: BilevelProblem, x: object, y: object) -> np.ndarray:
    r"""F(x, y) of (1a)-(1b), the implicit gradient at a point that need not be a lower answer.

    .. math:: F(x, y) = \nabla_x f - (\nabla_{yx}^2 g)^{\top} v, \qquad
              \nabla_{yy}^2 g\, v = \nabla_y f,

    all at (x, y). At y = y*(x) it is the gradient of f(x, y*(x)). The paper's figures show its norm
    along the iterates. Where (1b) has no solution, because g_yy is singular, it is a ModelError; the
    paper then looks at the direction (``perturbation``) instead.
    """
    at = Place.read(problem, x, y)
    needs_free_lower(at.model, "F of (1a)-(1b)")
    w = at.shadow_gradient()  # -v, of least norm where there are many
    slope_y = at.f_slopes[1]
    error = float(np.linalg.norm(at.curve(w) + slope_y))
    if error > 1e-6 * (1 + float(np.linalg.norm(slope_y))):
        raise ModelError(
            "hypergradient: (1b) has no solution here, since g_yy is singular and grad_y f is not in "
            f"its range (what is left has norm {error:.3g}). bm.diagnostics.perturbation measures "
            "stationarity without it."
        )
    return at.f_slopes[0] + at.cross(w)


def kkt_residual(
    problem: BilevelProblem,
    x: object,
    y: object,
    *,
    nu: np.ndarray | None = None,
    weight: float | None = None,
) -> KktResidual:
    r"""The epsilon for which a point is an epsilon-KKT point (Definition 2.4).

    .. math:: \|\nabla_y g\|^2 \le \epsilon, \quad
              \|\nabla_x f + (\nabla_{yx}^2 g)^{\top}\nu\|^2 \le \epsilon, \quad
              \|\nabla_y f + \nabla_{yy}^2 g\,\nu\|^2 \le \epsilon.

    Parameters
    ----------
    nu : array, optional
        The multiplier. Without it, and without ``weight``, the one of least residual is taken.
    weight : float, optional
        lambda of the method: nu = lambda grad_y g, as in the proofs of Corollaries 4.3 and 4.6. With
        h = ||grad_y g||^2, whose gradient holds a factor 2 (Remark 3.1), the residuals are those of the
        method's direction for 2 lambda; give twice the weight to have them.
    """
    at = Place.read(problem, x, y)
    needs_free_lower(at.model, "Definition 2.4")
    if nu is not None and weight is not None:
        raise ModelError("kkt_residual takes nu or weight, not both.")
    if weight is not None:
        nu = weight * at.g_slopes[1]
    elif nu is None:
        both = np.vstack([_columns(at.cross, at.x.size, at.y.size), at.hessian_y])
        nu = -np.linalg.lstsq(both, np.concatenate(at.f_slopes), rcond=1e-12)[0]
    nu = np.asarray(nu, dtype=float)
    in_x = at.f_slopes[0] + at.cross(nu)
    in_y = at.f_slopes[1] + at.curve(nu)
    slope = at.g_slopes[1]
    return KktResidual(
        lower=float(slope @ slope), in_x=float(in_x @ in_x), in_y=float(in_y @ in_y), nu=nu
    )


def _columns(times: object, n_rows: int, n_columns: int) -> np.ndarray:
    """A linear map as a matrix."""
    matrix = np.zeros((n_rows, n_columns))
    for j, unit in enumerate(np.eye(n_columns)):
        matrix[:, j] = times(unit)  # type: ignore[operator]
    return matrix


def perturbation(
    problem: BilevelProblem,
    x: object,
    y: object,
    *,
    alpha: float,
    rho: str = "square",
    first_h: float | None = None,
) -> Perturbation:
    r"""The direction of perturbed gradient descent, the solution (8) of its convex QP (7).

    .. math:: \Delta = -\nabla f - \lambda\nabla h, \qquad
              \lambda = \frac{[-\nabla h^{\top}\nabla f + \alpha\rho]_+}{\|\nabla h\|^2}, \qquad
              h = \|\nabla_y g\|^2,

    with :math:`\rho = \|\nabla h\|^2` ("square") or :math:`\|\nabla h\|\sqrt{h(x_0, y_0)}` ("root"). The
    paper measures :math:`\|\Delta_k\|` where the lower level is not strongly convex.

    Parameters
    ----------
    alpha : float
        As in (7).
    rho : {"square", "root"}
        Which of the two choices of section 3.
    first_h : float, optional
        h(x_0, y_0) for "root".
    """
    if rho not in RHOS:
        raise ModelError(f"perturbation: rho is {rho!r}; it can be 'square' or 'root'.")
    if rho == "root" and first_h is None:
        raise ModelError("perturbation: rho='root' needs first_h, the value of h at the start.")
    at = Place.read(problem, x, y)
    needs_free_lower(at.model, "The direction (8)")
    slope = at.g_slopes[1]
    h_x, h_y = 2 * at.cross(slope), 2 * at.curve(slope)  # Remark 3.1
    square = float(h_x @ h_x + h_y @ h_y)
    wish = square if rho == "square" else float(np.sqrt(square * (first_h or 0.0)))
    along = float(h_x @ at.f_slopes[0] + h_y @ at.f_slopes[1])
    weight = 0.0 if square == 0 else max(0.0, alpha * wish - along) / square  # (8b)
    return Perturbation(
        weight=weight,
        in_x=-at.f_slopes[0] - weight * h_x,  # (8a)
        in_y=-at.f_slopes[1] - weight * h_y,
        h=float(slope @ slope),
        h_slope=float(np.sqrt(square)),
    )
