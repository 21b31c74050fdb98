"""What methods for constrained lower levels need before their loop: tapes of the lower Lagrangian."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from blomodel.basics import limits
from blomodel.compiler.expressions.constraints import EQUALITY, INEQUALITY, as_row
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import hessian, jvp, vjp
from blomodel.compiler.tape import Tape
from blomodel.methods.run.run import Run
from blomodel.methods.run.slices import run_in_slices
from blomodel.methods.run.starts import nearest_allowed
from blomodel.model.model import Model
from blomodel.model.oracle import LoopTape, Oracle, loop_tape
from blomodel.structure.sets import SimpleSet

RESTARTS = 8  # with smaller steps, where a loop diverges


class ConstrainedLower:
    """The lower level as g and rows: c(x, y) <= 0 first, then h(x, y) == 0.

    Attributes
    ----------
    oracle : Oracle
        Derivatives of f.
    low : array
        Smallest multiplier of each row: 0, or minus infinity for equalities.
    x, y : array
        The start: the user's x, else the middle of the bounds, and the lower answer there, of which the
        user's y chooses where it begins to look.
    weights : array
        (1, multipliers) at the start.
    """

    run: Run
    model: Model
    p: np.ndarray
    oracle: Oracle
    n_rows: int
    low: np.ndarray

    def __init__(self, run: Run) -> None:
        self.run, self.model, self.p = run, run.model, run.p
        model = run.model
        self.oracle = Oracle(model, run.p)
        self._tape, _ = rows_tape(model, [model.g_expression], model.lower_constraints)
        self._slope_x, self._slope_y = vjp(self._tape, ("x",)), vjp(self._tape, ("y",))
        self.n_rows = model.n_lower_rows
        self.low = np.zeros(self.n_rows)
        self.low[len(model.lower_in) :] = -np.inf

    @property
    def n_evaluations(self) -> int:
        """Gradients that the loops have taken."""
        return self.oracle.n_evaluations

    @cached_property
    def x_set(self) -> SimpleSet:
        """What the upper constraints on x alone allow."""
        return self.run.x_set

    @cached_property
    def both(self) -> LoopTape:
        """Values of (g, rows)."""
        return loop_tape(self._tape, self.p)

    @cached_property
    def slope_x(self) -> LoopTape:
        """Gradient in x of a weighted sum of (g, rows)."""
        return self.oracle.derivative(self._slope_x)

    @cached_property
    def slope_y(self) -> LoopTape:
        """Gradient in y of a weighted sum of (g, rows)."""
        return self.oracle.derivative(self._slope_y)

    @cached_property
    def curve_xy(self) -> LoopTape:
        """Derivative of ``slope_x`` along a direction in y."""
        return self.oracle.derivative(jvp(self._slope_x, ("y",)))

    @cached_property
    def curve_yy(self) -> LoopTape:
        """Derivative of ``slope_y`` along a direction in y."""
        return self.oracle.derivative(jvp(self._slope_y, ("y",)))

    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, y and (1, multipliers)."""
        run, model = self.run, self.model
        if run.start is not None:
            x = run.start[0].copy()
        else:
            low, high = model.bounds(run.p)
            x = np.clip(0.0, low, high)
            closed = np.isfinite(low) & np.isfinite(high)
            x[closed] = (low[closed] + high[closed]) / 2
        x = self.x_set.project(x)
        near = np.zeros(model.y.size)
        if run.start is not None and run.start[1] is not None:
            near = run.start[1].copy()
        answer, _ = run.solve_lower(x, near)
        weights = np.zeros(1 + self.n_rows)
        weights[0] = 1.0
        if not answer.status.has_point:
            run.tried.append((x, answer.status))
            allowed = nearest_allowed(run, x)
            if allowed is None:
                return x, near, weights
            x, near = allowed[0].copy(), allowed[1].copy()
            answer, _ = run.solve_lower(x, near)
            if not answer.status.has_point:
                return x, near, weights
        weights[1:] = model.split_duals(answer.duals)
        return x, np.array(answer.y, dtype=float), weights


def rows_tape(
    model: Model, objectives: Sequence[cp.Expression], constraints: Sequence[cp.Constraint]
) -> tuple[Tape, int]:
    """Objectives, then the rows c <= 0, then the rows h == 0 as one tape; and how many are c <= 0."""
    rows = [as_row(constraint) for constraint in constraints]
    above = [expression for kind, expression in rows if kind == INEQUALITY]
    equal = [expression for kind, expression in rows if kind == EQUALITY]
    tape = lower([*objectives, *above, *equal], model.blocks)
    return tape, sum(expression.size for expression in above)


def spectral_norm(matrix: Any) -> float:
    """Largest singular value, by dense algebra while that is cheap, else the Frobenius norm."""
    if 0 in matrix.shape:
        return 0.0
    if limits.SPECTRAL_NORM.allows(max(matrix.shape)):
        return float(np.linalg.norm(matrix.toarray(), 2))
    return float(np.sqrt((matrix.data**2).sum()))


@dataclass(frozen=True)
class Scales:
    """Sizes of derivatives at the start, from which the penalty methods' default steps follow."""

    curvature: float  # of g and of the rows' part of the Lagrangian in (x, y)
    curvature_y: float  # of g in y
    rows: float  # norm of the rows' Jacobian in (x, y)
    upper: float  # curvature of f in (x, y)


def iterate_safely(
    run: Run,
    loop: Callable[[int], float],
    report: Callable[[], dict[str, float]],
    *,
    state: Sequence[np.ndarray],
    steps: np.ndarray,
    max_iterations: int,
    is_settled: Callable[[], bool],
    has_given_steps: bool = False,
) -> None:
    """Run a loop; where it diverges, go back to the start with a quarter of the ``steps``.

    Where some of them were given, a note says that they were made smaller.
    """
    kept = [part.copy() for part in state]
    tolerance, share = 0.1 * run.tolerance, 1.0
    for attempt in range(RESTARTS):
        residual = run_in_slices(
            run,
            loop,
            max_iterations=max_iterations,
            tolerance=tolerance,
            report=report,
            is_settled=is_settled,
        )
        if np.isfinite(residual):
            return
        if attempt == RESTARTS - 1:  # the point stays where it ended
            break
        if has_given_steps:
            share *= 0.25
            run.note(f"diverged with the steps that were given; went on with {share:g} of all steps")
        for part, before in zip(state, kept, strict=True):
            part[:] = before
        steps *= 0.25
    run.diverged_at = run.iterations
    run.note("diverged with every step size that was tried")


def scales(lower: ConstrainedLower, x: np.ndarray, y: np.ndarray, multipliers: np.ndarray) -> Scales:
    """The sizes at one point."""
    model, p = lower.model, lower.p
    point = (x, y, p)
    rows = [part.linearise(x, y, p) for part in (model.lower_in, model.lower_eq)]
    joint = sp.vstack([sp.hstack([part.in_x, part.in_y]) for part in rows], format="csr")
    bent = spectral_norm(model.lower_hessian(x, y, p, multipliers)[1])
    return Scales(
        curvature=max(spectral_norm(hessian(model.g, ("x", "y"), point)), bent, 1e-6),
        curvature_y=max(spectral_norm(hessian(model.g, ("y",), point)), bent, 1e-6),
        rows=max(spectral_norm(joint), 1e-6),
        upper=spectral_norm(hessian(model.f, ("x", "y"), point)),
    )
