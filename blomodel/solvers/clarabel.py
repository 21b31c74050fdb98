"""Cone programs by Clarabel, called directly: interior point, accurate, no warm start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

from blomodel.solvers.answer import InnerStatus

_STATUS = {
    "Solved": InnerStatus.OPTIMAL,
    "AlmostSolved": InnerStatus.INACCURATE,
    "PrimalInfeasible": InnerStatus.INFEASIBLE,
    "AlmostPrimalInfeasible": InnerStatus.INFEASIBLE,
    "DualInfeasible": InnerStatus.UNBOUNDED,
    "AlmostDualInfeasible": InnerStatus.UNBOUNDED,
}
# Tolerances tried in turn. The last iterations are few and gain much, but asking for more than the
# problem's conditioning allows can lose a good point on the way, or the sight of infeasibility.
_TOLERANCES = (1e-11, 1e-9, 1e-7)
_USELESS = 1e-5  # residuals above this make a point worthless here
_PROVISIONAL = ("AlmostPrimalInfeasible", "AlmostDualInfeasible")


@dataclass(slots=True)
class ConicResult:
    """Raw result: primal x, dual z and slack s of min .5 x'Px + q'x s.t. Ax + s = b, s in K."""

    status: InnerStatus
    x: np.ndarray
    z: np.ndarray
    s: np.ndarray
    iterations: int
    native: str  # the solver's own word for the outcome
    error: float = 0.0  # largest of relative gap and residuals


def settings(tolerance: float, updatable: bool = False) -> clarabel.DefaultSettings:
    """Options for a tolerance; ``updatable`` gives up presolve to allow new data."""
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.max_threads = 1
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = tolerance
    # An almost-solved answer is still useful here when it is much better than Clarabel's default.
    options.reduced_tol_gap_abs = options.reduced_tol_gap_rel = 1e-6
    options.reduced_tol_feas = 1e-6
    if updatable:
        options.presolve_enable = False
        options.chordal_decomposition_enable = False
    return options


class ClarabelSolver:
    """One cone program whose numbers change but whose sparsity does not."""

    def __init__(self, cones: list[Any]) -> None:
        self.cones = cones
        self._solver: Any = None

    def solve(
        self,
        P: sp.csc_array,
        q: np.ndarray,
        A: sp.csc_array,
        b: np.ndarray,
        accuracy: float = 1e-9,
        reuse: bool = False,
    ) -> ConicResult:
        """Solve; P is the upper triangle. ``reuse`` promises the sparsity of the last call."""
        finite = np.isfinite(q).all() and np.isfinite(P.data).all() and np.isfinite(A.data).all()
        if not finite or np.isnan(b).any():
            return _failure(len(q), len(b), "NotFinite")
        best: ConicResult | None = None
        spent = 0
        for tolerance in _TOLERANCES:
            result = self._attempt(P, q, A, b, tolerance, reuse and tolerance == _TOLERANCES[0])
            spent += result.iterations
            if result.status is InnerStatus.OPTIMAL and result.error > accuracy:
                result.status = InnerStatus.INACCURATE
            if best is None or _rank(result) < _rank(best):
                best = result
            if _is_settled(best, accuracy):
                break
        assert best is not None
        best.iterations = spent
        return best

    def _attempt(
        self,
        P: sp.csc_array,
        q: np.ndarray,
        A: sp.csc_array,
        b: np.ndarray,
        tolerance: float,
        reuse: bool,
    ) -> ConicResult:
        # Presolve removes rows without a bound (b infinite), which an update could not bring back.
        updatable = reuse and bool(np.isfinite(b).all())
        solver = self._solver
        try:
            if updatable and solver is not None and solver.is_data_update_allowed():
                solver.update(P=P, q=q, A=A, b=b)
            else:
                options = settings(tolerance, updatable)
                solver = clarabel.DefaultSolver(P, q, A, b, self.cones, options)
                if updatable:
                    self._solver = solver
            raw = solver.solve()
        except BaseException as error:  # Rust panics do not derive from Exception
            if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
                raise
            self._solver = None
            return _failure(len(q), len(b), str(error) or type(error).__name__)
        native = str(raw.status)
        status = _STATUS.get(native, InnerStatus.FAILED)
        gap = abs(raw.obj_val - raw.obj_val_dual) / max(1.0, abs(raw.obj_val))
        worst = float(np.max([gap, raw.r_prim, raw.r_dual]))
        if status in (InnerStatus.FAILED, InnerStatus.INACCURATE):
            status = InnerStatus.INACCURATE if worst <= _USELESS else InnerStatus.FAILED
        x, z, s = np.array(raw.x), np.array(raw.z), np.array(raw.s)
        if status.has_point and not _residual(P, q, A, b, x, z, s) <= _USELESS:
            status = InnerStatus.FAILED
        return ConicResult(status, x, z, s, int(raw.iterations), native, worst)


def _residual(
    P: sp.csc_array,
    q: np.ndarray,
    A: sp.csc_array,
    b: np.ndarray,
    x: np.ndarray,
    z: np.ndarray,
    s: np.ndarray,
) -> float:
    """Largest residual, measured against the data.

    Clarabel measures against the size of x, too: where x runs off to infinity along a direction in
    which the objective falls, every residual looks small.
    """
    pull = A.T @ z
    slope = P @ x + P.T @ x - P.diagonal() * x + q + pull
    bounded = np.isfinite(b)
    rows = (A @ x + s - b)[bounded]
    dual = np.abs(slope).max(initial=0.0) / max(
        1.0, np.abs(q).max(initial=0.0), np.abs(pull).max(initial=0.0)
    )
    scale = max(1.0, np.abs(b[bounded]).max(initial=0.0), np.abs(s[bounded]).max(initial=0.0))
    return float(np.maximum(dual, np.abs(rows).max(initial=0.0) / scale))


def _is_settled(result: ConicResult, accuracy: float) -> bool:
    if result.status is InnerStatus.INACCURATE and result.error <= accuracy:
        result.status = InnerStatus.OPTIMAL
    unsettled = result.status in (InnerStatus.FAILED, InnerStatus.INACCURATE)
    return not unsettled and result.native not in _PROVISIONAL


def _rank(result: ConicResult) -> tuple[int, float]:
    """Best first: certain outcomes, then points by residual, then suspicions, then nothing."""
    if result.status in (InnerStatus.OPTIMAL, InnerStatus.INACCURATE):
        return 1, result.error
    if result.status is InnerStatus.FAILED:
        return 3, 0.0
    return (2 if result.native in _PROVISIONAL else 0), 0.0


def solve_quadratic(
    P: sp.csc_array,
    q: np.ndarray,
    A: sp.csc_array,
    b: np.ndarray,
    equality: np.ndarray,
    accuracy: float = 1e-9,
) -> ConicResult:
    """Solve min .5 y'Py + q'y s.t. Ay <= b, with = on the rows marked in ``equality``."""
    order = np.argsort(~equality, kind="stable")
    n_equal = int(equality.sum())
    cones = []
    if n_equal:
        cones.append(clarabel.ZeroConeT(n_equal))
    if n_equal < len(b):
        cones.append(clarabel.NonnegativeConeT(len(b) - n_equal))
    rows = sp.csc_array(sp.csr_array(A)[order])
    result = ClarabelSolver(cones).solve(sp.csc_array(sp.triu(P)), q, rows, b[order], accuracy)
    z, s = np.empty_like(result.z), np.empty_like(result.s)
    z[order], s[order] = result.z, result.s
    result.z, result.s = z, s
    return result


def _failure(n: int, m: int, native: str) -> ConicResult:
    return ConicResult(
        InnerStatus.FAILED, np.full(n, np.nan), np.full(m, np.nan), np.full(m, np.nan), 0, native
    )
