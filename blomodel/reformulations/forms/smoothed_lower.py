r"""The smoothed lower level: complementarity relaxed to products equal to mu.

.. math:: F_\mu(x) = f(x, y_\mu(x)), \qquad
          \nabla_y g + \lambda\cdot\nabla_y c + \nu\cdot\nabla_y h = 0, \quad
          -\lambda_i c_i(x,y) = \mu, \quad h(x,y) = 0.

:math:`y_\mu(x)` is the point that an interior point method passes at the barrier weight
:math:`\mu`. It is smooth in x, and for a large :math:`\mu` the rows bend y long before they are
active, so that descent on :math:`F_\mu` sees past the kinks at which descent on
:math:`f(x, y(x))` stops. The lower level must have linear KKT conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg.lapack as lapack
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.model.model import Model
from blomodel.programs.adjoint import factorised

Array = np.ndarray

MAX_NEWTON_STEPS = 60
ACCURACY = 1e-9  # relative residual of the linear conditions
CENTRED = 1e-6  # largest relative error of a product that shall be mu
TO_THE_BOUNDARY = 0.99  # share of the longest step that keeps slacks and multipliers positive


@dataclass(frozen=True)
class SmoothedEvaluation:
    """F_mu at one x."""

    x: Array
    value: float  # infinite where the smoothed lower level has no solution
    gradient: Array
    y: Array
    multipliers: Array  # of the lower inequalities, then of the equalities

    @property
    def is_finite(self) -> bool:
        """Whether the smoothed lower level had a solution."""
        return bool(np.isfinite(self.value))


@dataclass
class _Iterate:
    y: Array
    slack: Array
    pressure: Array  # multipliers of the inequalities
    pull: Array  # multipliers of the equalities


class SmoothedLower:
    """Evaluates F_mu and its gradient by Newton's method on the smoothed KKT conditions."""

    model: Model
    p: Array
    cross: Any
    hessian: Any
    slope: np.ndarray
    in_x: Any
    in_y: Any
    in_value: np.ndarray
    on_x: Any
    on_y: Any
    on_value: np.ndarray
    evaluations: int

    def __init__(self, model: Model, p: Array) -> None:
        assert model.has_linear_kkt
        self.model, self.p = model, p
        x, y = np.zeros(model.x.size), np.zeros(model.y.size)
        no_multipliers = np.zeros(model.n_lower_rows)
        cross, hessian = model.lower_hessian(x, y, p, no_multipliers)
        inside, on = model.lower_in.linearise(x, y, p), model.lower_eq.linearise(x, y, p)
        # Up to this size plain matrices cost less than sparse arrays of the same numbers.
        self._is_plain = limits.DENSE_ACTIVE_SET.allows(model.lower_size)
        self.cross, self.hessian = self._kept(cross), self._kept(hessian)
        self.slope = model.lower_stationarity(x, y, p, no_multipliers)
        self.in_x, self.in_y, self.in_value = *map(self._kept, (inside.in_x, inside.in_y)), inside.value
        self.on_x, self.on_y, self.on_value = *map(self._kept, (on.in_x, on.in_y)), on.value
        self.evaluations = 0
        self._last: _Iterate | None = None

    def _kept(self, matrix: sp.csr_array) -> Any:
        return matrix.toarray() if self._is_plain else sp.csr_array(matrix)

    def __call__(self, x: Array, mu: float) -> SmoothedEvaluation:
        """F_mu, its gradient and the smoothed answer at x."""
        self.evaluations += 1
        x = np.ascontiguousarray(x, dtype=float)
        model, n_x = self.model, self.model.x.size
        at = self._solve(x, mu, self._last) if self._last is not None else None
        at = at or self._solve(x, mu, None)
        if at is None:
            nothing = np.zeros(self.in_value.size + self.on_value.size)
            return SmoothedEvaluation(x, np.inf, np.zeros(n_x), np.zeros(model.y.size), nothing)
        self._last = at
        weights = at.pressure / at.slack
        solve = self._factor(weights)
        assert solve is not None  # the same matrix has just been factored
        slope = model.f_grad(x, at.y, self.p)
        adjoint, equal_adjoint = solve(slope[n_x:], np.zeros(self.on_value.size))
        gradient = slope[:n_x] - self.cross.T @ adjoint - self.on_x.T @ equal_adjoint
        gradient -= self.in_x.T @ (weights * (self.in_y @ adjoint))
        return SmoothedEvaluation(
            x=x,
            value=float(model.f(x, at.y, self.p)[0]),
            gradient=gradient,
            y=at.y,
            multipliers=np.concatenate([at.pressure, at.pull]),
        )

    def _solve(self, x: Array, mu: float, start: _Iterate | None) -> _Iterate | None:
        """Newton's method from the last answer, or from scratch; None where it does not converge."""
        slope = self.slope + self.cross @ x
        inside, on = self.in_value + self.in_x @ x, self.on_value + self.on_x @ x
        if start is None:
            ones = np.ones(inside.size)
            start = _Iterate(np.zeros(slope.size), ones, mu * ones, np.zeros(on.size))
        y, slack, pressure, pull = start.y, start.slack, start.pressure, start.pull
        scale = 1 + max(np.abs(part).max(initial=0) for part in (slope, inside, on))
        for _ in range(MAX_NEWTON_STEPS):
            slope_left = self.hessian @ y + slope + self.in_y.T @ pressure + self.on_y.T @ pull
            rows_left = self.in_y @ y + inside + slack
            equal_left = self.on_y @ y + on
            products_left = slack * pressure - mu
            worst = max(np.abs(part).max(initial=0) for part in (slope_left, rows_left, equal_left))
            size = scale + max(np.abs(y).max(initial=0), pressure.max(initial=0))
            if worst <= ACCURACY * size and np.abs(products_left).max(initial=0) <= CENTRED * mu:
                return _Iterate(y, slack, pressure, pull)
            solve = self._factor(pressure / slack)
            if solve is None:
                return None
            shift = (pressure * rows_left - products_left) / slack
            step, pull_step = solve(-slope_left - self.in_y.T @ shift, -equal_left)
            slack_step = -rows_left - self.in_y @ step
            pressure_step = -(products_left + pressure * slack_step) / slack
            length = _longest_step((slack, slack_step), (pressure, pressure_step))
            if not np.isfinite(length * np.abs(step).sum()) or length < 1e-10:
                return None
            y, pull = y + length * step, pull + length * pull_step
            slack, pressure = slack + length * slack_step, pressure + length * pressure_step
        return None

    def _factor(self, weights: Array) -> Callable[[Array, Array], tuple[Array, Array]] | None:
        """Solver for [H E'; E 0] (a, b) = (r, s) with H = Q + A' diag(weights) A; None if singular."""
        if not self._is_plain:
            curved = self.in_y.T @ (sp.diags_array(weights) @ self.in_y)
            return factorised(sp.csr_array(self.hessian + curved), self.on_y)
        matrix = self.hessian + (self.in_y.T * weights) @ self.in_y
        equal = self.on_y
        # E'E changes nothing where E a = s holds, and makes H definite where only E bounds y.
        pull = 1 + np.abs(matrix).max(initial=0) if len(equal) else 0.0
        if len(equal):
            matrix = matrix + pull * (equal.T @ equal)
        cholesky = _cholesky(matrix)
        if cholesky is None:
            return None
        if not len(equal):
            return lambda right, _: (cholesky(right), np.zeros(0))
        image = cholesky(equal.T)
        schur = _cholesky(equal @ image)
        if schur is None:
            return None

        def solve(right: Array, equal_right: Array) -> tuple[Array, Array]:
            alone = cholesky(right + pull * (equal.T @ equal_right))
            multipliers = schur(equal @ alone - equal_right)
            return alone - image @ multipliers, multipliers

        return solve


def _cholesky(matrix: Array) -> Callable[[Array], Array] | None:
    """Solver for a positive definite matrix, by LAPACK itself: wrappers cost as much at this size."""
    factor, info = lapack.dpotrf(matrix)
    if info != 0:
        return None
    return lambda right: lapack.dpotrs(factor, right)[0]


def _longest_step(*pairs: tuple[Array, Array]) -> float:
    """The step at which every value stays positive, one at most."""
    length = 1.0
    for values, steps in pairs:
        falling = steps < 0
        if np.any(falling):
            length = min(length, TO_THE_BOUNDARY * float((-values[falling] / steps[falling]).min()))
    return length
