"""VF-iDCA: the value function as the difference of convex functions, linearised where it is concave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from blomodel.errors import LowerLevelError, ModelError
from blomodel.methods.first_order.frame import propose_lower_answer
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.reformulations.forms.convex_difference import ConvexDifference, convex_difference


def difference_of_convex(run: Run, method: Any) -> None:
    """A lower level that is jointly convex, or penalties with weights that can become bounds."""
    try:
        run.once(ConvexDifference, lambda: convex_difference(run.model, run.p))
    except ModelError as error:
        raise ModelError(f"{method.name}: {error}") from error


@method
@dataclass(frozen=True, kw_only=True)
class VfIdca:
    r"""Convex problems in (x, y), one after another, around the concave part of the value constraint.

    The problem is :math:`\min f` subject to :math:`g(x, y) - v(x) \le 0`, c(x, y) <= 0. With g and c
    convex in x and y together v is convex too, and a multiplier of the lower level at :math:`x^k` gives
    a slope :math:`\xi^k` of it. Each iteration solves

    .. math:: \min_{x, y}\; f + \tfrac{\rho}{2}\|(x, y) - (x^k, y^k)\|^2 +
              \alpha_k \max\{0, V_k(x, y), c(x, y)\}, \quad
              V_k = g(x, y) - v(x^k) - \langle\xi^k, x - x^k\rangle,

    and raises :math:`\alpha_k` by :math:`\delta` where
    :math:`\max\{\alpha_k, 1/t^{k+1}\}\,\|(x, y)^{k+1} - (x, y)^k\| \le c_\alpha`, with the new violation
    t. Penalties :math:`\sum_j x_j P_j(y)`, of which no weight stands in f, become bounds
    :math:`P_j(y) \le r_j` as in the paper: r takes the place of x, whose values are the
    multipliers. A quadratic g that is not convex in x gets a multiple of :math:`\|x\|^2`, which moves no
    lower answer.
    """

    name: ClassVar[str] = "vf-idca"
    summary: ClassVar[str] = "difference-of-convex steps on the value-function constraint"
    assumes: ClassVar[str] = (
        "f and the lower level convex in (x, y) together, or a convex loss with penalties x_j P_j(y) "
        "below and no x in f"
    )
    claims: ClassVar[str] = "a KKT point of the value-function problem, up to the accuracy asked for"
    reference: ClassVar[str] = "Gao, Ye, Yin, Zeng and Zhang (2022); Ye, Yuan, Zeng and Zhang (2023)"
    costs: ClassVar[str] = "one lower solve and one convex program in (x, y) for each iteration"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.COUPLED_LOWER,
            Capability.LOWER_CONSTRAINTS,
            Capability.PROX_TERMS,
            Capability.KINKS,
        }
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset()
    needs: ClassVar[tuple[Need, ...]] = (difference_of_convex,)

    penalty: float = setting(1.0, "first weight alpha of the violation", aliases=("alpha",), above=0.0)
    penalty_step: float = setting(
        5.0, "delta, by which the weight grows", aliases=("delta",), above=0.0, own=True
    )
    patience: float = setting(
        1.0, "c_alpha: the weight grows where steps are short against it", above=0.0, own=True
    )
    convexity: float = setting(
        1.0, "rho of the term that keeps (x, y) near the last one", aliases=("rho",), above=0.0, own=True
    )
    stop_at: float = setting(
        1e-3, "relative step and violation at which the iteration stops", minimum=0.0
    )
    max_steps: int = setting(200, "largest number of iterations", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from bounds of 1."""
        form = run.once(ConvexDifference, lambda: convex_difference(run.model, run.p))
        start = (None, None) if run.start is None else run.start
        point = form.first_point(*start)
        weight = self.penalty
        x = None
        try:
            for _ in range(self.max_steps):
                run.check_limits()
                lower = form.solve_lower(point)
                run.evaluations += 1
                if lower is None:
                    run.check_limits()
                    run.note("vf-idca: the lower level has no answer at the last iterate")
                    break
                x = lower.x
                run.offer(x, lower.y, self.name)
                try:
                    following, violation = form.step(point, lower, weight, self.convexity)
                except LowerLevelError as error:
                    run.check_limits()
                    run.note(f"vf-idca: stopped at weight {weight:g}: {error}")
                    break
                run.evaluations += 1
                moved = float(np.linalg.norm(following - point))
                relative = moved / np.sqrt(1 + float(following @ following))
                point = following
                value = float(run.model.f(x, lower.y, run.p)[0])
                run.step(x=x, value=value, weight=weight, violation=violation, step=relative)
                if relative < self.stop_at and violation < self.stop_at:
                    break
                if relative * max(weight, 1 / max(violation, 1e-300)) <= self.patience:
                    weight += self.penalty_step
        finally:
            # After a time limit what is left belongs to the certificate of what was offered.
            if not run.deadline.is_over:
                lower = form.solve_lower(point)
                x = x if lower is None else lower.x
                if x is not None:
                    run.propose(x, form.y_of(point), self.name)
                    propose_lower_answer(run, x, form.y_of(point), self.name)
