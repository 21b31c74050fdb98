"""PBGD-Free: steps along f_x alone, right only where f is flat around the lower answer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from blomodel.compiler.passes.derivatives import hessian
from blomodel.compiler.passes.directions import Term
from blomodel.compiler.team import team_of
from blomodel.errors import BlomodelError, LowerLevelError, ModelError, UnsuitableMethodWarning
from blomodel.kernels.fields import GROWTH, N_PACE, STEP
from blomodel.kernels.linalg import advance
from blomodel.kernels.loops import pbgd_free as kernel
from blomodel.methods.first_order.arrays import given
from blomodel.methods.first_order.batches import run_free
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.constrained import spectral_norm
from blomodel.methods.first_order.first_order import FirstOrder, first_point, set_up
from blomodel.methods.first_order.frame import first_order_run, propose_end
from blomodel.methods.first_order.stages import (
    INNER_SHARE,
    PAPER_WEIGHT,
    PenaltyMethod,
)
from blomodel.methods.requirements.demands import (
    holds_x_below,
    refuse_kinks_without_prox,
    refuse_matrix_inequalities,
)
from blomodel.methods.requirements.needs import convex_penalised_level, projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule, value_at
from blomodel.methods.run.starts import nearest_allowed, project_onto_x
from blomodel.reformulations.forms.left_out_slope import left_out_of_model
from blomodel.reformulations.forms.reduced_penalty import ReducedPenalty
from blomodel.solvers.answer import Answer

VERSIONS = ("inner-loop", "single-loop")
LARGE = 0.1  # share of the slope that must not be left out
MISSED = 0.02  # step, relative to x, that the part left out may ask for


def own_sets_or_convex(run: Run, method: Any) -> None:
    """Sets of x and y of their own and kinks with a prox, or a convex program over a set Y(x)."""
    if not holds_x_below(run.model):
        refuse_kinks_without_prox(run, method)
        projections(run, method)
        return
    if method.version == "single-loop" or method.inner_steps or method.step_y:
        raise ModelError(
            f"{method.name}: lower constraints contain x here, so that y is found by a convex "
            "solver over "
            "Y(x) (the inner-loop version); version='single-loop', inner_steps and step_y "
            "are for lower constraints without x."
        )
    refuse_matrix_inequalities(run, method)
    _ = run.model.lower_program  # raises NonconvexLowerError
    convex_penalised_level(lambda method: method.penalty)(run, method)


@method
@dataclass(frozen=True, kw_only=True)
class PbgdFree(PenaltyMethod):
    r"""Algorithm 3 of the ALT-PBGD paper.

    y goes towards a minimiser of f/gamma + g, all the way (inner-loop version) or by one step
    (single-loop version); x moves along the partial slope of f only:

    .. math:: x \leftarrow \mathrm{Proj}_X(x - \eta\nabla_x f(x, y^\gamma)).

    The single-loop version takes this slope at the new y, as the proof of Theorem 2 and the caption of
    Figure 2 have it; the box of Algorithm 3 prints the old one, which ``slope_at="old"`` runs.

    What it leaves out, gamma times the change of g's slope, is small only where f is flat in y at the
    lower answer; the method checks that at its last point and warns.

    Where lower constraints contain x, the inner-loop version is run, with y from a convex solver over
    Y(x), and without multipliers, as in the paper. A step after which the lower level has no answer is
    projected onto the x with answers; the paper supposes that all of X has them.
    """

    name: ClassVar[str] = "pbgd-free"
    summary: ClassVar[str] = "ALT-PBGD without the value function: steps along f_x alone"
    assumes: ClassVar[str] = "f (delta, alpha)-flat in y at the lower answer; g strongly convex in y"
    claims: ClassVar[str] = "near-stationary points of F_gamma where flatness holds, else nothing"
    reference: ClassVar[str] = "Jiang, Xiao, Chen and Chen (2025), Alg. 3"
    costs: ClassVar[str] = (
        "inner gradient steps on one lower problem (or a single step), then one step in x along grad_x f"
    )
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.NONCONVEX_LOWER,
            Capability.COUPLED_LOWER,
            Capability.LOWER_CONSTRAINTS,
            Capability.PROX_TERMS,
            Capability.KINKS,
        }
    )
    assumptions: ClassVar[frozenset[Assumption]] = frozenset(
        {Assumption.STRONGLY_CONVEX, Assumption.DIRECT_DEPENDENCE}
    )
    needs: ClassVar[tuple[Need, ...]] = (own_sets_or_convex,)

    first_weight: ClassVar[float] = 1.0

    version: str = setting("inner-loop", "'inner-loop' or 'single-loop'", choices=VERSIONS, own=True)
    slope_at: str = setting(
        "automatic",
        "single-loop version: y at which f_x is taken, 'new' (y_{t+1}, as the proof of Theorem 2 has "
        "it) or 'old' (y_t, as Algorithm 3 is printed); 'automatic': old with variant='paper', else new",
        choices=("automatic", "new", "old"),
        own=True,
    )
    inner_steps: int | Schedule | None = setting(
        None, "inner steps of the inner-loop version; None: until accurate", minimum=1
    )
    threads: int | None = setting(
        None, "threads that share long products and sums; None: one", minimum=1
    )
    batch_size: int | None = setting(
        None, "rows of data drawn for each step; None: all of them", minimum=1
    )
    max_steps: int = setting(5000, "largest number of iterations for each penalty weight", minimum=1)

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        with team_of(self.threads):
            self._run(run)

    def _run(self, run: Run) -> None:
        if holds_x_below(run.model):
            self._run_coupled(run)
            return
        if self.batch_size is not None:
            if not _has_no_step(run, "alt-pbgd"):
                run_free(self, run, self.batch_size)
            return
        setup = set_up(run, prox=True)
        x, y = setup.x.copy(), setup.y.copy()
        is_still = _has_no_step(run, "alt-pbgd")
        try:
            with first_order_run(setup, f"{self.name}, {self.version}", x, y):
                if not is_still:
                    self._iterate(setup, x, y)
        finally:
            if not is_still:
                _check_flatness(run, x)

    @property
    def _sees_old_y(self) -> bool:
        return self.is_printed if self.slope_at == "automatic" else self.slope_at == "old"

    def inner_accuracy(self, accuracy: float, weight: float) -> float:
        """Slope at which the inner steps end; here no error of y is multiplied by the weight."""
        return INNER_SHARE * accuracy

    def _run_coupled(self, run: Run) -> None:
        weights: tuple[Any, ...] = STAGES if self.penalty is None else (self.penalty,)
        if self.is_printed and self.penalty is None:
            weights = (PAPER_WEIGHT,)
        free, is_still = CoupledFree(run), _has_no_step(run, "blocc")
        try:
            free.iterate(
                weights, self.step_x, 1 if is_still else self.max_steps, is_constant=self.is_printed
            )
        finally:
            propose_end(run, free.x, free.y, f"{self.name}, {self.version}")
            if free.n_returns:
                run.note(
                    f"pbgd-free: {free.n_returns} of its steps along grad_x f led to x without lower "
                    "answer and were projected onto the nearest x that has one; the paper's formula "
                    "does not say what to do there"
                )
            if not is_still:
                _check_flatness(run, free.x)
                _check_left_out(run, *free.left_out(value_at(weights[-1], run.iterations)))

    def _iterate(self, setup: FirstOrder, x: np.ndarray, y: np.ndarray) -> None:
        penalised = setup.direction([Term(setup.g_slope("y")), Term(setup.f_slope("y"), weight=0)])
        upper = setup.direction([Term(setup.f_slope("x"))])
        settings, pace = np.zeros(kernel.N_SETTINGS), np.zeros(N_PACE)
        work, loop = setup.work(kernel.N_ROWS), setup.loop(kernel.pbgd_free)
        pace[STEP] = safe_step(setup.constants.f_xx)
        amounts, is_single = setup.amounts(), self.version == "single-loop"

        def iterate(n: int) -> float:
            return loop(
                n, penalised, upper, setup.weights, *setup.sets, setup.penalty,
                settings, x, y, amounts, pace, work,
            )  # fmt: skip

        def choose_steps(weight: float) -> None:
            settings[kernel.SEES_OLD_Y] = float(is_single and self._sees_old_y)
            if is_single:
                settings[kernel.INNER_STEPS], settings[kernel.INNER_TOLERANCE] = 1, 0.0
            if self.step_y is None:
                constants = setup.constants_at(x, y)  # costs hundreds of gradients
                settings[kernel.STEP_Y] = safe_step(constants.g_yy + constants.f_yy / weight)

        self.run_stages(setup, iterate, settings, pace, state=(x, y), choose_steps=choose_steps)


def _warn(run: Run, text: str) -> None:
    run.note(text)
    warnings.warn(text, UnsuitableMethodWarning, stacklevel=2)


def _has_no_step(run: Run, other: str) -> bool:
    """Whether f holds no x itself, which is said."""
    if run.model.f.depends_on("x"):
        return False
    _warn(
        run,
        "pbgd-free: the upper objective does not depend on x except through y, so its step is zero; try "
        f"{other}.",
    )
    return True


def _check_left_out(run: Run, left_out: float, own: float) -> None:
    """Warn where multipliers carry much of the slope, which flatness at the two answers does not see."""
    if left_out > LARGE * (1 + own):
        _warn(
            run,
            f"pbgd-free: at its last x the part of the slope that is left out has norm {left_out:.3g} "
            f"and grad_x f {own:.3g}, so f is not flat enough and x may be wrong; try blocc.",
        )


def _check_flatness(run: Run, x: np.ndarray) -> None:
    """Warn where what is left out of the slope of F_gamma moves x, judged with the run's own gamma.

    Both parts of the slope are exact where the levels are convex. Where they cannot be had, or where
    multipliers belong to them (which ``_check_left_out`` sees), delta gamma of (46) is asked.
    """
    from blomodel.structure.flatness import flatness_of_model  # only this method asks

    weights = run.history.get("gamma")
    gamma = float(weights[-1]) if weights else 10.0
    try:
        found = flatness_of_model(run.model, run.p, x, gamma=gamma)
    except BlomodelError:
        return  # without a lower answer there is nothing to compare
    shift = None if holds_x_below(run.model) else _missed_step(run, x, gamma)
    measured = (
        f"(delta = {found.delta:.3g}, delta gamma = {found.delta * gamma:.3g} for gamma = {gamma:g})"
    )
    if shift is None:
        if np.sqrt(found.delta * gamma) > LARGE:
            _warn(
                run,
                f"pbgd-free: f is not flat in y at the lower answer {measured}, so the part of the "
                "slope that is left out is not small and x may be wrong; try alt-pbgd.",
            )
    elif shift > MISSED * (1 + np.abs(x).max(initial=0)):
        _warn(
            run,
            f"pbgd-free: f is not flat in y at the lower answer {measured}: with the part of the slope "
            f"that is left out x would move on by about {shift:.3g}; try alt-pbgd.",
        )


def _missed_step(run: Run, x: np.ndarray, gamma: float) -> float | None:
    """How far what is left out would move x: one step by the curvature of F_gamma along it.

    None where the slope of F_gamma cannot be had.
    """
    try:
        here = left_out_of_model(run.model, run.p, x, gamma)
        if here.norm == 0:
            return 0.0
        way = here.left_out / here.norm
        reach = 1e-4 * (1 + float(np.abs(x).max(initial=0)))
        ahead = left_out_of_model(run.model, run.p, x - reach * way, gamma)
        curvature = float((here.slope - ahead.slope) @ way) / reach
        # Where F_gamma does not curve upwards a step has no natural length: that of the slope is taken.
        step = 1 / curvature if curvature > 0 else 1.0
        missed = project_onto_x(run, x - step * here.slope) - project_onto_x(run, x - step * here.own)
    except BlomodelError:
        return None
    return float(np.abs(missed).max(initial=0))


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

    run: Run
    n_returns: int
    x: np.ndarray
    y: np.ndarray

    def __init__(self, run: Run) -> None:
        self.run, self.n_returns = run, 0
        self.x, self.y = (np.array(part, dtype=float) for part in first_point(run))
        run.watch(self.x, self.y)

    def iterate(
        self, weights: Sequence[Any], step_x: Any, max_steps: int, *, is_constant: bool = False
    ) -> None:
        """Steps for each penalty weight, from where the last one ended.

        Weights and step may be schedules. ``is_constant`` keeps the first step where none is given.
        """
        run, n_x, done = self.run, self.run.model.x.size, 0
        self._stand(*self._reach(self.x, value_at(weights[0], 0)))
        curvature = spectral_norm(hessian(run.model.f, ("x",), (self.x, self.y, run.p)))
        pace = np.zeros(N_PACE)
        pace[STEP] = safe_step(curvature)
        step_x = pace[STEP] if is_constant and step_x is None else step_x
        old_x, old_slope = np.zeros(n_x), np.zeros(n_x)
        for weight in weights:
            pace[GROWTH:] = 0.0
            gamma = value_at(weight, done)
            self._stand(*self._reach(self.x, gamma))  # line 3 of Algorithm 3
            for _ in range(max_steps):
                slope = run.model.f_grad(self.x, self.y, run.p)[:n_x]
                run.evaluations += 1
                wish = self.x.copy()
                fixed = given(value_at(step_x, done))
                step = advance(fixed, pace, slope, wish, old_x, old_slope)
                done += 1
                gamma = value_at(weight, done)
                x, y = self._reach(wish, gamma)  # line 4, and line 3 of the next iteration
                moved = float(np.abs(x - self.x).max(initial=0)) / step
                self._stand(x, y)
                value = float(run.model.f(x, y, run.p)[0])
                run.step(x=x, value=value, gamma=gamma, step=step, stationarity=moved)
                if moved <= run.tolerance * (1 + np.abs(x).max(initial=0)):
                    break

    def _stand(self, x: np.ndarray, y: np.ndarray) -> None:
        """Move the point that the run watches."""
        self.x[:], self.y[:] = x, y

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
