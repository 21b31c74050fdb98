"""Searches on lower levels with weighted norms: MEHA's single loop, then the reduced penalty.

Such a lower level has no pieces to walk on, and each of its solves is a cone program, so that a path of
the reduced penalty takes hundreds of them. The single loop takes none, and comes near in seconds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blomodel.basics import limits
from blomodel.errors import ModelError
from blomodel.methods.first_order.first_order import first_point
from blomodel.methods.meha import Meha
from blomodel.methods.reduced_penalty import ReducedPenaltyMethod
from blomodel.methods.requirements.demands import holds_x_below
from blomodel.methods.run.parallel import Search, Task
from blomodel.methods.run.run import Run
from blomodel.methods.run.starts import Start, spread
from blomodel.model.model import Model
from blomodel.structure.prox_terms import split_objective
from blomodel.structure.sets import simple_set

FEWER_STARTS = 3  # where a cone program is dear
N_LOOKED_AT = 16  # points at which lower answers choose the starts
STEPS, FEWER_STEPS = 10_000, 3_000  # of MEHA for each weight; the second where a cone program is dear
PATH = ReducedPenaltyMethod()
POLISH = ReducedPenaltyMethod(penalty_first=10.0, max_steps=30)


def why_not(model: Model, p: np.ndarray) -> str | None:
    """What keeps the single loop from this problem; None where it is suited.

    It is for lower levels that are cone programs, smooth but for norms that have a proximal step.
    """
    if model.lower_program.kind != "conic":
        return f"the lower level is no cone program but an easier {model.lower_program.kind}"
    if model.coupling_constraints or holds_x_below(model):
        return "a constraint of one level contains variables of the other"
    try:
        if split_objective(model).is_smooth:
            return "the lower objective has no norms that would need a proximal step"
        sets = [simple_set(model, name, p) for name in ("x", "y")]
    except ModelError:
        return "not every kink and every constraint has a proximal step"
    if any(found.spec is None for found in sets):
        return "a polyhedron is too large for compiled loops"
    return None


def is_dear(model: Model) -> bool:
    """Whether a lower solve takes so long that few can be made."""
    return not limits.CONE_PROGRAM_VARIABLES.allows(model.y.size)


def number_of_starts(model: Model, wanted: int) -> int:
    """As many as wanted, or few where each of them takes long."""
    return min(wanted, FEWER_STARTS) if is_dear(model) else wanted


def proximal_starts(run: Run, count: int) -> list[Start]:
    """The start that MEHA takes by itself, then points spread over the range of x.

    In one or two dimensions lower answers at more points tell which ones are worth a start.
    """
    x, y = first_point(run)
    wishes = [x, *spread(run.model.bounds(run.p), x, count, run.seed)[1:]]
    if not (limits.SCANNED_WEIGHTS.allows(x.size) and is_dear(run.model)):
        return [(wish, y) for wish in wishes]
    found = []
    for wish in [x, *spread(run.model.bounds(run.p), x, N_LOOKED_AT, run.seed)]:
        run.check_limits()
        answer, _ = run.solve_lower(wish, y)
        if answer.status.has_point:
            found.append(run.propose(wish, answer.y, "lower answer at a spread point"))
    found.sort(key=lambda candidate: candidate.value)
    return [(candidate.x, candidate.y) for candidate in found[:count]] or [(x, y)]


class SingleLoopStart:
    """MEHA from one start."""

    run: Run
    make: Callable[[Run], Search]

    def __init__(self, run: Run, make: Callable[[Run], Search]) -> None:
        self.run, self.make = run, make

    def __call__(self, task: Task) -> float:
        """Iterate from the task's point; the upper objective reached."""
        run, n_before = self.run, len(self.run.candidates)
        n_steps = FEWER_STEPS if is_dear(run.model) else STEPS
        with run.part(start=(task.x, task.y)) as part:
            Meha(max_steps=n_steps).run(part)
        new = filter(run.is_acceptable, run.candidates[n_before:])
        return min((candidate.value for candidate in new), default=np.inf)


def polish(run: Run, relaxed: Start) -> None:
    """Follow the reduced penalty from the best point and from the relaxed one.

    The path from the relaxed point often ends elsewhere, at times better.
    """
    best = run.best()
    PATH.follow(run, relaxed)
    if best is not None:
        POLISH.follow(run, (best.x, best.y))
