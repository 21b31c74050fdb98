"""What to do about the outcome of a solve, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blomodel.certification.certificate_text import BOUND_ALL
from blomodel.errors import DataError
from blomodel.status import Status

if TYPE_CHECKING:
    from blomodel.solution import Solution

OPEN = {Status.LOCALLY_OPTIMAL, Status.STATIONARY, Status.FEASIBLE}


def next_step(solution: Solution) -> str:
    """What the status suggests, in view of the method that ran and of what ended it."""
    status = solution.status
    if status in OPEN:
        if solution.stopped_by:
            return f"solve() once more goes on from this point: the {solution.stopped_by} ended it"
        if solution.method != "auto":
            return "solve() with its default method, auto, goes on from this point"
        if solution.bound is None:
            return without_a_bound(solution)
        if solution.settings.get("effort") == "thorough":
            return "a time_limit lets the search for a proof go on; other starts may lead elsewhere"
    return status.next_step


def without_a_bound(solution: Solution) -> str:
    """Which upper variables keep a bound of f from being found, as far as that is known."""
    problem = solution.problem
    if problem is None:
        return BOUND_ALL
    try:
        low, high = problem.plain_model.bounds(problem.parameter_values())
    except DataError:  # a parameter has lost its value since
        return BOUND_ALL
    is_open = ~(np.isfinite(low) & np.isfinite(high))
    block = problem.plain_model.x
    names = [leaf.name() for leaf in block.leaves if is_open[block.slice_of(leaf)].any()]
    return f"{BOUND_ALL} ({', '.join(names[:5])})" if names else BOUND_ALL
