"""PBGD-BLOCC: projected gradient steps on F_gamma with a fixed penalty weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.compiler.passes.derivatives import hessian, jacobian, vjp
from blomodel.errors import ModelError
from blomodel.kernels.loops import blocc as kernel
from blomodel.kernels.projection import build_set
from blomodel.methods.first_order.arrays import filled, given
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.constrained import ConstrainedLower, rows_tape, spectral_norm
from blomodel.methods.first_order.first_order import first_point
from blomodel.methods.first_order.frame import first_order_run
from blomodel.methods.first_order.scheduled import PAPER, VARIANTS, Scheduled
from blomodel.methods.requirements.demands import refuse_coupled_above, refuse_matrix_inequalities
from blomodel.methods.requirements.needs import convex_penalised_level
from blomodel.methods.run.capabilities import ALL_BUT_NONCONVEX, Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting
from blomodel.methods.run.run import Run
from blomodel.methods.run.schedules import Schedule
from blomodel.methods.run.slices import run_in_slices
from blomodel.methods.run.stopping import StopSettings
from blomodel.methods.search.projected_descent import ProjectedDescent
from blomodel.model.oracle import loop_tape
from blomodel.reformulations.forms.reduced_penalty import ReducedPenalty
from blomodel.structure.sets import NotProjectable, SetSpec, simple_set


def rows_for_max_min(run: Run, method: Any) -> None:
    """Where gradient steps solve the inner problems: rows below, and a formula for X."""
    if method.inner != "max-min":
        return
    refuse_matrix_inequalities(run, method)
    refuse_coupled_above(run, method)
    if run.x_set.spec is None:
        raise ModelError(
            f"{method.name}: inner='max-min' needs a set X with a formula, not: {run.x_set.text}; "
            "inner='exact' does without."
        )


@method
@dataclass(frozen=True, kw_only=True)
class Blocc(StopSettings):
    r"""Algorithm 4 of the ALT-PBGD paper, for coupled constraints.

    Each iteration solves (54) and (55), the two max-min problems for the multipliers and answers of
    the lower level and of the penalised level, and steps along their difference:

    .. math:: g_t = \gamma\nabla_x L_\gamma(x_t, y^\gamma, \lambda^\gamma)
                    - \gamma\nabla_x L_g(x_t, y^g, \lambda^g), \qquad
              x_{t+1} = \mathrm{Proj}_X(x_t - \eta g_t).

    With ``inner="exact"`` a QP or cone solver answers (54) and (55). With ``inner="max-min"`` the
    first-order solver of the BLOCC paper does: accelerated projected ascent in the multipliers of the
    coupled rows, after projected gradient steps in y (momentum (t - 1)/(t + 2)), or the plain descent
    and ascent of Remark 10 with ``momentum=False``; both begin at the user's y where it is given, else
    at the lower answer, with multipliers of 0. Where its steps are not given, they are halved when too
    long and momentum begins again when the dual function falls.

    ``variant="paper"`` takes the papers' constant step 1/(10 gamma) where none is given; the default
    looks for longer ones.

    The papers suppose that the lower level has answers on all of X, with unique multipliers (LICQ). With
    exact inner solves a step that leaves the x with lower answers is projected onto them, where both
    levels' constraints are jointly convex; and at the edge of these x, where multipliers are not unique,
    the pair with the shortest difference is taken.
    """

    name: ClassVar[str] = "blocc"
    summary: ClassVar[str] = "projected gradient steps on F_gamma(x), fixed gamma"
    assumes: ClassVar[str] = "lower level strongly convex in y, constraint qualification (LICQ)"
    claims: ClassVar[str] = "a stationary point of F_gamma; error of order 1/gamma"
    reference: ClassVar[str] = (
        "Jiang et al. (2024); Jiang, Xiao, Chen and Chen (2025), Alg. 4, eqs 54-56"
    )
    costs: ClassVar[str] = "two lower solves with multipliers"
    capabilities: ClassVar[frozenset[Capability]] = ALL_BUT_NONCONVEX
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.STRONGLY_CONVEX})
    needs: ClassVar[tuple[Need, ...]] = (
        convex_penalised_level(lambda method: method.penalty),
        rows_for_max_min,
    )

    variant: str = setting(
        "default",
        "'paper': the constant step 1/(10 penalty) where none is given; 'default': a line search",
        choices=VARIANTS,
    )
    penalty: float = setting(10.0, "penalty weight gamma", aliases=("gamma",), above=0.0)
    step_x: float | Schedule | None = setting(
        None,
        "step eta; None: from curvature, shortened until F_gamma falls (max-min: 1/(10 penalty))",
        aliases=("eta", "step_size"),
        above=0.0,
    )
    max_steps: int = setting(2000, "largest number of iterations", minimum=1)
    inner: str = setting(
        "exact",
        "how (54) and (55) are solved: 'exact' or 'max-min'",
        choices=("exact", "max-min"),
        own=True,
    )
    step_y: float | None = setting(
        None,
        "max-min: step in y; None: 1/curvature, halved where too long",
        aliases=("lower_step",),
        above=0.0,
    )
    step_multiplier: float | None = setting(
        None,
        "max-min: step of the multipliers; None: 1/curvature of the dual function",
        aliases=("multiplier_step",),
        above=0.0,
    )
    inner_steps: int | None = setting(
        None,
        "max-min: steps in y for each of the multipliers; None: as many as y needs",
        aliases=("lower_steps",),
        minimum=1,
    )
    multiplier_steps: int | None = setting(
        None, "max-min: steps of the multipliers; None: as many as they need", minimum=1, own=True
    )

    momentum: bool = setting(
        True, "max-min: whether the ascent in the multipliers is accelerated", own=True
    )

    def run(self, run: Run) -> None:
        """Iterate from the user's start, or from the middle of the box of x."""
        if self.inner == "max-min":
            run_max_min(run, self)
        else:
            self._run_exact(run)

    def _run_exact(self, run: Run) -> None:
        penalty = ReducedPenalty(run.model, run.p)
        descent = ProjectedDescent(
            run,
            self.name,
            lambda x: penalty.with_chosen_multipliers(penalty(x, self.penalty)),
            lambda found: {"gap": found.gap, "gamma": found.gamma},
        )
        start, _ = first_point(run)
        try:
            if self.step_x is None and self.variant != PAPER:
                descent.backtrack(start, self.safe_step, self.max_steps)
            else:
                step = self.safe_step if self.step_x is None else self.step_x
                descent.fixed_steps(start, step, self.max_steps)
        finally:
            run.evaluations += penalty.evaluations
            last = descent.last
            if last is not None:
                run.propose(last.x, last.y, f"blocc, gamma = {self.penalty:g}")
                run.propose(last.x, last.lower_y, "blocc, lower minimiser at its x")

    @property
    def safe_step(self) -> float:
        """The papers' step in x."""
        return 1 / (10 * self.penalty)


# Relative to the step in x: errors of the inner solves are multiplied by gamma.
ACCURACY = 1e-2
FLAT = 1e-9  # relative curvature below which there is none
MANY_STEPS = 2000  # of the multipliers, and of y for each of these, at most


def run_max_min(run: Run, method: Blocc) -> None:
    """Algorithm 4 with the max-min solver, compiled."""
    name, gamma = method.name, method.penalty
    lower = ConstrainedLower(run)
    x_spec = lower.x_set.spec
    y_spec, constraints = _set_of_y(run)
    tape, n_in = rows_tape(run.model, [run.model.f_expression, run.model.g_expression], constraints)
    low = np.zeros(tape.n_outputs - 2)
    low[n_in:] = -np.inf
    x, y, _ = lower.start()
    if run.start is not None and run.start[1] is not None:
        y = run.start[1].copy()
    y_lower, y_penalised = y.copy(), y.copy()
    lower_weights, penalised_weights = np.zeros(tape.n_outputs), np.zeros(tape.n_outputs)
    lower_weights[:2], penalised_weights[:2] = (0.0, 1.0), (1 / gamma, 1.0)
    _note_flat_directions(run, name, x, y)
    lower_memory = _steps(run, x, y, method, jacobian(tape, ("y",), (x, y, run.p))[2:])
    penalised_memory = lower_memory.copy()
    settings = filled(
        kernel.N_SETTINGS,
        {
            kernel.STEP_X: given(method.step_x) or method.safe_step,
            kernel.PENALTY: gamma,
            kernel.TOLERANCE: run.tolerance,
        },
    )
    inner = filled(
        kernel.N_INNER_SETTINGS,
        {
            kernel.IS_FIXED: method.inner_steps is not None or method.step_y is not None,
            kernel.MULTIPLIER_STEPS: method.multiplier_steps or MANY_STEPS,
            kernel.INNER_STEPS: method.inner_steps or MANY_STEPS,
            kernel.HAS_MOMENTUM: method.momentum,
            kernel.INNER_TOLERANCE: max(ACCURACY * run.tolerance / max(1.0, gamma), 1e-12),
        },
    )
    memory = np.zeros(kernel.N_MEMORY)
    space = np.zeros((kernel.N_ROWS, max(x.size, y.size, tape.n_outputs)))
    slopes = [lower.oracle.derivative(vjp(tape, (block,))) for block in ("x", "y")]
    tapes = [loop_tape(tape, run.p), *slopes]

    def iterate(count: int) -> float:
        return kernel.blocc(
            count, *tapes, x_spec, y_spec, low, settings, inner, x, y_lower, lower_weights, y_penalised,
            penalised_weights, lower_memory, penalised_memory, memory, space,
        )  # fmt: skip

    loop = Scheduled(iterate, settings, {kernel.STEP_X: method.step_x})

    def report() -> dict[str, float]:
        gap = run.model.g(x, y_penalised, run.p)[0] - run.model.g(x, y_lower, run.p)[0]
        value = run.model.f(x, y_penalised, run.p)[0] + gamma * gap
        return {"value": value, "gap": gap, "gamma": gamma}

    with first_order_run(lower, f"{name}, gamma = {gamma:g}", x, y_penalised):
        try:
            run_in_slices(
                run,
                loop,
                max_iterations=method.max_steps,
                tolerance=run.tolerance,
                report=report,
                n_done=lambda: int(memory[kernel.DONE]),
            )
        finally:
            last = kernel.LAST_RESIDUAL
            _note_inner_errors(run, name, max(lower_memory[last], penalised_memory[last]))


def _note_flat_directions(run: Run, name: str, x: np.ndarray, y: np.ndarray) -> None:
    """Say where g has no curvature: the Lagrangian then has no minimiser for most multipliers."""
    if not limits.EIGENVALUES_IN_BLOCC.allows(y.size):
        return
    values = np.linalg.eigvalsh(hessian(run.model.g, ("y",), (x, y, run.p)).toarray())
    if values[0] <= FLAT * max(values[-1], FLAT):
        run.note(
            f"{name}: g is not strongly convex in y, so that inner='max-min' may find no minimiser of "
            "its Lagrangian; inner='exact' does without strong convexity"
        )


def _note_inner_errors(run: Run, name: str, residual: float) -> None:
    if residual > 1e-3:
        run.note(
            f"{name}: the last max-min solve ended with a residual of {residual:.1e}; give it more "
            "steps, or keep x where the lower level has answers"
        )


def _set_of_y(run: Run) -> tuple[SetSpec, list[cp.Constraint]]:
    """Y with its projection, and the lower constraints that need multipliers."""
    model = run.model
    upper_ids = {leaf.id for leaf in model.x.leaves}
    coupled = [
        constraint
        for constraint in model.lower_constraints
        if any(variable.id in upper_ids for variable in constraint.variables())
    ]
    try:
        spec = simple_set(model, "y", run.p).spec
    except NotProjectable:
        spec = None
    if spec is None:
        return build_set(()), list(model.lower_constraints)
    return spec, coupled


def _steps(run: Run, x: np.ndarray, y: np.ndarray, method: Blocc, rows: sp.csr_array) -> np.ndarray:
    """Memory of a max-min solver at its start: one over the curvature of L in y, and of its dual."""
    point = (x, y, run.p)
    above, below = (hessian(tape, ("y",), point) for tape in (run.model.f, run.model.g))
    curvature = spectral_norm(below) + spectral_norm(above) / method.penalty
    memory = np.zeros(kernel.N_INNER_MEMORY)
    memory[kernel.STEP_Y] = method.step_y or safe_step(curvature)
    if method.step_multiplier is not None:
        memory[kernel.STEP_MULTIPLIER] = method.step_multiplier
        return memory
    # The dual function's curvature is |rows|^2 / strong convexity; the loop halves what is too long.
    least = curvature
    if limits.EIGENVALUES_IN_BLOCC.allows(y.size):
        least = max(float(np.linalg.eigvalsh(below.toarray())[0]), 1e-3 * curvature)
    memory[kernel.STEP_MULTIPLIER] = least * safe_step(spectral_norm(rows) ** 2)
    return memory
