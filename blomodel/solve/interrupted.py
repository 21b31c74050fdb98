"""What is said where Ctrl-C came during a solve."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from blomodel.status import Status

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem


def mark_interrupted(problem: BilevelProblem) -> None:
    """Say that the user has pressed Ctrl-C, also where it came after the last moment to stop."""
    if problem.solution is not None and problem.status is not Status.INTERRUPTED:
        problem.status = Status.INTERRUPTED
        problem.solution = replace(problem.solution, status=Status.INTERRUPTED)
