"""BAMM, BRC and ALRIGHT: baselines that take few steps on either level before each step in x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from blomodel.kernels.loops import alright, bamm, brc
from blomodel.methods.first_order.arrays import filled, given
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import f_second, set_up
from blomodel.methods.first_order.frame import first_order_run, iterate_until_small
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import NOTHING_SPECIAL, Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.slices import run_in_slices

SHARES = (0.5, 0.05, 5e-3, 5e-4, 5e-5)  # of f in the average, where none is given
MANY_STEPS = 50  # of y and v for each one of x, where no number is given


@method
@dataclass(frozen=True, kw_only=True)
class Bamm:
    r"""The single-loop bilevel averaged method of multipliers (sl-BAMM).

    With the average :math:`\psi_k = \mu_k f + (1 - \mu_k) g` and the multiplier v of its stationarity
    in y, all three directions are taken at the same point:

    .. math:: y^{k+1} = y^k - \beta_k\nabla_y\psi_k, \qquad
              v^{k+1} = v^k + \eta_k(\nabla_y f - \nabla_{yy}^2\psi_k\, v^k), \qquad
              x^{k+1} = \mathrm{Proj}_X(x^k - \alpha_k(\nabla_x f - \nabla_{xy}^2\psi_k\, v^k)),

    with :math:`\mu_k = \mu_0 (k+1)^{-p}`, :math:`\beta_k, \eta_k` falling as :math:`(k+1)^{-\tau/2}` and
    :math:`\alpha_k` as :math:`(k+1)^{-3\tau/2}`. So it runs with ``inner_steps=1``. Without a number of
    inner steps y and v go 50 steps before x moves, and without a share :math:`\mu_0` it is run again,
    from where it ended, with smaller ones, since the average leaves y off the lower answer.
    """

    name: ClassVar[str] = "bamm"
    summary: ClassVar[str] = "one step each of y, a multiplier and x on an average of both objectives"
    assumes: ClassVar[str] = (
        "both levels smooth; lower level convex in y, answers need not be unique; y free"
    )
    claims: ClassVar[str] = "a KKT point of min f subject to grad_y of the average = 0"
    reference: ClassVar[str] = "Liu, Liu, Yao, Zeng and Zhang (2023)"
    costs: ClassVar[str] = "gradients and Hessian-vector products of both levels, one of each for a step"
    capabilities: ClassVar[frozenset[Capability]] = NOTHING_SPECIAL
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    step_x: float | None = setting(
        None, "step alpha in x; None: adaptive", aliases=("alpha",), above=0.0
    )
    step_y: float | None = setting(
        None, "step beta in y; None: half of 1/curvature", aliases=("beta",), above=0.0
    )
    step_multiplier: float | None = setting(
        None, "step eta of the multiplier v; None: as in y", aliases=("eta",), above=0.0
    )
    upper_share: float | None = setting(
        None,
        "mu_0, share of f in the average; None: 0.5, then ever smaller",
        aliases=("mu_0", "mu"),
        minimum=0.0,
    )
    share_power: float = setting(
        0.0, "power p with which the share falls", aliases=("p",), minimum=0.0, own=True
    )
    step_power: float = setting(0.0, "tau, by which given steps fall", aliases=("tau",), minimum=0.0)
    inner_steps: int | None = setting(
        None, "steps of y and v for each of x; None: 50, before x; 1: the printed order", minimum=1
    )
    max_steps: int = setting(20000, "largest number of iterations for each share", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate until all three directions are small."""
        setup = set_up(run)
        o, x, y, v = setup.oracle, setup.x, setup.y, np.zeros(setup.oracle.n_y)
        tapes = (o.f_grad_x, o.f_grad_y, *f_second(o), o.g_grad_y, o.g_hessian_y, o.g_cross)
        settings = filled(
            bamm.N_SETTINGS,
            {
                bamm.STEP_X: given(self.step_x),
                bamm.STEP_Y: given(self.step_y),
                bamm.STEP_V: given(self.step_multiplier),
                bamm.UPPER_SHARE: 0.0,  # set below
                bamm.SHARE_POWER: self.share_power,
                bamm.STEP_POWER: self.step_power,
                bamm.INNER_STEPS: self.inner_steps or MANY_STEPS,
                bamm.IS_TOGETHER: self.inner_steps is not None,
            },
        )
        loop = setup.loop(bamm.bamm)
        shares = SHARES if self.upper_share is None else (self.upper_share,)
        with first_order_run(setup, self.name, x, y):
            for share in shares:
                settings[bamm.UPPER_SHARE] = share
                state, work = setup.arrays(bamm)
                run_in_slices(
                    run,
                    lambda n: loop(n, *tapes, setup.x_spec, settings, x, y, v, state, work),  # noqa: B023
                    max_iterations=self.max_steps,
                    tolerance=run.tolerance,
                    report=lambda: {"value": run.model.f(x, y, run.p)[0], "weight": share},  # noqa: B023
                )


@method
@dataclass(frozen=True, kw_only=True)
class Brc:
    r"""Best-response constraint: an implicit gradient with outer products in place of Hessians.

    T gradient steps on g(x, .) from the last y, then, with
    :math:`\nabla_{yy}^2 g \approx \nabla_y g\,\nabla_y g^{\top}` and
    :math:`\nabla_{xy}^2 g \approx \nabla_x g\,\nabla_y g^{\top}`,

    .. math:: x \leftarrow \mathrm{Proj}_X\Bigl(x - \alpha\Bigl(\nabla_x f -
              \frac{\langle\nabla_y g, \nabla_y f\rangle}{\|\nabla_y g\|^2}\,\nabla_x g\Bigr)\Bigr).

    Only gradients are needed. The approximation is exact where g is the square of one residual, and
    has no meaning at the lower answer itself, where :math:`\nabla_y g = 0`: elsewhere it is a heuristic.
    """

    name: ClassVar[str] = "brc"
    summary: ClassVar[str] = "implicit gradient with outer products in place of second derivatives"
    assumes: ClassVar[str] = "lower level smooth, and nearly the square of one residual"
    claims: ClassVar[str] = "nothing in general; a stationary point of phi where g is one square"
    reference: ClassVar[str] = "Liu, Gao, Liu and Fan (2023); Liu, Gao, Liu and Fan (2022)"
    costs: ClassVar[str] = "T gradient steps on the lower problem and one gradient of f and g"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.LOWER_CONSTRAINTS})
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    step_x: float | None = setting(
        None, "step alpha in x; None: adaptive", aliases=("alpha",), above=0.0
    )
    step_y: float | None = setting(
        None, "inner step in y; None: half of 1/curvature", aliases=("beta",), above=0.0
    )
    inner_steps: int = setting(1, "T, inner gradient steps from the last y", aliases=("T",), minimum=1)
    floor: float = setting(
        0.0, "added to the squared norm of grad_y g in the quotient", minimum=0.0, own=True
    )
    max_steps: int = setting(20000, "largest number of iterations", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate until the approximate slope in x is small."""
        setup = set_up(run)
        o, x, y = setup.oracle, setup.x, setup.y
        state, work = setup.arrays(brc)
        settings = filled(
            brc.N_SETTINGS,
            {
                brc.STEP_X: given(self.step_x),
                brc.STEP_Y: given(self.step_y),
                brc.INNER_STEPS: self.inner_steps,
                brc.FLOOR: self.floor,
            },
        )
        tapes = (o.f_grad_x, o.f_grad_y, o.g_grad_x, o.g_grad_y, o.g_hessian_y)
        loop = setup.loop(brc.brc)
        iterate_until_small(
            setup,
            self.name,
            lambda n: loop(n, *tapes, *setup.sets, settings, x, y, state, work),
            x=x,
            y=y,
            max_steps=self.max_steps,
        )


@method
@dataclass(frozen=True, kw_only=True)
class Alright:
    r"""Alternating steps on both objectives, which are taken as equals.

    In each iteration a coin that shows f with probability :math:`\lambda` decides along which gradient
    (x, y) moves:

    .. math:: (x, y) \leftarrow (x, y) - \alpha_t\nabla f \;\text{ or }\; (x, y) - \alpha_t\nabla g.

    That is a stochastic gradient method for :math:`\lambda f + (1 - \lambda) g` over x and y together,
    not for the bilevel problem: x also helps the lower level, and y does not answer x. The paper on
    PBGD-Free compares with it to show the difference, with :math:`\lambda = 1/2`. Here the last x gets
    its lower answer, so that what is returned can be compared.
    """

    name: ClassVar[str] = "alright"
    summary: ClassVar[str] = "steps of (x, y) on f or g by the throw of a coin: not a bilevel method"
    assumes: ClassVar[str] = "both levels smooth; no order between them"
    claims: ClassVar[str] = "near a stationary point of lambda f + (1 - lambda) g, another problem"
    reference: ClassVar[str] = "Fernando, Shen, Ram, Zhou, Samulowitz, Baracaldo and Chen (2024)"
    costs: ClassVar[str] = "one gradient of f or of g for each iteration"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.NONCONVEX_LOWER, Capability.LOWER_CONSTRAINTS}
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    step_x: float | None = setting(
        None, "first step in (x, y); None: from the curvatures", aliases=("step_size",), above=0.0
    )
    step_power: float = setting(
        0.5, "power of the number of iterations with which steps fall", minimum=0.0
    )
    upper_probability: float = setting(
        0.5, "lambda, probability of a step on f", aliases=("lambda_",), minimum=0.0, own=True
    )
    max_steps: int = setting(20000, "number of iterations", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate, with coins from the run's seed."""
        setup = set_up(run)
        o, x, y = setup.oracle, setup.x, setup.y
        state, work = np.zeros(alright.N_STATE), setup.work(alright.N_ROWS)
        step = self.step_x
        if step is None:
            c = setup.constants
            step = safe_step(max(c.f_xx + c.f_xy + c.f_yy, c.g_xy + c.g_yy))
        settings = filled(
            alright.N_SETTINGS, {alright.STEP_X: step, alright.STEP_POWER: self.step_power}
        )
        tapes = (o.f_grad_x, o.f_grad_y, o.g_grad_x, o.g_grad_y)
        loop, random = setup.loop(alright.alright), np.random.default_rng(run.seed)

        def iterate(n: int) -> float:
            coins = (random.random(n) < self.upper_probability).astype(float)
            return loop(n, *tapes, *setup.sets, settings, x, y, coins, state, work)

        with first_order_run(setup, self.name, x, y):
            run_in_slices(
                run,
                iterate,
                max_iterations=self.max_steps,
                tolerance=0.0,
                report=lambda: {"value": run.model.f(x, y, run.p)[0]},
            )
