"""Minimise a smooth function of x: over a box, or over the x that both levels' rows allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from blomodel.methods.run.run import Run
from blomodel.methods.search.evaluation import WithAnswer
from blomodel.solvers.convex_qp import solve_convex_qp

Found = TypeVar("Found", bound=WithAnswer)


def minimise_in_box(
    evaluate: Callable[[np.ndarray], Found],
    start: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    *,
    tolerance: float,
    max_iterations: int,
    least_gain: float = 1e-13,
) -> Found:
    """Limited-memory quasi-Newton descent over a box (SciPy's L-BFGS-B); the best point seen.

    It ends at a projected slope of ``tolerance``, and at a step with less than ``least_gain``, relative
    to the value.
    """
    from scipy.optimize import minimize

    best: list[Found] = []

    def value_and_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
        evaluation = evaluate(x)
        if not best or evaluation.value < best[0].value:
            best[:] = [evaluation]
        # L-BFGS-B steps back from a large finite value but not from an infinite one.
        return (evaluation.value if evaluation.is_finite else 1e30), evaluation.gradient

    minimize(
        value_and_slope,
        np.clip(start, *bounds),
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack(bounds),
        options={"maxiter": max_iterations, "ftol": least_gain, "gtol": tolerance, "maxcor": 50},
    )
    return best[0]


def minimise_in_set(
    evaluate: Callable[[np.ndarray], Found],
    start: Found,
    run: Run,
    *,
    tolerance: float,
    max_iterations: int,
) -> Found:
    """Sequential quadratic programming in x.

    The step solves a quadratic program in (dx, dy) over the linearised rows of both levels, so
    that x stays where the lower level has an answer; the curvature in x is a damped BFGS matrix.
    """
    current, n_x = start, run.model.x.size
    curvature = np.eye(n_x)
    weight = 10.0 * (1 + np.abs(current.gradient).max(initial=0))  # of violations in the merit
    merit = _merit(current, run, weight)
    for iteration in range(max_iterations):
        run.check_limits()
        direction = _direction(current, run, curvature)
        if direction is None:
            break
        slope = float(current.gradient @ direction)
        if abs(slope) <= tolerance**2 or np.abs(direction).max(initial=0) <= tolerance * 1e-2:
            break
        step, trial, trial_merit = 1.0, current, np.inf
        while step > 1e-4:
            trial = evaluate(current.x + step * direction)
            trial_merit = _merit(trial, run, weight)
            if trial_merit <= merit + 1e-4 * step * min(slope, 0.0):
                break
            step *= 0.5 if step < 1 else 0.3
        if not trial_merit < merit:
            break
        if iteration == 0:
            curvature *= _initial_scale(current, trial)
        curvature = _damped_bfgs(curvature, trial.x - current.x, trial.gradient - current.gradient)
        has_stalled = merit - trial_merit <= 1e-10 * (1 + abs(merit))
        current, merit = trial, trial_merit
        if has_stalled:
            break
    return current


def _merit(evaluation: WithAnswer, run: Run, weight: float) -> float:
    if not evaluation.is_finite:
        return np.inf
    model = run.model
    violation = model.upper_in.values(evaluation.x, evaluation.y, run.p).max(initial=0)
    violation += np.abs(model.upper_eq.values(evaluation.x, evaluation.y, run.p)).max(initial=0)
    return evaluation.value + weight * violation


def _direction(current: WithAnswer, run: Run, curvature: np.ndarray) -> np.ndarray | None:
    model, p = run.model, run.p
    n_x, n_y = model.x.size, model.y.size
    inequality = [rows.linearise(current.x, current.y, p) for rows in (model.upper_in, model.lower_in)]
    equality = [rows.linearise(current.x, current.y, p) for rows in (model.upper_eq, model.lower_eq)]
    a_in, a_eq = (
        sp.csc_array(sp.vstack([sp.hstack([part.in_x, part.in_y]) for part in parts]))
        for parts in (inequality, equality)
    )
    # A little curvature in dy makes the step unique without steering it.
    small = 1e-6 * max(1.0, np.trace(curvature) / n_x)
    quadratic = sp.csc_array(sp.block_diag([curvature, small * sp.eye_array(n_y)]))
    linear = np.concatenate([current.gradient, np.zeros(n_y)])
    if not (np.all(np.isfinite(a_in.data)) and np.all(np.isfinite(a_eq.data))):
        return None  # a kink: no linearisation
    answer = solve_convex_qp(
        quadratic,
        linear,
        a_eq,
        -np.concatenate([part.value for part in equality]),
        a_in,
        -np.concatenate([part.value for part in inequality]),
        accuracy=1e-9,
    )
    return answer.y[:n_x] if answer.has_point else None


def _initial_scale(before: WithAnswer, after: WithAnswer) -> float:
    moved, turned = after.x - before.x, after.gradient - before.gradient
    along = float(moved @ turned)
    return max(1e-3, min(1e6, float(turned @ turned) / along)) if along > 1e-12 else 1.0


def _damped_bfgs(matrix: np.ndarray, moved: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """Powell's damped update: stays positive definite whatever the curvature met."""
    image = matrix @ moved
    curvature = float(moved @ image)
    if curvature <= 1e-300:
        return matrix
    along = float(moved @ turned)
    if along < 0.2 * curvature:
        share = 0.8 * curvature / (curvature - along)
        turned = share * turned + (1 - share) * image
        along = float(moved @ turned)
    return matrix - np.outer(image, image) / curvature + np.outer(turned, turned) / along
