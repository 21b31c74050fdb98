"""Improve a point on the pieces of the lower level's KKT conditions."""

from __future__ import annotations

import numpy as np

from blomodel.compiler.model import Model
from blomodel.errors import NonconvexLowerError
from blomodel.inner.complementarity import (
    ComplementarityResult,
    ComplementarityStatus,
    solve_globally,
    solve_locally,
)
from blomodel.methods.run import Candidate, Run
from blomodel.reformulations.kkt import PieceModel, model_pieces, positive_part

MAX_GLOBAL_PAIRS = 40  # above this, branch and bound over pieces is not tried
MAX_LOCAL_SIZE = 900  # variables and multipliers; above this, one model costs seconds


def model_has_convex_pieces(model: Model, p: np.ndarray) -> bool:
    """Whether on every piece the problem is a convex quadratic program."""
    if not model.is_linear_quadratic:
        return False
    hessian = model.f_hessian(np.zeros(model.x.size), np.zeros(model.y.size), p)
    lowest = np.linalg.eigvalsh(hessian).min(initial=0)
    return bool(lowest >= -1e-9 * (1 + np.abs(hessian).max(initial=0)))


def solve_globally_by_pieces(run: Run, *, node_limit: int = 4000, time_limit: float = 4.0) -> bool:
    """Branch and bound over all pieces; True when it settles the problem.

    Only for linear KKT conditions and a convex quadratic upper objective, where each piece is a
    convex quadratic program and the lower level's multipliers always exist.
    """
    model, p = run.model, run.p
    x, y = np.zeros(model.x.size), np.zeros(model.y.size)
    multipliers = np.zeros(len(model.lower_in) + len(model.lower_eq))
    curvature = positive_part(model.f_hessian(x, y, p))
    pieces = model_pieces(model, x, y, p, multipliers, curvature=curvature)
    result = solve_globally(
        pieces.qp,
        node_limit=node_limit,
        time_limit=min(time_limit, run.remaining),
    )
    run.evaluations += result.nodes
    base = float(model.f(x, y, p)[0])
    if result.status is ComplementarityStatus.INFEASIBLE:
        run.is_infeasible = True
        run.note(f"none of the pieces of the KKT conditions has a point ({result.nodes} nodes)")
        return True
    if result.status is ComplementarityStatus.UNBOUNDED:
        run.is_unbounded = True
        run.note("the upper objective falls without limit on a piece of the KKT conditions")
        return True
    if result.z is not None:
        x, y, _ = pieces.split(result.z)
        candidate = run.propose(x, y, "branch and bound over pieces")
        if np.isfinite(result.bound) and base + result.bound > run.bound:
            run.bound = base + result.bound
            run.bound_source = f"branch and bound over KKT pieces, {result.nodes} nodes"
        run.step(value=candidate.value, gap=candidate.gap)
        return result.status is ComplementarityStatus.OPTIMAL and run.is_acceptable(candidate)
    return False


def improve_by_pieces(run: Run, x: np.ndarray, y: np.ndarray, *, max_rounds: int = 40) -> Candidate:
    """Trust-region descent: model the KKT conditions around a point, solve, answer below, repeat.

    Every accepted point carries an exact answer of the lower level, so the walk stays on
    bilevel feasible points as soon as the upper constraints hold.
    """
    model = run.model
    current = answer_below(run, x, y)
    if not model.has_smooth_kkt or _size(run) > MAX_LOCAL_SIZE:
        return current
    is_exact = model_has_convex_pieces(model, run.p)
    weight = 10.0 * (1 + np.abs(model.f_grad(current.x, current.y, run.p)).max(initial=0))
    radius = np.inf if is_exact else 1.0 + np.abs(current.x).max(initial=0)
    for _ in range(max_rounds):
        run.check_limits()
        step = _solve_model(run, current, radius)
        if step is None:
            if not np.isfinite(radius) or radius > 1e6:
                break
            radius *= 10.0
            continue
        dx, dy, predicted = step
        trial = answer_below(run, current.x + dx, current.y + dy)
        decrease = _merit(run, current, weight) - _merit(run, trial, weight)
        predicted += weight * _upper_violation(run, current.x, current.y)
        run.step(value=trial.value, gap=trial.gap)
        size = max(np.abs(dx).max(initial=0), np.abs(dy).max(initial=0))
        if decrease >= 0.1 * predicted and decrease > 0:
            current = trial
            if decrease > 0.7 * predicted:
                radius = max(radius, 3 * size)
        else:
            radius = min(radius, size) * 0.25
        small = 1e-10 * (1 + np.abs(current.x).max(initial=0))
        if predicted <= 1e-11 * (1 + abs(current.value)) or radius < small or size < small:
            break
        if is_exact:
            break
    return current


def answer_below(run: Run, x: np.ndarray, y: np.ndarray) -> Candidate:
    """The best answer at x: the given y if the lower level keeps it, else its own minimiser."""
    proposed = run.propose(x, y, "pieces")
    if run.is_acceptable(proposed):
        return proposed
    answer = run.model.lower_program.solve(proposed.x, run.p)
    if not answer.status.has_point:
        return proposed
    best = run.propose(x, answer.y, "lower minimiser")
    chosen = choose_optimistically(run, best)
    if chosen is not None and (run.is_acceptable(chosen) or chosen.error < best.error):
        if chosen.value < best.value or not run.is_acceptable(best):
            best = chosen
    return best


def choose_optimistically(run: Run, candidate: Candidate) -> Candidate | None:
    """Minimise the upper objective among the lower minimisers at the candidate's x."""
    model = run.model
    answer = model.lower_program.solve(candidate.x, run.p)
    if not answer.status.has_point:
        return None
    # A slack far below the tolerance keeps the set of near-minimisers from being empty.
    level = answer.value + 1e-3 * run.tolerance * (1 + abs(answer.value))
    try:
        chosen = model.optimistic_program.solve(candidate.x, np.append(run.p, level))
    except NonconvexLowerError:
        return None
    if not chosen.status.has_point:
        return None
    return run.propose(candidate.x, chosen.y, "optimistic choice")


def _size(run: Run) -> int:
    model = run.model
    return model.x.size + model.y.size + len(model.lower_in) + len(model.lower_eq)


def _solve_model(
    run: Run, current: Candidate, radius: float
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Step in x and y, and the decrease that the model promises."""
    model, p = run.model, run.p
    answer = model.lower_program.solve(current.x, p)
    if not answer.status.has_point:
        return None
    multipliers = model.split_duals(answer.duals)
    curvature = positive_part(model.f_hessian(current.x, current.y, p))
    pieces = model_pieces(
        model, current.x, current.y, p, multipliers, curvature=curvature, radius=radius
    )
    result = _solve_pieces(run, pieces, multipliers)
    run.evaluations += result.nodes
    if result.z is None:
        return None
    dx, dy, _ = pieces.split(result.z)
    return dx, dy, -result.value


def _solve_pieces(run: Run, pieces: PieceModel, multipliers: np.ndarray) -> ComplementarityResult:
    n_pairs = len(pieces.qp.rows)
    here = np.concatenate([np.zeros(pieces.n_x + pieces.n_y), multipliers])
    if n_pairs <= MAX_GLOBAL_PAIRS // 2:
        return solve_globally(
            pieces.qp, incumbent=here, node_limit=300, time_limit=min(1.0, run.remaining)
        )
    return solve_locally(pieces.qp, here, time_limit=run.remaining)


def _upper_violation(run: Run, x: np.ndarray, y: np.ndarray) -> float:
    model, p = run.model, run.p
    return float(
        model.upper_in.values(x, y, p).max(initial=0)
        + np.abs(model.upper_eq.values(x, y, p)).max(initial=0)
    )


def _merit(run: Run, candidate: Candidate, weight: float) -> float:
    if candidate.gap > run.tolerance:
        return np.inf
    return candidate.value + weight * _upper_violation(run, candidate.x, candidate.y)
