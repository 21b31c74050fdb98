"""What the methods share that use second derivatives of a smooth lower level."""

from __future__ import annotations

import numpy as np

from blomodel.analysis.kinks import kinks
from blomodel.analysis.levels import shorten
from blomodel.compiler.derivatives import gradient, jvp
from blomodel.compiler.oracle import LoopTape, Oracle
from blomodel.errors import ModelError
from blomodel.methods.first_order import FirstOrder, set_up
from blomodel.methods.run import Run

# Where the steps are chosen here, y is found until its slope is this part of the slope in x.
ACCURACY = 0.01
AUTOMATIC = 0.0  # in place of a step: the loop finds one
FAR = 1e15  # entries beyond this belong to no answer
def set_up_smooth(run: Run, name: str, *, free_y: bool = True) -> FirstOrder:
    """Oracle, sets and start; g must be smooth, and y free where the method cannot project."""
    problem = set_up(run, name)
    if free_y and run.model.lower_constraints:
        raise ModelError(
            f"{name}: the lower level has the constraint {shorten(run.model.lower_constraints[0])!r}, "
            "but this method's derivatives of the lower answer hold for free y only; try unrolled, "
            "which projects, or blocc, gam or auto."
        )
    refuse_kinks(run, name)
    return problem


def refuse_kinks(run: Run, name: str) -> None:
    """Refuse a lower objective that is not smooth in y."""
    found = kinks(run.model.g_expression, {leaf.id for leaf in run.model.y.leaves})
    if found:
        raise ModelError(
            f"{name}: {shorten(found[0])!r} in the lower objective has kinks, but this method needs it "
            "smooth; try meha or alt-pbgd, which handle such terms by a prox, or auto."
        )


def is_free(problem: FirstOrder) -> bool:
    """Whether Y is the whole space."""
    return not problem.run.model.lower_constraints


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
    f = oracle.model.f
    return (
        oracle.derivative(jvp(gradient(f, ("y",)), ("y",))),
        oracle.derivative(jvp(gradient(f, ("x",)), ("y",))),
    )


def finish(problem: FirstOrder, name: str, x: np.ndarray, y: np.ndarray) -> None:
    """Propose the last point of a loop, and the lower minimiser at its x; count its gradients."""
    run = problem.run
    run.evaluations = problem.oracle.n_evaluations
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
