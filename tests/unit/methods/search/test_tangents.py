"""Bounds from tangents, against the best of a grid of x with exact lower answers."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.run.run import Run
from blomodel.methods.search.tangents import Tangents


def best_of_a_grid(problem, count=15):
    model, p = problem.model, problem.parameter_values()
    run = Run(model, p, None, 1e-6, 0)
    for x in np.linspace(0, 1, count):
        answer = model.lower_program.solve(np.array([x]), p)
        run.propose(np.array([x]), answer.y, "grid")
    return run


@pytest.mark.parametrize("pull", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("is_curved", [False, True])
def test_no_point_lies_below_the_bound(pull, is_curved):
    x, y = cp.Variable(1, name="x"), cp.Variable(2, name="y")
    f = cp.sum(cp.power(y, 3)) * cp.power(1 + x[0], -1) + cp.square(x[0] - 0.7) + pull * y[0]
    rows = [cp.sum(y) == 1, y >= 0]
    above = [x >= 0, x <= 1, *([cp.sum_squares(y) + x[0] <= 2.0] if is_curved else [])]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y) - x[0] * y[1]), rows, variables=[y])
    run = best_of_a_grid(bm.BilevelProblem(cp.Minimize(f), above, lower))
    bound = Tangents(run).bound_at_the_best()
    assert np.isfinite(bound)
    assert bound <= run.best().value + 1e-9


def test_the_bound_meets_a_point_that_both_levels_like_best():
    x, y = cp.Variable(1, name="x"), cp.Variable(2, name="y")
    f = cp.sum_squares(y) + cp.square(x[0] - 0.5)
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y)), [cp.sum(y) == 1 - x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 1], lower)
    value = problem.solve()
    run = Run(problem.model, problem.parameter_values(), None, 1e-6, 0)
    run.propose(x.value, y.value, "answer")
    assert Tangents(run).bound_at_the_best() == pytest.approx(value, abs=1e-5)


def test_without_a_point_or_a_finite_program_there_is_no_bound():
    x, y = cp.Variable(1, name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.square(y - x[0])), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y + cp.square(x[0])), [x >= 0, x <= 1], lower)
    assert (
        Tangents(Run(problem.model, problem.parameter_values(), None, 1e-6, 0)).bound_at_the_best()
        == -np.inf
    )
    assert Tangents(best_of_a_grid(problem)).bound_at_the_best() == -np.inf
