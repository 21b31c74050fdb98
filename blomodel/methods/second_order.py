"""What the methods share that use second derivatives of a smooth, unconstrained lower level."""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np

from blomodel.analysis.levels import shorten
from blomodel.compiler.convexity import arguments
from blomodel.compiler.derivatives import gradient, jvp
from blomodel.compiler.oracle import LoopTape, Oracle, loop_tape
from blomodel.errors import ModelError
from blomodel.methods.first_order import FirstOrder, set_up
from blomodel.methods.run import Run
from blomodel.methods.slices import run_in_slices

# Where the steps are chosen here, y is found until its slope is this part of the slope in x.
ACCURACY = 0.01
AUTOMATIC = 0.0  # in place of a step: the loop finds one
FAR = 1e15  # entries beyond this belong to no answer
FIRST_SLICE = 1000  # iterations over which a mean direction says something
_KINKED = (
    cp.abs,
    cp.max,
    cp.maximum,
    cp.min,
    cp.minimum,
    cp.norm1,
    cp.norm_inf,
    cp.Pnorm,
    cp.sum_largest,
)


def set_up_smooth(run: Run, name: str) -> FirstOrder:
    """Oracle, set of x and start; y must be free and g smooth, or its Hessian tells nothing."""
    problem = set_up(run, name)
    if len(run.model.lower_in) or len(run.model.lower_eq) or run.model.lower_in.spectral:
        raise ModelError(
            f"{name}: the lower level has constraints, and this method's derivatives of the lower "
            f"answer hold for free y only; try blocc, gam or auto."
        )
    kink = _first_kink(run.model.g_expression, {leaf.id for leaf in run.model.y.leaves})
    if kink is not None:
        raise ModelError(
            f"{name}: {shorten(kink)!r} in the lower objective has kinks, where it has no second "
            f"derivatives; try meha."
        )
    return problem


def _first_kink(expression: cp.Expression, lower_ids: set[int]) -> cp.Expression | None:
    if not any(variable.id in lower_ids for variable in expression.variables()):
        return None
    if isinstance(expression, _KINKED):
        return expression
    found = (_first_kink(argument, lower_ids) for argument in arguments(expression))
    return next((kink for kink in found if kink is not None), None)


def given(step: float | None) -> float:
    """A step as the loops take it."""
    return AUTOMATIC if step is None else float(step)


def unrolled_steps(problem: FirstOrder, asked: int | None) -> int:
    """Inner steps after which the first point is forgotten, as far as the curvatures tell."""
    if asked is not None:
        return asked
    c = problem.constants
    if not c.is_strongly_convex:
        return 100
    return int(np.clip(np.ceil(10 * c.g_yy / c.strong_convexity), 20, 2000))


def probe(work: np.ndarray, row: int, seed: int) -> None:
    """Put the first vector of the power steps into its row."""
    work[row] = np.random.default_rng(seed).standard_normal(work.shape[1])


def f_second(oracle: Oracle) -> tuple[LoopTape, LoopTape]:
    """Second derivatives of f in (y, y) and (x, y), each times a direction in y."""
    f, p = oracle.model.f, oracle.p
    return (
        loop_tape(jvp(gradient(f, ("y",)), ("y",)), p),
        loop_tape(jvp(gradient(f, ("x",)), ("y",)), p),
    )


def propose_both(run: Run, name: str, x: np.ndarray, y: np.ndarray) -> None:
    """The last point of a loop, and the lower minimiser at its x."""
    if not max(np.abs(x).max(initial=0), np.abs(y).max(initial=0)) < FAR:  # also true for NaN
        run.note(f"{name} has diverged; take smaller steps, or leave them out")
        return
    run.propose(x, y, name)
    propose_lower_answer(run, x, y, f"{name}, lower minimiser at its x")


def propose_lower_answer(run: Run, x: np.ndarray, near: np.ndarray, source: str) -> None:
    """The lower minimiser at x, searched from a point nearby where there may be several."""
    answer, _ = run.model.solve_lower(x, run.p, near)
    if answer.status.has_point:
        run.propose(x, answer.y, source)


def run_with_smaller_steps(
    run: Run,
    loop: Callable[[int, float], float],
    report: Callable[[], dict[str, float]],
    *,
    first: float,
    count: int,
    factor: float,
    max_iterations: int,
    problem: FirstOrder,
) -> None:
    """Run a loop whose error is of the order of its step, with one step after another.

    Each stage ends when the mean direction of a slice no longer leads anywhere: what remains then is
    the zigzag of the barrier, which only a smaller step lessens. The ends of the last two stages, whose
    errors in x are as their steps, give one more candidate.
    """
    step, ends = first, []
    share = max_iterations // (2 * count)  # of an early stage; the last one needs half of all
    share_last = max_iterations - (count - 1) * share
    for stage in range(count):
        is_last = stage == count - 1
        goal = run.tolerance if is_last else max(run.tolerance, 0.01 * factor**stage)
        size = run_in_slices(
            run,
            lambda n, step=step: loop(n, step),  # type: ignore[misc]
            max_iterations=share_last if is_last else share,
            tolerance=goal,
            report=lambda step=step: {"step": step, **report()},  # type: ignore[misc]
            first_slice=FIRST_SLICE,
        )
        if not np.isfinite(size):
            return
        ends.append(problem.x.copy())
        step *= factor
    if count > 1:
        beyond = ends[-1] + factor / (1 - factor) * (ends[-1] - ends[-2])
        propose_lower_answer(run, problem.x_set.project(beyond), problem.y, "extrapolated to step 0")
