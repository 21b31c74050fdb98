"""Bilevel problems with known solutions, shared by the tests of the reformulations."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.problems.penalty_paper import example_4
from blomodel.solvers.nlp import solve_nonlinear
from blomodel.solvers.registry import SOLVERS, find_solver


def coupled_example():
    """Example 4 of the ALT-PBGD paper: x = y = 0.300705 with f = 2.654498."""
    problem = example_4()
    return problem, *problem.variables


def tracking(rows=True):
    """A smooth strictly convex lower level in two variables; with or without constraints."""
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
    g = cp.quad_form(y, matrix) / 2 - (y @ x) + cp.exp(x[0]) * y[1]
    constraints = [y[0] + y[1] <= 1 + x[1], y >= -2] if rows else []
    lower = bm.Lower(cp.Minimize(g), constraints, variables=[y])
    f = cp.sum_squares(y - np.array([1.0, -1.0])) + cp.sum_squares(x) / 10
    return bm.BilevelProblem(cp.Minimize(f), [x >= -1, x <= 1], lower), x, y


def needs_solver(name):
    """Skip where the solver is not installed."""
    pytest.importorskip(SOLVERS[name].module)


def drive_to_zero(form, x, solver="ipopt", levels=(1.0, 1e-2, 1e-4, 1e-6, 1e-8)):
    """Solve a reformulation's cvxpy problem for smaller and smaller t."""
    form.start(x)
    for level in levels:
        form.relaxation.value = level
        assert solve_nonlinear(form.problem, find_solver(solver)()).has_point
