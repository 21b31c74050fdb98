"""GAM: projected steps along implicit gradients through the lower level's active set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.loops.gam import gam
from blomodel.methods.constrained import ConstrainedLower
from blomodel.methods.needs import check_needs
from blomodel.methods.registry import method, setting
from blomodel.methods.run import Run
from blomodel.methods.slices import run_in_slices


@method
@dataclass(frozen=True, kw_only=True)
class Gam:
    r"""Gradient approximation for constrained lower levels.

    Where the active rows A do not change, the lower answer is smooth in x, and

    .. math:: \nabla\varphi = \nabla_x f - L_{xy} u - J_{A,x}^T v, \qquad
              \begin{pmatrix} L_{yy} & J_A^T \\ J_A & 0 \end{pmatrix}
              \begin{pmatrix} u \\ v \end{pmatrix} = \begin{pmatrix} \nabla_y f \\ 0 \end{pmatrix}.

    Where rows are about to change sides, the gradients of both sides are mixed to the shortest one.
    """

    name: ClassVar[str] = "gam"
    summary: ClassVar[str] = "implicit gradients through the active set of the lower level"
    assumes: ClassVar[str] = "lower level strongly convex in y, LICQ, smooth; no upper row holds y"
    claims: ClassVar[str] = "a stationary point of f(x, y(x)) where the active set is stable"
    reference: ClassVar[str] = (
        "Xu and Zhu, Efficient gradient approximation method for constrained bilevel optimization "
        "(AAAI 2023)"
    )

    step_size: float | None = setting(None, "step in x; None: by a line search", minimum=0.0)
    max_steps: int = setting(1000, "largest number of steps in x", minimum=1)
    newton_steps: int = setting(30, "active set steps of each lower solve", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        check_needs(run, self)
        lower = ConstrainedLower(run, self.name)
        n_x, n_y, n_rows = run.model.x.size, run.model.y.size, lower.n_rows
        x, y, weights = lower.start()
        oracle = lower.oracle
        settings = np.array([self.step_size or 0.0, 1e-10, float(self.newton_steps)])
        memory = np.array([1.0, float(run.model.f(x, y, run.p)[0]), 0.0, 0.0])
        space = np.zeros((21, max(n_x, n_y + n_rows, n_rows + 1, 1)))
        matrix = np.zeros((n_y + n_rows, n_y + n_rows))

        def loop(count: int) -> float:
            return gam(
                count, oracle.f, oracle.f_grad_x, oracle.f_grad_y, lower.both, lower.slope_x,
                lower.slope_y, lower.curve_xy, lower.curve_yy, lower.x_set.spec, lower.low, settings, x,
                y, weights, memory, space, matrix,
            )  # fmt: skip

        run.watch(x, y)
        try:
            run_in_slices(
                run,
                loop,
                max_iterations=self.max_steps,
                tolerance=run.tolerance * 0.1,
                report=lambda: {"value": float(memory[1])},
            )
        finally:
            # The last slice may have ended early.
            run.iterations = int(memory[3])
            lower.propose(x, y, "gam")
