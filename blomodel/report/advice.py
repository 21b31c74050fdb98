"""What to do about the outcome of a solve, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        if solution.settings.get("effort") == "thorough":
            if solution.bound is None:
                return "bound every variable: without that nothing can be proven; or try other starts"
            return "a time_limit lets the search for a proof go on; other starts may lead elsewhere"
    return status.next_step
