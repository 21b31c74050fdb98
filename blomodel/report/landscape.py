"""What the upper level sees: its objective at the lower answer, point by point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from blomodel.errors import NonconvexLowerError
from blomodel.methods.search.pieces import is_only_minimiser
from blomodel.model.model import Model

TOLERANCE = 1e-6  # violation of an upper constraint that is not seen
SLACK = 1e-9  # relative, of the lower level when the upper level chooses among its answers


@dataclass
class Landscape:
    """Figures at each of a list of upper points, all stated for minimisation.

    Attributes
    ----------
    x : array (n, n_x)
    value : array (n,)
        phi(x) = f(x, y) at the lower answer y that the upper level likes best.
    y : array (n, n_y)
        That answer; NaN, like the value, where the lower level has none.
    is_allowed : array (n,) of bool
        Whether the upper constraints hold.
    penalised : dict
        For each weight gamma, F_gamma(x) = min_y [f + gamma g] - gamma v(x).
    """

    x: np.ndarray
    value: np.ndarray
    y: np.ndarray
    is_allowed: np.ndarray
    penalised: dict[float, np.ndarray] = field(default_factory=dict)


class UpperView:
    """Evaluates phi, the lower answer and F_gamma at single points."""

    model: Model
    p: np.ndarray

    def __init__(self, model: Model, p: np.ndarray) -> None:
        self.model, self.p = model, p
        self._near = np.zeros(model.y.size)  # where searches of a nonconvex lower level begin
        self._has_choice = not model.is_strictly_convex_below()

    def look(self, x: np.ndarray) -> tuple[float, np.ndarray, float, bool]:
        """phi(x), the lower answer, v(x), and whether the upper constraints hold."""
        model, p = self.model, self.p
        x = np.ascontiguousarray(x, dtype=float)
        answer, is_proven = model.solve_lower(x, p, self._near)
        if not answer.status.has_point:
            return np.nan, np.full(model.y.size, np.nan), np.nan, False
        y = answer.y
        # Where the answer is the only one, the slack would only let f buy a better one.
        if is_proven and self._has_choice and not is_only_minimiser(model, x, p, answer):
            try:
                chosen = model.optimistic_choice.solve(x, p, answer, slack=SLACK)
                y = chosen.y if chosen.status.has_point else y
            except NonconvexLowerError:
                self._has_choice = False  # f is not convex in y: the answer found stands for all
        self._near = y
        scale = 1 + max(np.abs(x).max(initial=0), np.abs(y).max(initial=0))
        worst = max(
            model.upper_in.values(x, y, p).max(initial=0),
            np.abs(model.upper_eq.values(x, y, p)).max(initial=0),
        )
        return float(model.f(x, y, p)[0]), np.array(y), answer.value, worst <= TOLERANCE * scale

    def penalised(self, x: np.ndarray, gamma: float, lower_value: float) -> float:
        """F_gamma(x), given v(x); NaN where it has no value."""
        model, p = self.model, self.p
        answer = model.penalised_program.solve(x, p, weights=(1.0 / gamma, 1.0))
        if not answer.status.has_point:
            return np.nan
        gap = float(model.g(x, answer.y, p)[0]) - lower_value
        return float(model.f(x, answer.y, p)[0]) + gamma * gap


def sample(model: Model, p: np.ndarray, points: np.ndarray, gammas: Sequence[float] = ()) -> Landscape:
    """Evaluate phi, the lower answer and F_gamma at each row of ``points``.

    F_gamma needs a lower level and an f + gamma g that are convex in y; it is left out elsewhere.
    """
    view = UpperView(model, p)
    points = np.ascontiguousarray(points, dtype=float)
    seen = [view.look(x) for x in points]
    landscape = Landscape(
        x=points,
        value=np.array([value for value, *_ in seen]),
        y=np.array([y for _, y, *_ in seen]),
        is_allowed=np.array([is_allowed for *_, is_allowed in seen]),
    )
    try:
        for gamma in gammas:
            landscape.penalised[gamma] = np.array(
                [view.penalised(x, gamma, v) for x, (_, _, v, _) in zip(points, seen, strict=True)]
            )
    except NonconvexLowerError:
        landscape.penalised.clear()
    return landscape
