"""One kind of error, whatever goes wrong below cvxpy."""

from __future__ import annotations

import clarabel
import cvxpy as cp
import pytest

from blomodel.programs.by_cvxpy import solve_by_cvxpy


def test_what_breaks_off_is_a_solver_error(monkeypatch):
    x = cp.Variable()
    problem = cp.Problem(cp.Minimize((x - 1) ** 2))
    solve_by_cvxpy(problem, cp.CLARABEL)
    assert problem.value == pytest.approx(0, abs=1e-8)

    class Panic(BaseException):
        pass

    def panic(*_):
        raise Panic("of compiled code")

    monkeypatch.setattr(clarabel, "DefaultSolver", panic)
    with pytest.raises(cp.SolverError, match="Panic"):
        solve_by_cvxpy(cp.Problem(cp.Minimize((x - 1) ** 2)), cp.CLARABEL)
