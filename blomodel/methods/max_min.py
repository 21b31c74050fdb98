"""PBGD-BLOCC with first-order inner solves: the tapes, sets and steps of its compiled loop."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from blomodel.analysis.sets import NotProjectable, SetSpec, simple_set
from blomodel.compiler.derivatives import hessian, jacobian, vjp
from blomodel.compiler.oracle import loop_tape
from blomodel.errors import ModelError
from blomodel.kernels.loops.blocc import blocc
from blomodel.kernels.projection import build_set
from blomodel.methods.constants import safe_step
from blomodel.methods.constrained import ConstrainedLower, rows_tape, spectral_norm
from blomodel.methods.run import Run
from blomodel.methods.slices import run_in_slices

# Relative to the step in x: errors of the inner solves are multiplied by gamma.
ACCURACY = 1e-2
DENSE = 500  # entries of y up to which eigenvalues are asked for
FLAT = 1e-9  # relative curvature below which there is none


@dataclass(frozen=True, kw_only=True)
class MaxMinSettings:
    """What the user set; None: chosen here."""

    gamma: float
    step_size: float | None
    max_steps: int
    lower_step: float | None
    multiplier_step: float | None
    multiplier_steps: int | None
    lower_steps: int | None


def run_max_min(run: Run, name: str, wish: MaxMinSettings) -> None:
    """Algorithm 4 with the max-min solver, compiled."""
    lower = ConstrainedLower(run, name)
    lower.refuse_coupling_above(name)
    x_spec = lower.x_set.spec
    if x_spec is None:
        raise ModelError(
            f"{name}: inner='max-min' needs a set X with a formula, not: {lower.x_set.text}; "
            "inner='exact' does without."
        )
    y_spec, constraints = _set_of_y(run)
    tape, n_in = rows_tape(run.model, [run.model.f_expression, run.model.g_expression], constraints)
    low = np.zeros(tape.n_outputs - 2)
    low[n_in:] = -np.inf
    x, y, _ = lower.start()
    y_lower, y_penalised = y.copy(), y.copy()
    lower_weights, penalised_weights = np.zeros(tape.n_outputs), np.zeros(tape.n_outputs)
    lower_weights[:2], penalised_weights[:2] = (0.0, 1.0), (1 / wish.gamma, 1.0)
    _note_flat_directions(run, name, x, y)
    steps = _steps(run, x, y, wish, jacobian(tape, ("y",), (x, y, run.p))[2:])
    lower_memory, penalised_memory = np.array([*steps, 0.0]), np.array([*steps, 0.0])
    eta = wish.step_size or 1 / (10 * wish.gamma)  # the papers' safe step
    settings = np.array([eta, wish.gamma, run.tolerance])
    is_fixed = wish.lower_steps is not None or wish.lower_step is not None
    accuracy = max(ACCURACY * run.tolerance / max(1.0, wish.gamma), 1e-12)
    inner = np.array([is_fixed, wish.multiplier_steps or 2000, wish.lower_steps or 2000, accuracy])
    memory, space = np.zeros(1), np.zeros((9, max(x.size, y.size, tape.n_outputs)))
    slopes = [lower.oracle.derivative(vjp(tape, (block,))) for block in ("x", "y")]
    tapes = [loop_tape(tape, run.p), *slopes]

    def loop(count: int) -> float:
        return blocc(
            count, *tapes, x_spec, y_spec, low, settings, inner, x, y_lower, lower_weights, y_penalised,
            penalised_weights, lower_memory, penalised_memory, memory, space,
        )  # fmt: skip

    def report() -> dict[str, float]:
        gap = run.model.g(x, y_penalised, run.p)[0] - run.model.g(x, y_lower, run.p)[0]
        value = run.model.f(x, y_penalised, run.p)[0] + wish.gamma * gap
        return {"value": value, "gap": gap, "gamma": wish.gamma}

    run.watch(x, y_penalised)
    try:
        run_in_slices(
            run, loop, max_iterations=wish.max_steps, tolerance=run.tolerance, report=report
        )
    finally:
        # The last slice may have ended early.
        run.iterations = int(memory[0])
        _note_inner_errors(run, name, max(lower_memory[2], penalised_memory[2]))
        lower.propose(x, y_penalised, f"{name}, gamma = {wish.gamma:g}")


def _note_flat_directions(run: Run, name: str, x: np.ndarray, y: np.ndarray) -> None:
    """Say where g has no curvature: the Lagrangian then has no minimiser for most multipliers."""
    if y.size > DENSE:
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


def _steps(
    run: Run, x: np.ndarray, y: np.ndarray, wish: MaxMinSettings, rows: sp.csr_array
) -> tuple[float, float]:
    """Steps of y and of the multipliers: one over the curvature of L in y, and of its dual function."""
    point = (x, y, run.p)
    above, below = (hessian(tape, ("y",), point) for tape in (run.model.f, run.model.g))
    curvature = spectral_norm(below) + spectral_norm(above) / wish.gamma
    step = wish.lower_step or safe_step(curvature)
    if wish.multiplier_step is not None:
        return step, wish.multiplier_step
    # The dual function's curvature is |rows|^2 / strong convexity; the loop halves what is too long.
    least = curvature
    if y.size <= DENSE:
        least = max(float(np.linalg.eigvalsh(below.toarray())[0]), 1e-3 * curvature)
    return step, least * safe_step(spectral_norm(rows) ** 2)
