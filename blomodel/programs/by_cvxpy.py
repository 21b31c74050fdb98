"""Programs that cvxpy states to a solver: whatever goes wrong there is one kind of error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cvxpy as cp

from blomodel.basics.deadline import end_of_work
from blomodel.basics.troubles import count_trouble, is_from_outside


@contextmanager
def without_advice_on_cones() -> Iterator[None]:
    """Keep quiet how cvxpy states powers, on which nobody who calls ``solve()`` here has any hold."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*is being approximated with rational")
        yield


def solve_by_cvxpy(problem: cp.Problem, solver: str, **options: Any) -> None:
    """Solve; raises cvxpy's SolverError, for a panic of the solver's own code too, and at the end."""
    end = end_of_work()
    if solver == cp.CLARABEL or (solver == cp.HIGHS and not end.is_never):
        # cvxpy keeps Clarabel's settings from one solve of a problem to the next.
        options = {"time_limit": max(end.remaining, 1e-3)} | options
    try:
        with without_advice_on_cones():
            problem.solve(solver=solver, **options)
    except cp.DCPError:
        raise
    except BaseException as error:
        if is_from_outside(error):
            raise
        if end.is_over:
            raise cp.SolverError(f"{solver}: no time is left") from error
        count_trouble(solver.lower())
        raise cp.SolverError(f"{solver}: {type(error).__name__}: {error}") from error
    if end.is_over and problem.status not in (cp.OPTIMAL, cp.INFEASIBLE, cp.UNBOUNDED):
        raise cp.SolverError(f"{solver}: no time is left")
