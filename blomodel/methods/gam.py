"""GAM: projected steps along implicit gradients through the lower level's active set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from blomodel.kernels.loops import gam as kernel
from blomodel.methods.first_order.arrays import filled, given
from blomodel.methods.first_order.constrained import ConstrainedLower
from blomodel.methods.first_order.frame import first_order_run
from blomodel.methods.first_order.scheduled import Scheduled
from blomodel.methods.requirements.needs import formula_for_x, small_kkt_matrix
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule
from blomodel.methods.run.slices import run_in_slices
from blomodel.methods.run.stopping import StopSettings
from blomodel.methods.search.projected_descent import ProjectedDescent
from blomodel.reformulations.forms.reduced_penalty import SAME, shortest_multipliers
from blomodel.solvers.answer import InnerStatus

LOWER_TOLERANCE = 1e-10  # residual of the KKT conditions at which a lower solve ends


@method
@dataclass(frozen=True, kw_only=True)
class Gam(StopSettings):
    r"""Gradient approximation for constrained lower levels.

    Where the active rows A do not change, the lower answer is smooth in x, and

    .. math:: \nabla\varphi = \nabla_x f - L_{xy} u - J_{A,x}^T v, \qquad
              \begin{pmatrix} L_{yy} & J_A^T \\ J_A & 0 \end{pmatrix}
              \begin{pmatrix} u \\ v \end{pmatrix} = \begin{pmatrix} \nabla_y f \\ 0 \end{pmatrix}.

    Where rows are about to change sides, the gradients of both sides are mixed to the shortest one. A
    step that leaves the x with lower answers is projected onto them; there v is not unique and taken
    short.
    """

    name: ClassVar[str] = "gam"
    summary: ClassVar[str] = "implicit gradients through the active set of the lower level"
    assumes: ClassVar[str] = "lower level strongly convex in y, LICQ, smooth; no upper row contains y"
    claims: ClassVar[str] = "a stationary point of f(x, y(x)) where the active set is stable"
    reference: ClassVar[str] = "Xu and Zhu (2023)"
    costs: ClassVar[str] = "one lower solve and one linear system of the size of y and the active rows"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.COUPLED_LOWER, Capability.LOWER_CONSTRAINTS, Capability.PROX_TERMS, Capability.KINKS}
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset(
        {Assumption.SMOOTH_LOWER, Assumption.STRONGLY_CONVEX}
    )
    needs: ClassVar[tuple[Need, ...]] = (small_kkt_matrix, formula_for_x)

    step_x: float | Schedule | None = setting(
        None, "step in x; None: by a line search", aliases=("step_size",), above=0.0
    )
    max_steps: int = setting(1000, "largest number of steps in x", minimum=1)
    newton_steps: int = setting(30, "active set steps of each lower solve", minimum=1, own=True)

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        lower = ConstrainedLower(run)
        n_x, n_y, n_rows = run.model.x.size, run.model.y.size, lower.n_rows
        x, y, weights = lower.start()
        oracle = lower.oracle
        settings = filled(
            kernel.N_SETTINGS,
            {
                kernel.STEP_X: given(self.step_x),
                kernel.TOLERANCE: LOWER_TOLERANCE,
                kernel.NEWTON_STEPS: self.newton_steps,
                kernel.ENDS_WITHOUT_ANSWER: 1.0,
            },
        )
        memory = np.zeros(kernel.N_MEMORY)
        memory[kernel.NEXT_STEP] = 1.0
        memory[kernel.VALUE] = float(run.model.f(x, y, run.p)[0])
        space = np.zeros((kernel.N_ROWS, max(n_x, n_y + n_rows, n_rows + 1, 1)))
        matrix = np.zeros((n_y + n_rows, n_y + n_rows))
        trial = space[kernel.TRIAL_X, :n_x]

        def n_done() -> int:
            return int(memory[kernel.DONE])

        def loop(count: int) -> float:
            before = n_done()
            residual = kernel.gam(
                count, oracle.f, oracle.f_grad_x, oracle.f_grad_y, lower.both, lower.slope_x,
                lower.slope_y, lower.curve_xy, lower.curve_yy, lower.x_set.spec, lower.low, settings, x,
                y, weights, memory, space, matrix,
            )  # fmt: skip
            ended_early = memory[kernel.IS_WITHOUT_ANSWER] == 1.0
            if ended_early and run.solve_lower(trial, y)[0].status.has_point:
                # Only the active set method found no answer there: shorter steps will do.
                settings[kernel.ENDS_WITHOUT_ANSWER] = memory[kernel.IS_WITHOUT_ANSWER] = 0.0
                return loop(count + before - n_done())
            return float(residual)

        with first_order_run(lower, self.name, x, y):
            run_in_slices(
                run,
                Scheduled(loop, settings, {kernel.STEP_X: self.step_x}),
                max_iterations=self.max_steps,
                tolerance=run.tolerance * 0.1,
                report=lambda: {"value": float(memory[kernel.VALUE])},
                n_done=n_done,
            )
        if memory[kernel.IS_WITHOUT_ANSWER] == 1.0:
            self._keep_to_answers(run, x)

    def _keep_to_answers(self, run: Run, x: np.ndarray) -> None:
        """Go on from x with answers by a solver, and projections onto the x that have one."""
        run.note(f"{self.name}: its steps led to x without lower answer, so that a solver took over")
        descent = ProjectedDescent(run, self.name, ActiveGradient(run), lambda found: {})
        try:
            if self.step_x is None:
                descent.backtrack(x, 1.0, self.max_steps)
            else:
                descent.fixed_steps(x, self.step_x, self.max_steps)
        finally:
            if descent.last is not None:
                run.propose(descent.last.x, descent.last.y, f"{self.name}, by a solver")


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
        answer, _ = run.solve_lower(x, self._near)
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
