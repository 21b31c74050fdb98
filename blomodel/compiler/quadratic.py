"""Inner problems that are linear or quadratic in y at fixed x, read off their tapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from blomodel.analysis.levels import shorten
from blomodel.compiler.blocks import Block
from blomodel.compiler.derivatives import jvp, vjp
from blomodel.compiler.lagrangian import Lagrangian
from blomodel.compiler.lowering import lower
from blomodel.compiler.probing import MatrixProbe, generic_points
from blomodel.errors import NonconvexLowerError
from blomodel.inner.answer import Answer, InnerStatus
from blomodel.inner.osqp import QuadraticSolver

_CHANGES_WITH_X = 2  # coefficient classes from here on depend on x
_PSD_TOLERANCE = 1e-9  # of the largest entry; below it a negative eigenvalue counts as rounding
_DENSE_LIMIT = 600
_KEPT_WEIGHTS = 4


class QuadraticProgram:
    """min_y sum_k weights_k (.5 y'Q_k y + q_k'y + r_k) s.t. Ay <= b; all but y depends on x, p."""

    def __init__(
        self,
        lagrangian: Lagrangian,
        terms: Sequence[cp.Expression],
        x_bounds: tuple[np.ndarray, np.ndarray],
        name: str,
    ) -> None:
        self.lagrangian, self.term_expressions, self.name = lagrangian, list(terms), name
        x, y, p = lagrangian.blocks
        self.n = y.size
        self._origin = np.zeros(self.n)
        of_terms, of_rows = lagrangian.term_facts, lagrangian.row_facts
        moves = of_terms.coefficient_class >= _CHANGES_WITH_X
        self.is_smooth = True
        self.kind = "QP" if (of_terms.degree == 2).any() else "LP"
        self._Q_moves, self._q_moves = bool(moves[:, 2].any()), bool(moves[:, 1].any())
        self._A_moves = self._b_moves = False
        if of_rows is not None:
            moves = of_rows.coefficient_class >= _CHANGES_WITH_X
            self._A_moves, self._b_moves = bool(moves[:, 1].any()), bool(moves[:, 0].any())
        self._grad_y = lagrangian.terms_grad_y
        self._hessian_product = jvp(self._grad_y, ("y",)) if self.kind == "QP" else None
        self._rows_product = jvp(lagrangian.rows, ("y",)) if lagrangian.rows is not None else None
        self._points = generic_points(*x_bounds)
        self._Q_probes = [MatrixProbe(self.n, self.n) for _ in terms]
        self._A_probe = MatrixProbe(lagrangian.n_rows, self.n)
        self._p: bytes | None = None
        self._instances: dict[tuple[float, ...], _Instance] = {}

    # -- coefficients ------------------------------------------------------------------------

    def hessian(self, x: np.ndarray, p: np.ndarray, term: int, probe: bool = False) -> sp.csc_array:
        """Q of one term."""
        if self._hessian_product is None:
            return sp.csc_array((self.n, self.n))
        product, origin = self._hessian_product, self._origin
        weights = np.zeros(self.lagrangian.n_terms)
        weights[term] = 1.0

        def run(direction: np.ndarray) -> np.ndarray:
            return product(x, origin, p, weights, direction)

        learnt = self._Q_probes[term]
        return learnt.read(run) if probe else learnt.full(run)

    def _read_A(self, x: np.ndarray, p: np.ndarray, probe: bool) -> sp.csc_array:
        product, origin = self._rows_product, self._origin
        if product is None:
            return sp.csc_array((0, self.n))

        def run(direction: np.ndarray) -> np.ndarray:
            return product(x, origin, p, direction)

        A = self._A_probe.read(run) if probe else self._A_probe.full(run)
        A.data *= self.lagrangian.signs[A.indices]
        return A

    def _read_b(self, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        rows = self.lagrangian.rows
        return np.zeros(0) if rows is None else -self.lagrangian.signs * rows(x, self._origin, p)

    def _prepare(self, x: np.ndarray, p: np.ndarray) -> None:
        """Read everything that depends on p only, unless p is that of the last call."""
        key = p.tobytes()
        if key == self._p:
            return
        self._instances.clear()
        self._p = key
        points = [x, *self._points]
        n_terms = self.lagrangian.n_terms
        if self._Q_moves:
            self.Q = []
            for term in range(n_terms):
                found = [self.hessian(point, p, term) for point in points]
                self._Q_probes[term].learn([Q for Q in found if np.isfinite(Q.data).all()] or found)
        else:
            self.Q = [self.hessian(x, p, term) for term in range(n_terms)]
            self._require_convex_lower(self.Q[-1], p)
        if self._A_moves:
            matrices = [self._read_A(point, p, probe=False) for point in points]
            self._A_probe.learn([A for A in matrices if np.isfinite(A.data).all()] or matrices)
        else:
            self.A = self._read_A(x, p, probe=False)
        self._b = None if self._b_moves else self._read_b(x, p)

    def check(self, p: np.ndarray) -> None:
        """Raise NonconvexLowerError when the last term is convex at none of a few points."""
        if self.kind == "LP":
            return
        if not self._Q_moves:
            self._prepare(self._points[0], p)
            return
        last = self.lagrangian.n_terms - 1
        matrices = [self.hessian(point, p, last) for point in self._points]
        if not any(is_positive_semidefinite(Q) for Q in matrices):
            self._require_convex_lower(matrices[0], p)

    def convexity(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> float:
        """The smallest eigenvalue of the weighted Hessian in y."""
        return smallest_eigenvalue(self._weighted_hessian(x, p, weights))

    def is_convex(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> bool:
        """Whether the weighted objective is convex in y at this x."""
        if self.kind == "LP":
            return True
        if not self._Q_moves:
            return self._instance(x, p, weights).is_convex
        return is_positive_semidefinite(self._weighted_hessian(x, p, weights))

    def _weighted_hessian(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> sp.csc_array:
        self._prepare(x, p)
        total = sp.csc_array((self.n, self.n))
        for term, weight in enumerate(weights):
            Q = self.hessian(x, p, term, probe=True) if self._Q_moves else self.Q[term]
            # Adding zero times a matrix keeps its entries, and so the sparsity, in place.
            total = _add_keeping_entries(total, weight, Q)
        return total

    def _require_convex_lower(self, Q: sp.csc_array, p: np.ndarray) -> None:
        if is_positive_semidefinite(Q):
            return
        expression = self.term_expressions[-1]
        part, eigenvalue = _most_concave_part(expression, self.lagrangian.blocks, p)
        overall = smallest_eigenvalue(Q)
        raise NonconvexLowerError(
            f"{self.name}: the objective {shorten(expression)!r} is not convex in the lower "
            f"variables: its Hessian has the eigenvalue {overall:.4g}"
            + (f" ({shorten(part)!r} alone: {eigenvalue:.4g})" if part is not expression else "")
            + ". Restate it with a positive semidefinite quadratic part, or use a method for "
            "nonconvex lower levels."
        )

    # -- solving -----------------------------------------------------------------------------

    def _instance(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> _Instance:
        self._prepare(x, p)
        key = tuple(weights.tolist())
        instance = self._instances.get(key)
        if instance is None:
            while len(self._instances) >= _KEPT_WEIGHTS:
                del self._instances[next(iter(self._instances))]
            P = self._weighted_hessian(x, p, weights)
            A = self._read_A(x, p, probe=True) if self._A_moves else self.A
            convex = self._Q_moves or self.kind == "LP" or is_positive_semidefinite(P)
            solver = None
            if convex:
                lasting = not (self._Q_moves or self._A_moves)
                solver = QuadraticSolver(P, A, self.lagrangian.equality, lasting)
            q = None if self._q_moves else self._grad_y(x, self._origin, p, weights)
            instance = self._instances[key] = _Instance(P, solver, q, convex)
        return instance

    def solve(
        self, x: np.ndarray, p: np.ndarray, weights: np.ndarray, warm: bool, accuracy: float
    ) -> Answer:
        """Minimise over y at x."""
        instance = self._instance(x, p, weights)
        P, solver = instance.P, instance.solver
        if self._Q_moves or self._A_moves:
            if self._Q_moves:
                P = self._weighted_hessian(x, p, weights)
                finite = bool(np.isfinite(P.data).all())
                instance.is_convex = finite and is_positive_semidefinite(P)
            if instance.is_convex and solver is not None:
                A = self._read_A(x, p, probe=True) if self._A_moves else self.A
                if not np.isfinite(A.data).all():
                    reason = "the constraints' coefficients are not finite at this point"
                    return Answer.without_point(InnerStatus.FAILED, self.n, reason)
                solver.set_matrices(P, A)
        if not instance.is_convex or solver is None:
            return Answer.without_point(InnerStatus.FAILED, self.n, self._not_convex(P))
        q = self._grad_y(x, self._origin, p, weights) if instance.q is None else instance.q
        b = self._read_b(x, p) if self._b is None else self._b
        point = solver.solve(q, b, warm, accuracy)
        if not point.status.has_point:
            return Answer.without_point(point.status, self.n, point.reason, point.iterations)
        return Answer(
            point.status,
            float(weights @ self.lagrangian.terms(x, point.y, p)),
            point.y,
            self.lagrangian.split(point.multipliers),
            point.iterations,
            point.multipliers,
            point.reason,
            point.solver,
        )

    def _not_convex(self, P: sp.csc_array) -> str:
        if not np.isfinite(P.data).all():
            return "the objective's coefficients are not finite at this point"
        return (
            "the weighted objective is not convex in the lower variables here: its Hessian has "
            f"the eigenvalue {smallest_eigenvalue(P):.4g}"
        )


@dataclass(slots=True)
class _Instance:
    """What is kept for one choice of weights."""

    P: sp.csc_array
    solver: QuadraticSolver | None  # None when not convex
    q: np.ndarray | None  # None when it moves with x
    is_convex: bool


def is_positive_semidefinite(Q: sp.csc_array) -> bool:
    """Whether Q + shift has a Cholesky factor, the shift standing for rounding."""
    n = Q.shape[0]
    if n == 0 or Q.nnz == 0:
        return True
    scale = float(np.abs(Q.data).max())
    if scale == 0.0:
        return True
    if not np.isfinite(scale) or Q.diagonal().min() < -_PSD_TOLERANCE * scale:
        return False
    shift = _PSD_TOLERANCE * scale
    if n <= _DENSE_LIMIT or Q.nnz > 0.15 * n * n:
        dense = Q.toarray()
        dense = (dense + dense.T) / 2
        dense.flat[:: n + 1] += shift
        return scipy.linalg.lapack.dpotrf(dense, lower=1, overwrite_a=1)[1] == 0
    shifted = sp.csc_array((Q + Q.T) / 2 + shift * sp.eye_array(n))
    try:
        # Without pivoting off the diagonal, U carries the pivots of LDL', whose signs are those of
        # the eigenvalues (Sylvester).
        factor = spl.splu(
            shifted, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
    except RuntimeError:
        return False
    return bool((factor.U.diagonal() > 0).all() and (factor.perm_r == factor.perm_c).all())


def smallest_eigenvalue(Q: sp.csc_array) -> float:
    """The smallest eigenvalue of a symmetric matrix."""
    n = Q.shape[0]
    if n == 0 or Q.nnz == 0:
        return 0.0
    if n <= 2 * _DENSE_LIMIT:
        dense = Q.toarray()
        return float(np.linalg.eigvalsh((dense + dense.T) / 2)[0])
    start = np.random.default_rng(0).standard_normal(n)
    return float(spl.eigsh(Q, 1, which="SA", v0=start, tol=1e-6, return_eigenvectors=False)[0])


def _add_keeping_entries(total: sp.csc_array, weight: float, Q: sp.csc_array) -> sp.csc_array:
    if Q.nnz == 0:
        return total
    if total.nnz == 0:
        return sp.csc_array((weight * Q.data, Q.indices, Q.indptr), shape=Q.shape)
    first, second = total.tocoo(), Q.tocoo()
    rows = np.concatenate([first.row, second.row])
    columns = np.concatenate([first.col, second.col])
    data = np.concatenate([first.data, weight * second.data])
    merged = sp.csc_array(sp.coo_array((data, (rows, columns)), shape=Q.shape))
    merged.sort_indices()
    return merged


def _most_concave_part(
    expression: cp.Expression, blocks: Sequence[Block], p: np.ndarray
) -> tuple[cp.Expression, float]:
    """The summand whose own Hessian has the smallest eigenvalue."""
    from cvxpy.atoms.affine.add_expr import AddExpression

    parts = list(expression.args) if isinstance(expression, AddExpression) else [expression]
    parts = [part for part in parts if part.is_scalar()]
    if not parts or p.size != blocks[2].size:
        return expression, np.nan
    product = jvp(vjp(lower(parts, blocks), ("y",)), ("y",))
    n, origin = blocks[1].size, np.zeros(blocks[1].size)
    x = np.full(blocks[0].size, 0.5)
    found = []
    for index in range(len(parts)):
        weights = np.zeros(len(parts))
        weights[index] = 1.0
        run = MatrixProbe(n, n).full(lambda v, w=weights: product(x, origin, p, w, v))  # type: ignore[misc]
        found.append(smallest_eigenvalue(run) if np.isfinite(run.data).all() else np.inf)
    worst = int(np.argmin(found))
    return parts[worst], found[worst]
