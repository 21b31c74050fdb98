"""The order in which solvers are asked, class by class, and why it is this one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blomodel.basics import limits
from blomodel.solvers.question import ProblemClass
from blomodel.solvers.registry import SOLVERS, InnerSolver


def _always(n: int, m: int) -> bool:
    return True


@dataclass(frozen=True)
class Stage:
    """One solver of a cascade, asked when those before it did not settle the matter."""

    solver: str
    why: str
    applies: Callable[[int, int], bool] = _always  # to a program of n variables and m rows
    corrections: int = 0  # of its active rows that are tried, to make its point exact


_ACTIVE_ROWS = Stage(
    "active-set",
    "neighbouring programs mostly have the same active rows, and then one linear system is all",
)
_LAST_WORD = Stage(
    "clarabel",
    "accurate whatever the conditioning, and it proves that a program is infeasible or unbounded",
    corrections=4,
)
CASCADES: dict[ProblemClass, tuple[Stage, ...]] = {
    ProblemClass.LP: (
        _ACTIVE_ROWS,
        Stage(
            "highs",
            "on large linear programs the simplex method is faster than the interior point method",
            applies=lambda n, m: not limits.INTERIOR_POINT_LP.allows(n + m),
            corrections=4,
        ),
        _LAST_WORD,
    ),
    ProblemClass.QP: (
        _ACTIVE_ROWS,
        Stage(
            "osqp",
            "cheap iterations from the last point, whose multipliers soon tell which rows are active",
            applies=lambda n, m: m > 0,
            corrections=10,
        ),
        _LAST_WORD,
    ),
    ProblemClass.CONIC: (_LAST_WORD,),
    ProblemClass.SMOOTH: (Stage("slsqp", "comes with SciPy, and the programs here are small"),),
    ProblemClass.NLP: (
        Stage("ipopt", "found the better points on the random bilevel QPs that both were tried on"),
        Stage("uno", "where IPOPT is not installed"),
    ),
}


def stages(problem_class: ProblemClass, n: int, m: int) -> list[tuple[Stage, InnerSolver]]:
    """The stages for a program of this size, each with a solver of its own."""
    return [(stage, SOLVERS[stage.solver]()) for stage in CASCADES[problem_class] if stage.applies(n, m)]


def describe(problem_class: ProblemClass, n: int, m: int) -> str:
    """Who is asked, in order, as a phrase."""
    return ", then ".join(stage.solver for stage in CASCADES[problem_class] if stage.applies(n, m))
