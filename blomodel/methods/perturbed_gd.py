"""Perturbed gradient descent on the stationarity of the lower level, by a convex QP in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.fields import N_FIGURES
from blomodel.kernels.linalg import descend_on_g
from blomodel.kernels.loops import perturbed_gd as kernel
from blomodel.methods.first_order.arrays import filled
from blomodel.methods.first_order.barrier import run_barrier
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import set_up
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run

WARM_STEPS = 10000  # at most, before the first iteration
RULES = {"square": kernel.SQUARE, "root": kernel.ROOT}


@method
@dataclass(frozen=True, kw_only=True)
class PerturbedGd:
    r"""Algorithm 1: steps in (x, y) along :math:`-(\nabla f + \lambda\nabla h)`.

    h is the square of the lower slope, and :math:`\lambda` by (8b) makes it fall at the rate
    :math:`\alpha\rho`, where :math:`\rho` is :math:`|\nabla h|^2` (``"square"``) or
    :math:`|\nabla h|\sqrt{h(x_0, y_0)}` (``"root"``). Before the first step y is brought to
    :math:`h(x_0, y_0)\le\alpha^2 C_0` by gradient steps. The error that stays is of the order of the
    step: without a given step it is made smaller in stages, whose ends are extrapolated to step 0.
    """

    name: ClassVar[str] = "perturbed-gd"
    summary: ClassVar[str] = "descent on f turned so that |grad_y g|^2 falls; one loop"
    assumes: ClassVar[str] = "lower level smooth and unconstrained (need not be convex)"
    claims: ClassVar[str] = "an approximate KKT point of min f subject to grad_y g = 0"
    reference: ClassVar[str] = (
        "Perturbed gradient descent via convex quadratic approximation (no authors' names), Alg. 1, "
        "eqs 7-8"
    )
    costs: ClassVar[str] = "one gradient of f, one gradient and one Hessian-vector product of g"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.NONCONVEX_LOWER})
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    rate_rule: str = setting(
        "square",
        "rho: 'square' (Theorem 4.2) or 'root' (Theorem 4.5)",
        aliases=("rho",),
        choices=tuple(RULES),
        own=True,
    )
    step_x: float | None = setting(
        None,
        "step gamma in (x, y); None: from the curvatures, then smaller in stages",
        aliases=("gamma", "step_size"),
        above=0.0,
    )
    rate: float | None = setting(
        None,
        "weight alpha of rho; None: the largest that Theorem 4.2 allows as step",
        aliases=("alpha",),
        above=0.0,
        own=True,
    )
    start_accuracy: float = setting(
        1.0,
        "C_0: y begins where the squared lower slope is at most alpha^2 C_0",
        aliases=("C_0",),
        minimum=0.0,
        own=True,
    )
    max_steps: int = setting(1000000, "largest number of iterations", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate, in stages where the step is not given."""
        setup = set_up(run)
        o, x, y, c = setup.oracle, setup.x, setup.y, setup.constants
        work, figures = setup.work(kernel.N_ROWS), np.zeros(N_FIGURES)
        curvature_f = c.f_xx + c.f_yy + c.f_xy
        curvature_h = 2 * (c.g_yy**2 + c.g_xy**2)
        alpha = self.rate
        if alpha is None:
            # The largest alpha that may be the step too in Theorem 4.2: alpha = 1/(L_f + alpha L_h).
            root = np.sqrt(curvature_f**2 + 4 * curvature_h)
            alpha = safe_step((curvature_f + root) / 2)
        step = self.step_x
        if step is None:
            step = min(alpha, safe_step(curvature_f + alpha * curvature_h))
        warm = alpha * np.sqrt(self.start_accuracy / max(1, o.n_y))
        slope, trial, value = np.zeros(o.n_y), np.zeros(o.n_y), np.zeros(1)
        first_step = safe_step(c.g_yy)
        descend_on_g(o.g, o.g_grad_y, x, y, first_step, False, WARM_STEPS, warm, slope, trial, value)
        first_h = float(slope @ slope)
        pull = float(np.linalg.norm(run.model.f_grad(x, y, run.p)))
        if self.rate is None:
            # A start that is exact by luck would leave the second choice of rho without any force.
            first_h = max(first_h, 1e-12)
        tapes = (o.f_grad_x, o.f_grad_y, o.g_grad_y, o.g_hessian_y, o.g_cross)
        loop = setup.loop(kernel.perturbed_gd)
        settings = filled(
            kernel.N_SETTINGS,
            {
                kernel.STEP_X: step,
                kernel.RATE: alpha,
                kernel.RATE_RULE: RULES[self.rate_rule],
                kernel.FIRST_H: first_h,
                kernel.IS_FREE: setup.has_free_x,
            },
        )

        def advance(n: int, step: float) -> float:
            share = alpha
            if self.rate is None and self.rate_rule == "root":
                # Only alpha sqrt(h0) counts. (8b) makes up for the pull of f, so that a small part of it
                # is enough; a larger one widens the zigzag.
                share = 0.03 * pull / np.sqrt(first_h)
            elif self.rate is None:
                # With gamma the bound gamma <= 1/(L_f + alpha L_h) leaves room for a larger alpha.
                share = max(alpha, (1 / step - curvature_f) * safe_step(curvature_h))
            settings[kernel.STEP_X], settings[kernel.RATE] = step, share
            return loop(n, *tapes, setup.x_spec, settings, x, y, figures, work)

        run_barrier(
            setup,
            self.name,
            advance,
            figures,
            measure="h",
            step=step,
            is_given=self.step_x is not None,
            max_iterations=self.max_steps,
        )
