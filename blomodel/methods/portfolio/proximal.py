"""Searches on lower levels with weighted norms: MEHA's single loop, then the reduced penalty.

Such a lower level has no pieces to walk on, and each of its solves is a cone program, so that a path of
the reduced penalty takes hundreds of them. The single loop takes none, and comes near in seconds.
"""

from __future__ import annotations

import numpy as np

from blomodel.errors import ModelError
from blomodel.methods.first_order.first_order import first_point, is_coupled
from blomodel.methods.meha import Meha
from blomodel.methods.reduced_penalty import ReducedPenaltyMethod
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import Point, spread
from blomodel.model.model import Model
from blomodel.programs.parametric import ParametricProgram
from blomodel.structure.prox_terms import split_objective
from blomodel.structure.sets import simple_set

MANY_VARIABLES = 100  # lower variables above which a cone program takes so long that few are solved
FEW_STARTS = 3  # with many variables
FEW_WEIGHTS, N_LOOKED_AT = 2, 16  # upper variables up to which as many points are looked at first
STEPS, FEW_STEPS = 10_000, 3_000  # of MEHA for each weight; the second with many variables
PATH = ReducedPenaltyMethod()
POLISH = ReducedPenaltyMethod(penalty_first=10.0, max_steps=30)


def applies(model: Model, p: np.ndarray) -> bool:
    """Whether the lower level is a cone program, smooth but for norms that have a proximal step."""
    below = model.lower_solver
    if not isinstance(below, ParametricProgram) or below.kind != "conic" or is_coupled(model):
        return False
    try:
        if split_objective(model).is_smooth:
            return False
        return all(simple_set(model, name, p).spec is not None for name in ("x", "y"))
    except ModelError:
        return False


def proximal_starts(run: Run, count: int) -> list[Point]:
    """The start that MEHA takes by itself, then points spread over the range of x.

    In one or two dimensions lower answers at more points tell which ones are worth a start.
    """
    x, y = first_point(run)
    wishes = [x, *spread(run.model.bounds(run.p), x, count, run.seed)[1:]]
    if x.size > FEW_WEIGHTS or run.model.y.size <= MANY_VARIABLES:
        return [(wish, y) for wish in wishes]
    found = []
    for wish in [x, *spread(run.model.bounds(run.p), x, N_LOOKED_AT, run.seed)]:
        run.check_limits()
        answer, _ = run.model.solve_lower(wish, run.p, y)
        if answer.status.has_point:
            found.append(run.propose(wish, answer.y, "lower answer at a spread point"))
    found.sort(key=lambda candidate: candidate.value)
    return [(candidate.x, candidate.y) for candidate in found[:count]] or [(x, y)]


def number_of_starts(model: Model, wanted: int) -> int:
    """As many as wanted, or few where each of them takes long."""
    return min(wanted, FEW_STARTS) if model.y.size > MANY_VARIABLES else wanted


def search_by_meha(run: Run, start: Point) -> float:
    """MEHA from one start; the upper objective reached."""
    n_before, given = len(run.candidates), run.start
    n_steps = FEW_STEPS if run.model.y.size > MANY_VARIABLES else STEPS
    try:
        run.start = start
        Meha(max_steps=n_steps).run(run)
    finally:
        run.start, run.watched = given, None
    new = filter(run.is_acceptable, run.candidates[n_before:])
    return min((candidate.value for candidate in new), default=np.inf)


def finish(run: Run, relaxed: Point) -> None:
    """Follow the reduced penalty from the best point and from the relaxed one, where that takes seconds.

    The path from the relaxed point often ends elsewhere, at times better.
    """
    if run.model.y.size > MANY_VARIABLES:
        return
    best = run.best()
    PATH.follow(run, relaxed)
    if best is not None:
        POLISH.follow(run, (best.x, best.y))


def describe(model: Model, wanted: int) -> str:
    """The search in a sentence, where so many starts are wanted."""
    n_starts = number_of_starts(model, wanted)
    starts = f"from {n_starts} starts" if n_starts > 1 else "from one start"
    end = "then the reduced penalty F_gamma, from the best end and from the relaxed problem's point"
    if model.y.size > MANY_VARIABLES:
        end = "no polish, as that program has many variables"
    return (
        f"the single loop of meha {starts}, since the lower level is a cone program, smooth but for "
        f"norms that have a proximal step; {end}"
    )
