r"""Second derivatives of phi(x) = f(x, y*(x)) where the lower answer is smooth.

Around such an x the lower level's KKT conditions on its active rows are equations R(x, z) = 0 in
z = (y, active multipliers). With the adjoint u of f, and L = f + u'R,

.. math:: \nabla^2\varphi = \begin{pmatrix} I \\ Z \end{pmatrix}^\top \nabla^2 L
          \begin{pmatrix} I \\ Z \end{pmatrix}, \qquad Z = \partial z / \partial x.

All columns of Z come from one factor. With affine rows multipliers enter R linearly and apart from
(x, y), so that the second derivatives of L in (x, y) are all there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.compiler.passes.derivatives import dense_jacobian, known_jacobian
from blomodel.model.kkt_hessian import KktWeights
from blomodel.model.model import Model
from blomodel.programs.adjoint import factorised
from blomodel.reformulations.forms.answer_value import AnswerEvaluation

_FULL = 0.1  # share of nonzeros from which a matrix is multiplied as a plain one


class AnswerCurvature:
    """The Hessian of phi at points where it was evaluated."""

    model: Model
    p: np.ndarray

    def __init__(self, model: Model, p: np.ndarray) -> None:
        self.model, self.p = model, p
        self._is_full = False  # whether the second derivatives seen so far are full of numbers

    @staticmethod
    def applies(model: Model) -> bool:
        """Whether the lower level has affine rows and the matrices are of a reasonable size."""
        if not (model.has_smooth_kkt and model.conditions.multipliers_are_unknowns):
            return False
        is_affine = model.lower_in.is_affine and model.lower_eq.is_affine
        return is_affine and limits.ANSWER_CURVATURE.allows(model.x.size * model.lower_size)

    def __call__(self, at: AnswerEvaluation, free: np.ndarray) -> np.ndarray | None:
        """Second derivatives in the chosen entries of x; None where the answer is not smooth."""
        model, p, x, y = self.model, self.p, at.x, at.y
        if not (at.has_gradient and at.is_smooth and at.answer.duals is not None):
            return None
        n_x, n_in = x.size, len(model.lower_in)
        multipliers = model.split_duals(at.answer.duals)
        below, equal = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
        active = np.flatnonzero(multipliers[:n_in] > -below.value)
        A = sp.csr_array(sp.vstack([below.in_y[active], equal.in_y]))
        B = sp.csr_array(sp.vstack([below.in_x[active], equal.in_x]))
        cross: Any
        H: Any
        if self._is_full:  # as plain matrices, whose numbers need no places
            gradient, here = model.lagrangian_gradient, (x, y, p, np.append(1.0, multipliers))
            both = known_jacobian(gradient, ("x", "y"), here)
            if both is None:
                both = dense_jacobian(gradient, ("x", "y"), here)
            cross, H, A = both[:, :n_x], both[:, n_x:], A.toarray()
        else:
            cross, H = model.lower_hessian(x, y, p, multipliers)
        if not all(np.isfinite(_numbers(part)).all() for part in (cross, H, A, B)):
            return None
        solve = factorised(H, A)
        if solve is None:
            return None
        slope = model.f_grad(x, y, p)[n_x:]
        u, w = solve(-slope, np.zeros(A.shape[0]))
        lower = np.zeros(n_in), w[len(active) :]
        lower[0][active] = w[: len(active)]
        weights = KktWeights(
            own=multipliers,
            upper=(np.zeros(len(model.upper_in)), np.zeros(len(model.upper_eq))),
            lower=lower,
            stationarity=u,
        )
        moves = np.zeros((n_x + y.size, len(free)))
        moves[free, np.arange(len(free))] = 1.0
        moves[n_x:] = -solve(_columns(cross, free), _columns(B, free))[0]
        if self._is_full:
            product = model.kkt_hessian.products(x, y, p, weights, moves)
        else:
            second = model.kkt_hessian.matrix(x, y, p, weights)
            self._is_full = second.nnz > _FULL * second.shape[0] ** 2
            product = (second.toarray() if self._is_full else second) @ moves
        found = moves.T @ product
        return (found + found.T) / 2 if np.isfinite(found).all() else None


def _numbers(matrix: Any) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.data


def _columns(matrix: Any, chosen: np.ndarray) -> np.ndarray:
    if isinstance(matrix, np.ndarray):
        return matrix[:, chosen]
    return np.asarray(sp.csc_array(matrix)[:, chosen].toarray())
