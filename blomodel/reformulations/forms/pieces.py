r"""The KKT reformulation: the lower level replaced by its optimality conditions.

.. math:: \min_{x,y,\lambda,\mu} f(x,y) \quad \text{s.t.} \quad
          \nabla_y g + \lambda\cdot\nabla_y c + \mu\cdot\nabla_y h = 0, \quad
          0 \le \lambda \perp -c(x,y) \ge 0, \quad h(x,y) = 0,

and the upper constraints. Equivalent to the bilevel problem when the lower level is convex and
its multipliers exist. Each choice of "c_i = 0 or lambda_i = 0" is a *piece*; around a point the
conditions are modelled by a quadratic program with complementarity constraints, which is exact
when the conditions are linear and f is quadratic.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.basics.memory import remembered
from blomodel.compiler.passes.derivatives import hessian
from blomodel.model.model import Model
from blomodel.programs.quadratic import is_positive_semidefinite as has_no_negative_curvature
from blomodel.programs.quadratic import rounding_of
from blomodel.reformulations.forms.cancelling import cancel_products
from blomodel.reformulations.forms.duality_products import find_identity
from blomodel.solvers.complementarity import ComplementarityQP

ROUNDING = 1e-12  # relative: smaller products have cancelled


@dataclass(frozen=True)
class PieceModel:
    """A complementarity QP in (dx, dy, multipliers) around a point.

    Where y holds the lower level's multipliers there are no others; ``shift`` then turns their steps
    into values, which is what complementarity speaks of.
    """

    qp: ComplementarityQP
    n_x: int
    n_y: int
    shift: np.ndarray  # added to the unknowns of the QP; zero where multipliers are values anyway
    constant: float  # what the shift takes off the objective

    @property
    def is_finite(self) -> bool:
        """Whether every derivative in the model exists."""
        parts = (self.qp.q, self.qp.b_eq, self.qp.b_in, self.qp.A_eq.data, self.qp.A_in.data)
        return all(bool(np.all(np.isfinite(part))) for part in parts)

    def split(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Step in x, step in y, multipliers (inequalities, then equalities)."""
        end = self.n_x + self.n_y
        z = z - self.shift
        return z[: self.n_x], z[self.n_x : end], z[end:]

    def join(self, dx: np.ndarray, dy: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """The unknowns that ``split`` takes apart."""
        n_multipliers = len(self.shift) - self.n_x - self.n_y
        return np.concatenate([dx, dy, multipliers[:n_multipliers]]) + self.shift


def model_pieces(
    model: Model,
    x: np.ndarray,
    y: np.ndarray,
    p: np.ndarray,
    multipliers: np.ndarray,
    *,
    curvature: np.ndarray | None,
    radius: float = np.inf,
) -> PieceModel:
    """Model f by its gradient and ``curvature``, and the KKT conditions by their linearisation.

    Parameters
    ----------
    curvature : array or None
        Positive semidefinite matrix over (x, y); None models f by its gradient alone.
    radius : float
        Largest entry of the step in (x, y).
    """
    n_x, n_y = model.x.size, model.y.size
    lower_in, lower_eq = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
    upper_in, upper_eq = model.upper_in.linearise(x, y, p), model.upper_eq.linearise(x, y, p)
    conditions = model.conditions
    n_multipliers = conditions.n_multipliers
    slopes = (lower_in.in_y, lower_eq.in_y)
    a_eq = [conditions.jacobian(x, y, p, multipliers, slopes)]
    # The multipliers enter as new values, not as steps, so only grad_y g stays on the right.
    b_eq = [-conditions.stationarity(x, y, p, np.zeros(n_multipliers))]
    for rows in (lower_eq, upper_eq):
        a_eq.append(_pad(rows.in_x, rows.in_y, n_multipliers))
        b_eq.append(-rows.value)
    a_in = [_pad(rows.in_x, rows.in_y, n_multipliers) for rows in (lower_in, upper_in)]
    b_in = [-lower_in.value, -upper_in.value]
    if np.isfinite(radius):
        box = sp.hstack([sp.eye_array(n_x + n_y), sp.csr_array((n_x + n_y, n_multipliers), dtype=float)])
        a_in += [box, -box]
        b_in += [np.full(2 * (n_x + n_y), radius)]
    size = n_x + n_y + n_multipliers
    quadratic = sp.csc_array((size, size), dtype=float)
    if curvature is not None:
        empty = sp.csc_array((n_multipliers, n_multipliers), dtype=float)
        quadratic = sp.csc_array(sp.block_diag([sp.csc_array(curvature), empty]))
    linear = np.concatenate([model.f_grad(x, y, p), np.zeros(n_multipliers)])
    qp = ComplementarityQP(
        P=quadratic,
        q=linear,
        A_eq=sp.csc_array(sp.vstack(a_eq)),
        b_eq=np.concatenate(b_eq),
        A_in=sp.csc_array(sp.vstack(a_in)),
        b_in=np.concatenate(b_in),
        rows=conditions.rows,
        columns=conditions.columns,
    )
    shift = conditions.shift(y)
    shifted = dataclasses.replace(
        qp, q=qp.q - qp.P @ shift, b_eq=qp.b_eq + qp.A_eq @ shift, b_in=qp.b_in + qp.A_in @ shift
    )
    return PieceModel(shifted, n_x, n_y, shift, float(0.5 * shift @ (qp.P @ shift) - qp.q @ shift))


def _pad(in_x: sp.csr_array, in_y: sp.csr_array, n_multipliers: int) -> sp.csr_array:
    empty = sp.csr_array((in_x.shape[0], n_multipliers), dtype=float)
    return sp.csr_array(sp.hstack([in_x, in_y, empty]))


@dataclass(frozen=True)
class PieceObjective:
    """A convex quadratic 1/2 z'Pz + q'z + constant over z = (x, y, multipliers)."""

    P: sp.csc_array
    q: np.ndarray
    constant: float
    source: str


@remembered  # method, certificate and explanation ask
def convex_objective(model: Model, p: np.ndarray) -> PieceObjective | None:
    r"""The upper objective as a convex quadratic on the pieces, if it can be written as one.

    Where f itself is not convex, products of x and y may cancel against those of the lower level:
    on the pieces g(x,y) equals the dual value, so with
    :math:`g = \tfrac12 y'Qy + (Cx + q)'y + r(x)` and rows :math:`Ay \le b` without x,

    .. math:: f = (f + \alpha g) - \alpha\,(r(x) - \tfrac12 y'Qy - \lambda\cdot b),

    for any :math:`\alpha`, and for one of its own for each follower. Pricing problems, where f is the
    money that the followers pay, become convex this way.
    """
    n_x, n_y = model.x.size, model.y.size
    if not model.is_linear_quadratic:
        return None
    x, y = np.zeros(n_x), np.zeros(n_y)
    size = model.conditions.n_unknowns
    linear = np.zeros(size)
    linear[: n_x + n_y] = model.f_grad(x, y, p)
    constant = float(model.f(x, y, p)[0])
    curvature = sp.csc_array(hessian(model.f, ("x", "y"), (x, y, p)))

    def embed(block: sp.csc_array) -> sp.csc_array:
        entries = sp.coo_array(block)
        return sp.csc_array((entries.data, (entries.row, entries.col)), shape=(size, size))

    if _is_convex(curvature):
        return PieceObjective(embed(curvature), linear, constant, "it is one everywhere")
    cancelling = cancel_products(model, p, curvature)
    if cancelling is not None:
        rest = sp.csc_array(curvature + cancelling[0])
        if _is_convex(rest):
            source = "products with multipliers cancel by complementarity"
            return PieceObjective(rest, linear + cancelling[1], constant, source)
    if not model.conditions.multipliers_are_unknowns:
        return None
    none = np.zeros(model.conditions.n_multipliers)
    identity = find_identity(model_pieces(model, x, y, p, none, curvature=None).qp, model)
    if identity is None:
        return None
    whole = embed(curvature)
    weights = identity.cancelling_weights(sp.csr_array(whole[:n_x]))
    form, slope = identity.weighted(weights, size)
    combined = sp.csc_array(whole + form)
    combined.data[np.abs(combined.data) <= ROUNDING * np.abs(curvature.data).max(initial=0)] = 0.0
    combined.eliminate_zeros()
    if not weights or not _is_convex(combined):
        return None
    return PieceObjective(combined, linear + slope, constant, "products of x and y cancel by duality")


def _is_convex(matrix: sp.csc_array) -> bool:
    """The same of a sparse matrix, whose entries show first where a product has no square beside it."""
    if limits.DENSE_CHOLESKY.allows(matrix.shape[0]):
        return is_positive_semidefinite(matrix.toarray())
    entries = sp.coo_array(matrix)
    squares = matrix.diagonal() + rounding_of(matrix)
    if squares.min() < 0:
        return False
    if np.any(entries.data**2 > (1 + 1e-9) * squares[entries.row] * squares[entries.col]):
        return False
    return has_no_negative_curvature(matrix)


def is_positive_semidefinite(matrix: np.ndarray) -> bool:
    """Whether no eigenvalue is below zero, up to rounding of each row."""
    shifted = (matrix + matrix.T) / 2
    shifted[np.diag_indices_from(shifted)] += rounding_of(sp.csr_array(matrix))
    try:
        np.linalg.cholesky(shifted)  # ten times as fast as the eigenvalues
    except np.linalg.LinAlgError:
        return False
    return True


def positive_part(matrix: np.ndarray) -> np.ndarray:
    """The nearest positive semidefinite matrix: negative eigenvalues set to zero."""
    if matrix.size == 0:
        return matrix
    symmetric = (matrix + matrix.T) / 2
    try:
        shift = 1e-12 * (1 + np.abs(symmetric).max())
        np.linalg.cholesky(symmetric + shift * np.eye(len(symmetric)))
        return symmetric
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(symmetric)
        return (vectors * np.maximum(values, 0.0)) @ vectors.T
