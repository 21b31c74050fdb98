"""PBGD-BLOCC: projected gradient steps on F_gamma with a fixed penalty weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from blomodel.errors import UnknownSettingError
from blomodel.methods.first_order import first_point
from blomodel.methods.max_min import MaxMinSettings, run_max_min
from blomodel.methods.needs import check_needs
from blomodel.methods.projected_descent import ProjectedDescent
from blomodel.methods.registry import method, setting
from blomodel.methods.run import Run
from blomodel.reformulations.value_function import ReducedPenalty


@method
@dataclass(frozen=True, kw_only=True)
class Blocc:
    r"""Algorithm 4 of the ALT-PBGD paper, for coupled constraints.

    Each iteration solves (54) and (55), the two max-min problems for the multipliers and answers of
    the lower level and of the penalised level, and steps along their difference:

    .. math:: g_t = \gamma\nabla_x L_\gamma(x_t, y^\gamma, \lambda^\gamma)
                    - \gamma\nabla_x L_g(x_t, y^g, \lambda^g), \qquad
              x_{t+1} = \mathrm{Proj}_X(x_t - \eta g_t).

    With ``inner="exact"`` a QP or cone solver answers (54) and (55). With ``inner="max-min"`` the
    first-order solver of the BLOCC paper does: accelerated projected ascent in the multipliers of the
    coupled rows, after projected gradient steps in y (momentum (t - 1)/(t + 2)). Where its steps are not
    given, they are halved when too long and momentum begins anew when the dual function falls.

    The papers suppose that the lower level has answers on all of X, with unique multipliers (LICQ). With
    exact inner solves a step that leaves the x with lower answers is projected onto them, where both
    levels' constraints are jointly convex; and at the edge of these x, where multipliers are not unique,
    the pair with the shortest difference is taken.
    """

    name: ClassVar[str] = "blocc"
    summary: ClassVar[str] = "projected gradient steps on F_gamma(x), fixed gamma"
    assumes: ClassVar[str] = "lower level strongly convex in y, constraint qualification (LICQ)"
    claims: ClassVar[str] = "a stationary point of F_gamma; error of order 1/gamma"
    reference: ClassVar[str] = "Jiang et al. (2024); Chen et al., Alg. 4, eqs 54-56"

    gamma: float = setting(10.0, "penalty weight", minimum=0.0)
    step_size: float | None = setting(
        None, "step eta; None: from curvature, shortened until F_gamma falls (max-min: 1/(10 gamma))",
        minimum=0.0,
    )
    max_steps: int = setting(2000, "largest number of iterations", minimum=1)
    inner: str = setting("exact", "how (54) and (55) are solved: 'exact' or 'max-min'")
    lower_step: float | None = setting(
        None, "max-min: step in y; None: 1/curvature, halved where too long", minimum=0.0
    )
    multiplier_step: float | None = setting(
        None, "max-min: step of the multipliers; None: 1/curvature of the dual function", minimum=0.0
    )
    lower_steps: int | None = setting(
        None, "max-min: steps in y for each of the multipliers; None: as many as y needs", minimum=1
    )
    multiplier_steps: int | None = setting(
        None, "max-min: steps of the multipliers; None: as many as they need", minimum=1
    )

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        check_needs(run, self)
        if self.inner not in ("exact", "max-min"):
            raise UnknownSettingError(f"blocc: inner = {self.inner!r} is neither 'exact' nor 'max-min'.")
        if self.inner == "max-min":
            wish = MaxMinSettings(
                gamma=self.gamma,
                step_size=self.step_size,
                max_steps=self.max_steps,
                lower_step=self.lower_step,
                multiplier_step=self.multiplier_step,
                multiplier_steps=self.multiplier_steps,
                lower_steps=self.lower_steps,
            )
            run_max_min(run, self.name, wish)
            return
        self._run_exact(run)

    def _run_exact(self, run: Run) -> None:
        penalty = ReducedPenalty(run.model, run.p)
        descent = ProjectedDescent(
            run,
            self.name,
            lambda x: penalty.with_chosen_multipliers(penalty(x, self.gamma)),
            lambda found: {"gap": found.gap, "gamma": found.gamma},
        )
        start, _ = first_point(run)
        try:
            if self.step_size is None:
                first_step = 1 / (10 * self.gamma)  # the papers' safe step
                descent.backtrack(start, first_step, self.max_steps)
            else:
                descent.fixed_steps(start, self.step_size, self.max_steps)
        finally:
            run.evaluations += penalty.evaluations
            last = descent.last
            if last is not None:
                run.propose(last.x, last.y, f"blocc, gamma = {self.gamma:g}")
                run.propose(last.x, last.lower_y, "blocc, lower minimiser at its x")
