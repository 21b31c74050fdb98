"""Inner problems that are linear or quadratic in y at fixed x, read off their tapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import cvxpy as cp
import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from scipy.sparse.csgraph import connected_components

from blomodel.basics import limits
from blomodel.basics.arrays import largest_in_rows
from blomodel.basics.spectra import diagonal_blocks, extreme_eigenvalues
from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import jacobian, vjp
from blomodel.errors import NonconvexLowerError
from blomodel.programs.lagrangian import Lagrangian
from blomodel.programs.points import corner_points, generic_points
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.solvers.blocks import Part, independent_parts
from blomodel.solvers.cascade import describe
from blomodel.solvers.quadratic import QuadraticSolver
from blomodel.solvers.question import ProblemClass
from blomodel.text.shorten import shorten

_PSD_TOLERANCE = 1e-9  # of the largest entry; below it a negative eigenvalue counts as rounding
_PSD_NOISE = 1e-14  # of the largest entry of a block; below it an entry says nothing
_KEPT_WEIGHTS = 4
WORTH = 3  # how often the products of the terms must exceed those with their Hessian
CANCELLED = 1e-4  # of its parts: a smaller value has lost too many digits


class QuadraticProgram:
    """min_y sum_k weights_k (.5 y'Q_k y + q_k'y + r_k) s.t. Ay <= b; all but y depends on x, p."""

    lagrangian: Lagrangian
    term_expressions: list[cp.Expression]
    name: str
    n: int

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
        self.is_smooth = True
        self.kind = "QP" if (lagrangian.term_facts.degree == 2).any() else "LP"
        # Which coefficients change with x, and which with p: these must be read anew.
        self._Q_moves, self._q_moves = lagrangian.term_changes("x")[[2, 1]]
        self._A_moves, self._b_moves = lagrangian.row_changes("x")[[1, 0]]
        self._Q_needs_p, self._q_needs_p = lagrangian.term_changes("p")[[2, 1]]
        self._A_needs_p = lagrangian.row_changes("p")[1]
        self._grad_y = lagrangian.terms_grad_y
        self._x_bounds, self._points = x_bounds, generic_points(*x_bounds)
        self._p: bytes | None = None
        self._b: np.ndarray | None = None
        self._A: sp.csc_array | None = None
        self._instances: dict[bytes, _Instance] = {}
        self._is_long = not limits.PLAIN_PRODUCTS.allows(lagrangian.terms.n_products)
        self._constant_moves = bool(lagrangian.term_changes("x")[0])
        self._constant: tuple[bytes, float] | None = None  # of the terms at y = 0

    # -- coefficients ------------------------------------------------------------------------

    def hessian(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> sp.csc_array:
        """Q of the weighted terms."""
        if self.kind == "LP":
            return sp.csc_array((self.n, self.n))
        return jacobian(self._grad_y, ("y",), (x, self._origin, p, weights))

    def _read_A(self, x: np.ndarray, p: np.ndarray) -> sp.csc_array:
        rows = self.lagrangian.rows
        if rows is None:
            return sp.csc_array((0, self.n))
        A = jacobian(rows, ("y",), (x, self._origin, p))
        A.data *= self.lagrangian.signs[A.indices]
        return A

    def _read_b(self, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        rows = self.lagrangian.rows
        return np.zeros(0) if rows is None else -self.lagrangian.signs * rows(x, self._origin, p)

    def _prepare(self, p: np.ndarray) -> None:
        """Forget what belongs to other values of the parameters."""
        key = p.tobytes()
        if key == self._p:
            return
        first = self._p is None
        self._p = key
        if first or self._Q_needs_p or self._A_needs_p:
            self._instances.clear()
            self._A = None
        if self._q_needs_p:
            for instance in self._instances.values():
                instance.q = None
        self._b = None
        if self.kind == "QP" and not self._Q_moves and (first or self._Q_needs_p):
            last = np.eye(self.lagrangian.n_terms)[-1]
            self._require_convex_lower(self.hessian(self._points[0], p, last), self._points[0], p)

    def check(self, p: np.ndarray) -> None:
        """Raise NonconvexLowerError when the last term is convex at none of a few points."""
        self._prepare(p)
        if self.kind == "QP" and self._Q_moves:
            last = np.eye(self.lagrangian.n_terms)[-1]
            points = [*self._points, *corner_points(*self._x_bounds)]
            if any(is_positive_semidefinite(self.hessian(point, p, last)) for point in points):
                return
            matrices = [self.hessian(point, p, last) for point in points]
            finite = [np.isfinite(Q.data).all() for Q in matrices]
            shown = int(np.argmax(finite))
            self._require_convex_lower(matrices[shown], points[shown], p)

    @property
    def has_moving_hessian(self) -> bool:
        """Whether the Hessian depends on x."""
        return self.kind == "QP" and bool(self._Q_moves)

    def convexity(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> float:
        """The smallest eigenvalue of the weighted Hessian in y."""
        return smallest_eigenvalue(self.hessian(x, p, weights))

    def is_convex(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> bool:
        """Whether the weighted objective is convex in y at this x."""
        if self.kind == "LP":
            return True
        if not self._Q_moves:
            return self._instance(x, p, weights).is_convex
        return is_positive_semidefinite(self.hessian(x, p, weights))

    def _require_convex_lower(self, Q: sp.csc_array, x: np.ndarray, p: np.ndarray) -> None:
        if is_positive_semidefinite(Q):
            return
        expression = self.term_expressions[-1]
        part, eigenvalue = _most_concave_part(expression, self.lagrangian.blocks, x, p)
        overall = smallest_eigenvalue(Q)
        raise NonconvexLowerError(
            f"{self.name}: the objective {shorten(expression)!r} is not convex in the lower "
            f"variables: its Hessian has the eigenvalue {overall:.4g}"
            + (f" ({shorten(part)!r} alone: {eigenvalue:.4g})" if part is not expression else "")
            + ". Restate it with a positive semidefinite quadratic part, or use method "
            "'value-cuts'."
        )

    @property
    def served_by(self) -> str:
        """Who answers, in the order in which they are asked."""
        return describe(ProblemClass[self.kind], self.n, len(self.lagrangian.equality))

    @cached_property
    def parts(self) -> list[Part]:
        """Sets of variables that no term and no row ties to the others, each with its rows."""
        return independent_parts(*self.lagrangian.patterns)

    # -- solving -----------------------------------------------------------------------------

    def _instance(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> _Instance:
        self._prepare(p)
        key = weights.tobytes()
        instance = self._instances.get(key)
        if instance is None:
            while len(self._instances) >= _KEPT_WEIGHTS:
                del self._instances[next(iter(self._instances))]
            P = self.hessian(x, p, weights)
            if self._A is None:
                self._A = self._read_A(x, p)
            convex = self._Q_moves or self.kind == "LP" or is_positive_semidefinite(P)
            lasting = not (self._Q_moves or self._A_moves)
            solver = None
            if convex:
                equality = self.lagrangian.equality
                solver = QuadraticSolver(P, self._A, equality, lasting, self.parts)
            instance = self._instances[key] = _Instance(P, solver, None, convex)
        return instance

    def solve(
        self, x: np.ndarray, p: np.ndarray, weights: np.ndarray, warm: bool, accuracy: float
    ) -> Answer:
        """Minimise over y at x."""
        instance = self._instance(x, p, weights)
        P, solver = instance.P, instance.solver
        if (self._Q_moves or self._A_moves) and solver is not None:
            P = self.hessian(x, p, weights) if self._Q_moves else P
            A = self._read_A(x, p) if self._A_moves or self._A is None else self._A
            if not np.isfinite(A.data).all():
                reason = "the constraints' coefficients are not finite at this point"
                return Answer.without_point(InnerStatus.FAILED, self.n, reason)
            if np.isfinite(P.data).all():
                solver.set_matrices(P, A)
        if self._Q_moves and solver is not None:
            known = solver.is_strongly_convex and solver.P is P
            instance.is_convex = known or is_positive_semidefinite(P)
        if not instance.is_convex or solver is None:
            if self._Q_moves or not instance.reason:
                instance.reason = self._not_convex(P)
            return Answer.without_point(InnerStatus.FAILED, self.n, instance.reason)
        q = instance.q
        if q is None:
            q = self._grad_y(x, self._origin, p, weights)
            if not self._q_moves:
                instance.q = q
        b = self._b
        if b is None:
            b = self._read_b(x, p)
            if not self._b_moves:
                self._b = b
        answer = solver.solve(q, b, warm, accuracy)
        if answer.multipliers is not None:
            answer.value = self._value_at(x, p, weights, answer.y, P, q)
            answer.duals = self.lagrangian.split(answer.multipliers)
        return answer

    def _value_at(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: np.ndarray,
        y: np.ndarray,
        P: sp.csc_array,
        q: np.ndarray,
    ) -> float:
        """The weighted terms; by P and q where that is cheaper and no digits are lost."""
        terms = self.lagrangian.terms
        if not self._is_long or terms.n_products < WORTH * P.nnz:
            return float(weights @ terms(x, y, p))
        key = p.tobytes() + weights.tobytes() + (x.tobytes() if self._constant_moves else b"")
        if self._constant is None or self._constant[0] != key:
            self._constant = key, float(weights @ terms(x, self._origin, p))
        parts = self._constant[1], float(q @ y), 0.5 * float(y @ (P @ y))
        if abs(sum(parts)) < CANCELLED * max(map(abs, parts)):
            return float(weights @ terms(x, y, p))
        return sum(parts)

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
    q: np.ndarray | None  # None until read, and always when it moves with x
    is_convex: bool
    reason: str = ""  # why not, once it was asked for: it takes an eigenvalue


def rounding_of(Q: sp.sparray) -> np.ndarray:
    """What rounding may have cost on a symmetric matrix's diagonal, from the largest entry of each row.

    One large row does not excuse negative curvature in the others, and least of all in variables that
    it never meets: there is no rounding between these.
    """
    rows = sp.csr_array(Q)
    largest = largest_in_rows(rows)
    rows.eliminate_zeros()
    count, block = connected_components(rows, directed=False)
    in_block = np.zeros(count)
    np.maximum.at(in_block, block, largest)
    shift = _PSD_TOLERANCE * largest + _PSD_NOISE * in_block[block]
    return np.where(largest > 0, shift, 1.0)  # a row of zeros, which any number keeps apart


def is_positive_semidefinite(Q: sp.csc_array) -> bool:
    """Whether Q + shift has a Cholesky factor, the shift standing for rounding."""
    n = Q.shape[0]
    if n == 0 or Q.nnz == 0:
        return True
    scale = float(np.abs(Q.data).max())
    if scale == 0.0:
        return True
    if not np.isfinite(scale):
        return False
    Q = _without_empty(Q)
    n = Q.shape[0]
    diagonal = Q.diagonal()
    is_diagonal = np.count_nonzero(diagonal) == np.count_nonzero(Q.data)
    is_dense = limits.DENSE_CHOLESKY.allows(n) or Q.nnz > 0.15 * n * n
    # Most matrices are definite, and need no allowance for rounding, which takes longer to find.
    if diagonal.min() >= 0 and (is_diagonal or (is_dense and _has_dense_factor(Q))):
        return True
    shift = rounding_of(Q)
    if np.any(diagonal < -shift):
        return False
    if is_diagonal:
        return True
    if is_dense:
        return _has_dense_factor(Q, shift)
    shifted = sp.csc_array((Q + Q.T) / 2 + sp.diags_array(shift))
    try:
        # Without pivoting off the diagonal, U carries the pivots of LDL', whose signs are those of
        # the eigenvalues (Sylvester).
        factor = spl.splu(
            shifted, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
    except RuntimeError:
        return False
    return bool((factor.U.diagonal() > 0).all() and (factor.perm_r == factor.perm_c).all())


def _without_empty(Q: sp.csc_array) -> sp.csc_array:
    """A symmetric matrix without variables that have no curvature: zeros have no Cholesky factor."""
    is_curved = np.diff(Q.indptr) > 0
    is_curved[Q.indices] = True
    if is_curved.all():
        return Q
    place, n = np.cumsum(is_curved) - 1, int(np.count_nonzero(is_curved))
    begin = np.append(Q.indptr[:-1][is_curved], Q.indptr[-1])
    return sp.csc_array((Q.data, place[Q.indices], begin), shape=(n, n))


def _has_dense_factor(Q: sp.csc_array, shift: np.ndarray | float = 0.0) -> bool:
    """Whether Q + shift has a Cholesky factor, as a full matrix."""
    dense = Q.toarray(order="F")
    dense = np.asfortranarray((dense + dense.T) / 2)
    dense.flat[:: len(dense) + 1] += shift
    return bool(scipy.linalg.lapack.dpotrf(dense, lower=1, overwrite_a=1)[1] == 0)


def smallest_eigenvalue(Q: sp.csc_array) -> float:
    """The smallest eigenvalue of a symmetric matrix."""
    n = Q.shape[0]
    if n == 0 or Q.nnz == 0:
        return 0.0
    alone, blocks = diagonal_blocks(Q)
    lowest = float(alone.min(initial=np.inf))
    for block in blocks:
        if limits.DENSE_EIGENVALUE.allows(block.shape[0]):
            found = extreme_eigenvalues(block)[0]
        else:
            start = np.random.default_rng(0).standard_normal(block.shape[0])
            options = {"which": "SA", "v0": start, "tol": 1e-6, "return_eigenvectors": False}
            found = float(spl.eigsh(block, 1, **options)[0])
        lowest = min(lowest, found)
    return lowest


def _most_concave_part(
    expression: cp.Expression, blocks: Sequence[Block], x: np.ndarray, p: np.ndarray
) -> tuple[cp.Expression, float]:
    """The summand whose own Hessian has the smallest eigenvalue."""
    from cvxpy.atoms.affine.add_expr import AddExpression

    parts = list(expression.args) if isinstance(expression, AddExpression) else [expression]
    parts = [part for part in parts if part.is_scalar()]
    if not parts or p.size != blocks[2].size:
        return expression, np.nan
    slope = vjp(lower(parts, blocks), ("y",))
    origin = np.zeros(blocks[1].size)
    found = []
    for weights in np.eye(len(parts)):
        Q = jacobian(slope, ("y",), (x, origin, p, weights))
        found.append(smallest_eigenvalue(Q) if np.isfinite(Q.data).all() else np.inf)
    worst = int(np.argmin(found))
    return parts[worst], found[worst]
