"""f(x, y(x)) and its gradient through the lower level's active rows, with answers from a solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from blomodel.inner.answer import InnerStatus
from blomodel.methods.run import Run
from blomodel.reformulations.value_function import SAME, shortest_multipliers


@dataclass(frozen=True)
class ActiveEvaluation:
    """f(x, y(x)) at one x; the value is infinite where there is no lower answer."""

    x: np.ndarray
    y: np.ndarray
    value: float
    gradient: np.ndarray
    lower_status: InnerStatus


class ActiveGradient:
    """Evaluates f(x, y(x)) and its gradient when the rows that are tight stay tight."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._near = np.zeros(run.model.y.size)

    def __call__(self, x: np.ndarray) -> ActiveEvaluation:
        """Value and gradient at x."""
        run, model, p = self.run, self.run.model, self.run.p
        run.evaluations += 1
        answer, _ = model.solve_lower(x, p, self._near)
        if not answer.status.has_point:
            return ActiveEvaluation(x, self._near, np.inf, np.zeros(x.size), answer.status)
        y = self._near = np.array(answer.y, dtype=float)
        parts = [rows.linearise(x, y, p) for rows in (model.lower_in, model.lower_eq)]
        multipliers = model.split_duals(answer.duals)
        scale = 1 + max(np.abs(x).max(initial=0), np.abs(y).max(initial=0))
        is_tight = (parts[0].value >= -SAME * scale) | (multipliers[: len(parts[0].value)] > SAME)
        tight = np.concatenate([is_tight, np.full(len(model.lower_eq), True)])
        in_x = sp.vstack([part.in_x for part in parts], format="csr")[tight]
        in_y = sp.vstack([part.in_y for part in parts], format="csr")[tight].toarray()
        both, within = model.lower_hessian(x, y, p, multipliers)
        slope = model.f_grad(x, y, p)
        wish = in_x @ slope[: x.size]
        u, v = _adjoint(within.toarray(), in_y, slope[x.size :], int(is_tight.sum()), wish)
        gradient = slope[: x.size] - both.T @ u - in_x.T @ v
        return ActiveEvaluation(x, y, float(model.f(x, y, p)[0]), gradient, answer.status)


def _adjoint(
    hessian: np.ndarray, rows: np.ndarray, slope: np.ndarray, n_in: int, wish: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Solve [H A'; A 0] (u, v) = (slope, 0) by the null space of A; v is short if not unique."""
    _, values, right = np.linalg.svd(rows, full_matrices=True)
    rank = int((values > 1e-9 * max(values.max(initial=0), 1e-300)).sum())
    free = right[rank:].T
    u = free @ np.linalg.lstsq(free.T @ hessian @ free, free.T @ slope, rcond=1e-12)[0]
    rest = slope - hessian @ u
    v = shortest_multipliers(rows, rest, n_in, wish) if rank < len(rows) else None
    return u, np.linalg.lstsq(rows.T, rest, rcond=1e-9)[0] if v is None else v
