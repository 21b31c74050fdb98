r"""The reduced value-function penalty of the papers.

.. math:: F_\gamma(x) = \gamma\,(v_\gamma(x) - v(x)), \qquad
          v_\gamma(x) = \min_y \{ f(x,y)/\gamma + g(x,y) : c(x,y) \le 0 \}, \qquad
          v(x) = \min_y \{ g(x,y) : c(x,y) \le 0 \}.

Upper constraints that hold y join the first minimisation: the optimistic choice of y may be
steered by them, the lower level's own value may not. With coupled constraints the gradient of
either value carries the multipliers of its own minimisation (envelope theorem).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from blomodel.model.model import Model
from blomodel.solvers.answer import Answer, InnerStatus

LIGHT = 1e-4  # weight of rows that do not pin y down
SAME = 1e-6  # relative distance below which two answers are one, and a row is tight


@dataclass(frozen=True)
class PenaltyEvaluation:
    """F_gamma at one x."""

    x: np.ndarray
    gamma: float
    value: float  # infinite where one of the two minimisations has no solution
    gradient: np.ndarray
    y: np.ndarray  # minimises f/gamma + g
    gap: float  # g(x, y) - v(x): what the lower level could still gain
    lower_y: np.ndarray  # minimises g
    lower_multipliers: np.ndarray
    multipliers: np.ndarray  # of the lower rows in the penalised minimisation
    lower_status: InnerStatus

    @property
    def is_finite(self) -> bool:
        """Whether both minimisations had solutions."""
        return bool(np.isfinite(self.value))


class ReducedPenalty:
    """Evaluates F_gamma and its gradient by two parametric programs."""

    evaluations: int

    def __init__(self, model: Model, p: np.ndarray) -> None:
        self.model = model
        self.p = p
        self.evaluations = 0

    def __call__(self, x: np.ndarray, gamma: float) -> PenaltyEvaluation:
        """F_gamma, its gradient and both minimisers at x."""
        model, p = self.model, self.p
        self.evaluations += 1
        x = np.ascontiguousarray(x, dtype=float)
        lower = model.lower_program.solve(x, p)
        if not _usable(lower):
            return self._infinite(x, gamma, lower, lower)
        weights = (1.0 / gamma, 1.0)
        penalised = model.penalised_program.solve(x, p, weights)
        if not _usable(penalised):
            return self._infinite(x, gamma, lower, penalised)
        slope = model.penalised_program.gradient(x, p, weights, penalised)
        slope = gamma * (slope - model.lower_program.gradient(x, p, (1.0,), lower))
        gap = float(model.g(x, penalised.y, p)[0]) - lower.value
        return PenaltyEvaluation(
            x=x,
            gamma=gamma,
            # f + gamma * gap loses fewer digits than gamma * (v_gamma - v).
            value=float(model.f(x, penalised.y, p)[0]) + gamma * gap,
            gradient=slope,
            y=penalised.y,
            gap=gap,
            lower_y=lower.y,
            lower_multipliers=model.split_duals(lower.duals),
            multipliers=model.split_duals(penalised.duals),
            lower_status=lower.status,
        )

    def with_chosen_multipliers(self, found: PenaltyEvaluation) -> PenaltyEvaluation:
        """The same point with other multipliers, where x lies at the edge of the x with lower answers.

        There the lower constraints leave one y to both levels, multipliers are not unique, and the
        gradient holds what the solver happened to leave, times gamma. Here it is that of the pair with
        the shortest difference.
        """
        model, p = self.model, self.p
        distance = np.abs(found.y - found.lower_y).max(initial=0)
        is_one = distance <= SAME * (1 + np.abs(found.y).max(initial=0))
        if not (found.is_finite and is_one and model.has_smooth_kkt):
            return found
        parts = [rows.linearise(found.x, found.lower_y, p) for rows in (model.lower_in, model.lower_eq)]
        scale = 1 + np.abs(found.x).max(initial=0)
        tight = np.concatenate([parts[0].value >= -SAME * scale, np.full(len(model.lower_eq), True)])
        in_y = sp.vstack([part.in_y for part in parts], format="csr")[tight].toarray()
        difference = found.gamma * (found.multipliers - found.lower_multipliers)[tight]
        in_x = sp.vstack([part.in_x for part in parts], format="csr")[tight]
        n_in = int(tight[: len(model.lower_in)].sum())
        wish = in_x @ model.f_grad(found.x, found.lower_y, p)[: found.x.size]
        shortest = shortest_multipliers(in_y, in_y.T @ difference, n_in, wish)
        if shortest is None:
            return found
        return replace(found, gradient=found.gradient + in_x.T @ (shortest - difference))

    def _infinite(
        self, x: np.ndarray, gamma: float, lower: Answer, penalised: Answer
    ) -> PenaltyEvaluation:
        n_x, n_y = self.model.x.size, self.model.y.size
        n_rows = self.model.n_lower_rows
        return PenaltyEvaluation(
            x=x,
            gamma=gamma,
            value=np.inf,
            gradient=np.zeros(n_x),
            y=lower.y if _usable(lower) else np.zeros(n_y),
            gap=np.inf,
            lower_y=lower.y if _usable(lower) else np.zeros(n_y),
            lower_multipliers=self.model.split_duals(lower.duals)
            if _usable(lower)
            else np.zeros(n_rows),
            multipliers=np.zeros(n_rows),
            lower_status=lower.status,
        )


def _usable(answer: Answer) -> bool:
    return answer.status in (InnerStatus.OPTIMAL, InnerStatus.INACCURATE)


def shortest_multipliers(
    in_y: np.ndarray, slope: np.ndarray, n_in: int, wish: np.ndarray
) -> np.ndarray | None:
    """The shortest m with in_y' m = slope, mostly on rows that pin y down; None where none does.

    Rows pin y down when nonnegative multiples of their slopes cancel: no y satisfies them more than
    just. Their multipliers can grow without limit, so that differences of them have any sign.

    Parameters
    ----------
    in_y : array
        Slopes in y of the tight rows, the ``n_in`` inequalities first.
    wish : array
        How the rows change along grad_x f. Those that a step against it loosens carry multipliers only
        where the others cannot.
    """
    from scipy.optimize import linprog

    n_rows = len(in_y)
    if np.linalg.matrix_rank(in_y, tol=1e-9 * (1 + np.abs(in_y).max(initial=0))) == n_rows:
        return None
    # The cancelling combination with as many rows as possible: each counts up to 1.
    free = n_rows - n_in
    found = linprog(
        np.concatenate([-np.ones(n_in), np.zeros(n_in + free)]),
        A_eq=np.hstack([in_y[:n_in].T, in_y[:n_in].T, in_y[n_in:].T]),
        b_eq=np.zeros(in_y.shape[1]),
        bounds=[(0, 1)] * n_in + [(0, None)] * n_in + [(None, None)] * free,
    )
    if found.status != 0 or -found.fun < 0.5:
        return None
    weight = np.full(n_rows, LIGHT)
    weight[:n_in][(found.x[:n_in] > 0.5) & (wish[:n_in] <= 0)] = 1.0
    weight[n_in:] = 1.0
    return weight * np.linalg.lstsq(in_y.T * weight, slope, rcond=1e-12)[0]
