"""Perturbed gradient descent on the stationarity of the lower level, by a convex QP in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.errors import UnknownSettingError
from blomodel.kernels.fields import N_FIGURES
from blomodel.kernels.linalg import descend_on_g
from blomodel.kernels.loops import perturbed_gd as kernel
from blomodel.methods.first_order.arrays import filled, given
from blomodel.methods.first_order.barrier import run_barrier
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import set_up
from blomodel.methods.first_order.scheduled import PAPER, VARIANTS, Scheduled
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule

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

    ``variant="paper"`` does neither: one step and one alpha for the K iterations that are allowed, by
    Corollary 4.3 (:math:`\alpha = K^{-1/3}`, :math:`\gamma = \min(\alpha, 1/(L_f + \alpha L_h))`) or,
    for ``"root"``, Corollary 4.6 (:math:`\alpha = K^{-1/6}`, :math:`\gamma = \min(K^{-2/3}, 1/L_f)`),
    with :math:`L_f, L_h` estimated at the start.

    The paper has no constraints on x. Here x is projected onto its set after every step, and
    :math:`\lambda` counts only the part of :math:`\nabla h` along which the set lets x move.

    In the history h, direction (:math:`\|\Delta_k\|^2`) and lambda are those of the step that led to the
    row's point: with ``history_every=1`` of each step, else their means since the last row.
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

    variant: str = setting(
        "default",
        "'paper': one step and one alpha, by Corollaries 4.3 and 4.6 where they are not given; "
        "'default': steps in stages, extrapolated to step 0",
        choices=VARIANTS,
    )
    rate_rule: str = setting(
        "square",
        "rho: 'square' (Theorem 4.2) or 'root' (Theorem 4.5)",
        aliases=("rho",),
        choices=tuple(RULES),
        own=True,
    )
    rate_function: object | None = setting(
        None,
        "rho of your own: a function of x and y that gives a number, called between iterations and "
        "therefore not compiled; None: by rate_rule",
        own=True,
    )
    step_x: float | Schedule | None = setting(
        None,
        "step gamma in (x, y); None: from the curvatures, then smaller in stages",
        aliases=("gamma", "step_size"),
        above=0.0,
    )
    rate: float | Schedule | None = setting(
        None,
        "weight alpha of rho; None: with 'square' as large as Theorem 4.2 allows for the step (its "
        "gamma <= 1/(L_f + alpha L_h)), with 'root' 0.03 |grad f| / sqrt(h0), which is ours; "
        "variant='paper': K^(-1/3) and K^(-1/6) for K iterations",
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
        work[kernel.OUTSIDE, : x.size] = x
        curvature_f = c.f_xx + c.f_yy + c.f_xy
        curvature_h = 2 * (c.g_yy**2 + c.g_xy**2)
        if self.variant == PAPER:
            alpha, step = self._printed(run, curvature_f, curvature_h)
        else:
            # The largest alpha that may be the step too in Theorem 4.2: alpha = 1/(L_f + alpha L_h).
            root = np.sqrt(curvature_f**2 + 4 * curvature_h)
            alpha = given(self.rate) or safe_step((curvature_f + root) / 2)
            step = given(self.step_x) or min(alpha, safe_step(curvature_f + alpha * curvature_h))
        warm = alpha * np.sqrt(self.start_accuracy / max(1, o.n_y))
        slope, trial, value = np.zeros(o.n_y), np.zeros(o.n_y), np.zeros(1)
        first_step = safe_step(c.g_yy)
        descend_on_g(o.g, o.g_grad_y, x, y, first_step, False, WARM_STEPS, warm, slope, trial, value)
        first_h = float(slope @ slope)
        pull = float(np.linalg.norm(run.model.f_grad(x, y, run.p)))
        is_free_to_choose = self.rate is None and self.variant != PAPER
        if is_free_to_choose:
            # A start that is exact by luck would leave the second choice of rho without any force.
            first_h = max(first_h, 1e-12)
        tapes = (o.f_grad_x, o.f_grad_y, o.g_grad_y, o.g_hessian_y, o.g_cross)
        loop = setup.loop(kernel.perturbed_gd)
        settings = filled(
            kernel.N_SETTINGS,
            {
                kernel.STEP_X: step,
                kernel.RATE: alpha,
                kernel.RATE_RULE: kernel.OWN if self.rate_function else RULES[self.rate_rule],
                kernel.FIRST_H: first_h,
                kernel.IS_FREE: setup.has_free_x,
            },
        )

        def iterate(n: int) -> float:
            return loop(n, *tapes, setup.x_spec, settings, x, y, figures, work)

        scheduled = Scheduled(
            iterate,
            settings,
            {kernel.STEP_X: self.step_x, kernel.RATE: self.rate, kernel.FIRST_H: self._own_rate(x, y)},
        )

        def advance(n: int, step: float) -> float:
            share = alpha
            if is_free_to_choose and self.rate_rule == "root":
                # Only alpha sqrt(h0) counts. (8b) makes up for the pull of f, so that a small part of it
                # is enough; a larger one widens the zigzag.
                share = 0.03 * pull / np.sqrt(first_h)
            elif is_free_to_choose:
                # With gamma the bound gamma <= 1/(L_f + alpha L_h) leaves room for a larger alpha.
                share = max(alpha, (1 / step - curvature_f) * safe_step(curvature_h))
            settings[kernel.STEP_X], settings[kernel.RATE] = step, share
            return scheduled(n)

        run_barrier(
            setup,
            self.name,
            advance,
            figures,
            measure="h",
            step=step,
            is_given=self.step_x is not None or self.variant == PAPER,
            max_iterations=self.max_steps,
        )

    def _printed(self, run: Run, curvature_f: float, curvature_h: float) -> tuple[float, float]:
        """Alpha and step of the two corollaries for the number of iterations that are allowed."""
        count = self.max_steps if run.max_iterations is None else min(self.max_steps, run.max_iterations)
        if self.rate_rule == "root":
            alpha = given(self.rate) or count ** (-1 / 6)
            return alpha, given(self.step_x) or min(count ** (-2 / 3), safe_step(curvature_f))
        alpha = given(self.rate) or count ** (-1 / 3)
        return alpha, given(self.step_x) or min(alpha, safe_step(curvature_f + alpha * curvature_h))

    def _own_rate(self, x: np.ndarray, y: np.ndarray) -> Callable[[int], float] | None:
        """The user's rho at the point that the loop moves."""
        function = self.rate_function
        if function is None:
            return None
        if not callable(function):
            raise UnknownSettingError(
                f"{self.name}: rate_function = {function!r} does not fit; it must be a function of x "
                "and y."
            )
        return lambda k: float(function(x.copy(), y.copy()))
