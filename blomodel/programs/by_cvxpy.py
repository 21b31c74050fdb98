"""Programs that cvxpy states to a solver: whatever goes wrong there is one kind of error."""

from __future__ import annotations

from typing import Any

import cvxpy as cp

from blomodel.basics.troubles import count_trouble, is_from_outside


def solve_by_cvxpy(problem: cp.Problem, solver: str, **options: Any) -> None:
    """Solve; raises cvxpy's SolverError, for a panic of the solver's own code too."""
    try:
        problem.solve(solver=solver, **options)
    except cp.DCPError:
        raise
    except BaseException as error:
        if is_from_outside(error):
            raise
        count_trouble(solver.lower())
        raise cp.SolverError(f"{solver}: {type(error).__name__}: {error}") from error
