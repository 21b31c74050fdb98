"""PBGD-Free where lower constraints hold x: y by a convex solver, x kept where it has answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blomodel.compiler.derivatives import hessian
from blomodel.errors import LowerLevelError
from blomodel.inner.answer import Answer
from blomodel.kernels.linalg import advance
from blomodel.methods.constants import safe_step
from blomodel.methods.constrained import spectral_norm
from blomodel.methods.domain import project_onto_x
from blomodel.methods.first_order import first_point
from blomodel.methods.run import Run
from blomodel.methods.starts import nearest_allowed
from blomodel.reformulations.value_function import ReducedPenalty

STAGES = (1.0, 10.0, 100.0, 1000.0)  # penalty weights, where none is given


class CoupledFree:
    """Algorithm 3 with Y(x), inner-loop version: its Min Solver is a convex program's.

    Attributes
    ----------
    x, y : array
        The last point.
    n_returns : int
        Steps that left the x with lower answers and were projected onto them.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.n_returns = run, 0
        self.x, self.y = first_point(run)

    def iterate(
        self, gammas: Sequence[float], step_size: float | None, max_steps: int
    ) -> None:
        """Steps for each penalty weight, from where the last one ended."""
        run, n_x = self.run, self.run.model.x.size
        self.x, self.y = self._reach(self.x, gammas[0])
        curvature = spectral_norm(hessian(run.model.f, ("x",), (self.x, self.y, run.p)))
        pace = np.array([safe_step(curvature), 0.0, 0.0])
        old_x, old_slope = np.zeros(n_x), np.zeros(n_x)
        for gamma in gammas:
            pace[1:] = 0.0
            self.x, self.y = self._reach(self.x, gamma)  # line 3 of Algorithm 3
            for _ in range(max_steps):
                slope = run.model.f_grad(self.x, self.y, run.p)[:n_x]
                run.evaluations += 1
                wish = self.x.copy()
                step = advance(step_size or 0.0, pace, slope, wish, old_x, old_slope)
                x, y = self._reach(wish, gamma)  # line 4, and line 3 of the next iteration
                moved = float(np.abs(x - self.x).max(initial=0)) / step
                self.x, self.y = x, y
                value = float(run.model.f(x, y, run.p)[0])
                run.step(x=x, value=value, gamma=gamma, step=step, stationarity=moved)
                if moved <= run.tolerance * (1 + np.abs(x).max(initial=0)):
                    break

    def _reach(self, wish: np.ndarray, gamma: float) -> tuple[np.ndarray, np.ndarray]:
        """The nearest x of X with a lower answer, and the minimiser of f / gamma + g there."""
        run = self.run
        x = project_onto_x(run, wish)
        answer = self._penalised(x, gamma)
        if not answer.status.has_point:
            self.n_returns += 1
            nearest = nearest_allowed(run, wish)
            if nearest is not None:
                x = nearest[0]
                answer = self._penalised(x, gamma)
        if not answer.status.has_point:
            raise LowerLevelError(
                f"pbgd-free: the steps along grad_x f lead to x = {x}, where the lower level is "
                f"{answer.status.value}, and no way back was found; try blocc or auto.",
                x,
            )
        return x, answer.y

    def _penalised(self, x: np.ndarray, gamma: float) -> Answer:
        run = self.run
        run.check_limits()
        run.evaluations += 1
        answer = run.model.penalised_program.solve(x, run.p, (1.0 / gamma, 1.0))
        run.tried.append((x, answer.status))
        return answer

    def left_out(self, gamma: float) -> tuple[float, float]:
        """Norms at the last x: of what the step leaves out of the slope of F_gamma, and of f_x."""
        run = self.run
        penalty = ReducedPenalty(run.model, run.p)
        found = penalty.with_chosen_multipliers(penalty(self.x, gamma))
        if not found.is_finite:
            return 0.0, 0.0
        own = run.model.f_grad(self.x, found.y, run.p)[: self.x.size]
        return float(np.linalg.norm(found.gradient - own)), float(np.linalg.norm(own))
