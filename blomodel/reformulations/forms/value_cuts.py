r"""A relaxation of the bilevel problem by cuts on the lower level's value.

.. math:: \min_{x,y} f(x,y) \quad \text{s.t. both levels' constraints and} \quad
          g(x,y) \le g(x, y_k) + M \sum_i \max(0, c_i(x, y_k)), \quad k = 1, \dots, K

for lower points :math:`y_k` found so far. A cut says that y must be as good as y_k wherever y_k is
feasible; where it is not, the last term makes the cut fade. Optionally the lower level's KKT
conditions are added, with complementarity relaxed to a level t: they are necessary, so nothing is lost
(under a constraint qualification), and they tie y down between the cuts.
"""

from __future__ import annotations

import numpy as np

from blomodel.compiler.passes.derivatives import dense_jacobian
from blomodel.model.model import Model
from blomodel.solvers.smooth import SmoothProgram

FADE = 1e3  # M: weight of a cut point's infeasibility
SLACK = 1e-9  # relative; keeps a cut through the point itself from having no interior


class ValueCutRelaxation:
    """The relaxation's functions of z = (x, y) or z = (x, y, multipliers), with derivatives."""

    model: Model
    p: np.ndarray
    has_kkt: bool
    n_x: int
    n_y: int
    n_in: int
    n_eq: int
    n_multipliers: int

    def __init__(self, model: Model, p: np.ndarray, *, has_kkt: bool) -> None:
        self.model, self.p, self.has_kkt = model, p, has_kkt
        self.n_x, self.n_y = model.x.size, model.y.size
        self.n_in, self.n_eq = len(model.lower_in), len(model.lower_eq)
        self.n_multipliers = self.n_in + self.n_eq if has_kkt else 0

    def split(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, y and multipliers."""
        end = self.n_x + self.n_y
        return z[: self.n_x], z[self.n_x : end], z[end:]

    def program(self, cuts: list[np.ndarray], level: float) -> SmoothProgram:
        """The relaxation with the given cut points and complementarity level."""
        model, p = self.model, self.p
        (x_low, x_high), (y_low, y_high) = model.bounds(p), model.y_bounds
        multiplier_low = np.zeros(self.n_multipliers)
        multiplier_low[self.n_in :] = -np.inf
        low = np.concatenate([x_low, y_low, multiplier_low])
        high = np.concatenate([x_high, y_high, np.full(self.n_multipliers, np.inf)])

        def value(z: np.ndarray) -> float:
            x, y, _ = self.split(z)
            return float(model.f(x, y, p)[0])

        def gradient(z: np.ndarray) -> np.ndarray:
            x, y, _ = self.split(z)
            return np.concatenate([model.f_grad(x, y, p), np.zeros(self.n_multipliers)])

        return SmoothProgram(
            value=value,
            gradient=gradient,
            inequalities=lambda z: self._inequalities(z, cuts, level),
            inequalities_jacobian=lambda z: self._inequalities_jacobian(z, cuts),
            equalities=self._equalities,
            equalities_jacobian=self._equalities_jacobian,
            bounds=(low, high),
        )

    def _inequalities(self, z: np.ndarray, cuts: list[np.ndarray], level: float) -> np.ndarray:
        model, p = self.model, self.p
        x, y, multipliers = self.split(z)
        rows = model.lower_in.values(x, y, p)
        parts = [model.upper_in.values(x, y, p), rows]
        if self.has_kkt:
            parts.append(-multipliers[: self.n_in] * rows - level)
        if cuts:
            parts.append(float(model.g(x, y, p)[0]) - self._cut_values(x, np.array(cuts)))
        return np.concatenate(parts)

    def _cut_values(self, x: np.ndarray, cuts: np.ndarray) -> np.ndarray:
        model, p = self.model, self.p
        values = model.g.at_each("y", cuts, x, cuts[0], p)[:, 0]
        over = np.maximum(model.lower_in.values_at_each(x, cuts, p), 0).sum(axis=1)
        off = np.abs(model.lower_eq.values_at_each(x, cuts, p)).sum(axis=1)
        return values + FADE * (over + off) + SLACK * (1 + np.abs(values))

    def _inequalities_jacobian(self, z: np.ndarray, cuts: list[np.ndarray]) -> np.ndarray:
        model, p = self.model, self.p
        x, y, multipliers = self.split(z)
        in_point = model.lower_in.dense_jacobian(x, y, p)
        parts = [
            _pad(model.upper_in.dense_jacobian(x, y, p), self.n_multipliers),
            _pad(in_point, self.n_multipliers),
        ]
        if self.has_kkt:
            pressure = multipliers[: self.n_in]
            by_multiplier = np.zeros((self.n_in, self.n_multipliers))
            by_multiplier[:, : self.n_in] = np.diag(-model.lower_in.values(x, y, p))
            parts.append(np.hstack([-pressure[:, None] * in_point, by_multiplier]))
        if cuts:
            rows = np.zeros((len(cuts), self.n_x + self.n_y + self.n_multipliers))
            rows[:, : self.n_x + self.n_y] = model.g_grad(x, y, p)
            rows[:, : self.n_x] -= self._cut_slopes(x, np.array(cuts))
            parts.append(rows)
        return np.vstack(parts)

    def _cut_slopes(self, x: np.ndarray, cuts: np.ndarray) -> np.ndarray:
        model, p = self.model, self.p
        slopes = model.g_grad.at_each("y", cuts, x, cuts[0], p)[:, : self.n_x]
        pulls = (model.lower_in.values_at_each(x, cuts, p) > 0).astype(float)
        signs = np.sign(model.lower_eq.values_at_each(x, cuts, p))
        for rows, weights in ((model.lower_in, pulls), (model.lower_eq, signs)):
            for k in np.flatnonzero(weights.any(axis=1)):
                slopes[k] += FADE * (weights[k] @ rows.dense_jacobian(x, cuts[k], p)[:, : self.n_x])
        return slopes

    def _equalities(self, z: np.ndarray) -> np.ndarray:
        model, p = self.model, self.p
        x, y, multipliers = self.split(z)
        parts = [model.upper_eq.values(x, y, p), model.lower_eq.values(x, y, p)]
        if self.has_kkt:
            parts.append(model.lower_stationarity(x, y, p, multipliers))
        return np.concatenate(parts)

    def _equalities_jacobian(self, z: np.ndarray) -> np.ndarray:
        model, p = self.model, self.p
        x, y, multipliers = self.split(z)
        upper, lower = model.upper_eq.dense_jacobian(x, y, p), model.lower_eq.dense_jacobian(x, y, p)
        parts = [_pad(upper, self.n_multipliers), _pad(lower, self.n_multipliers)]
        if self.has_kkt:
            weights = np.concatenate(([1.0], multipliers))
            curvature = dense_jacobian(model.lagrangian_gradient, ("x", "y"), (x, y, p, weights))
            pressing = model.lower_in.dense_jacobian(x, y, p)[:, self.n_x :].T
            parts.append(np.hstack([curvature, pressing, lower[:, self.n_x :].T]))
        return np.vstack(parts)


def _pad(block: np.ndarray, width: int) -> np.ndarray:
    return np.hstack([block, np.zeros((len(block), width))])
