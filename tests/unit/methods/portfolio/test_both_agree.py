"""Where lower rows hold x, the point that the upper level wishes for may be the lower answer there."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.methods.portfolio.tangent_bound import BothAgree


def machine(n_samples, *, weight_of_violations=0.5):
    """A support vector machine whose bounds for violations the upper level chooses."""
    rng = np.random.default_rng(3)
    features = rng.standard_normal((2 * n_samples, 4))
    labels = np.sign(features @ [1.0, -0.5, 0.2, 0.0] + 0.8 * rng.standard_normal(2 * n_samples))
    train, test = slice(0, n_samples), slice(n_samples, None)
    c = cp.Variable(n_samples, name="c")
    w, b = cp.Variable(4, name="w"), cp.Variable(name="b")
    rows = [1 - cp.multiply(labels[train], features[train] @ w + b) <= c]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(w) / 2), rows, variables=[w, b])
    errors = cp.exp(1 - cp.multiply(labels[test], features[test] @ w + b))
    f = cp.sum(errors) / n_samples + weight_of_violations * cp.sum_squares(c)
    return bm.BilevelProblem(cp.Minimize(f), [], lower), f, rows


def names(problem):
    return [step.name for step in problem.plan().steps]


def test_an_optimum_at_the_edge_of_the_lower_level_is_found_by_one_program():
    problem, f, rows = machine(60)
    assert BothAgree.name in names(problem)
    value = problem.solve()
    assert problem.status == "optimal"
    assert "descent" not in problem.solution.source
    wish = cp.Problem(cp.Minimize(f), rows)
    wish.solve(solver="CLARABEL")
    assert value == pytest.approx(wish.value, rel=1e-6)


def test_levels_that_disagree_go_on_from_there():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    # The lower level takes as little as it may, the upper one wishes for more: phi = exp(-x) + x.
    lower = bm.Lower(cp.Minimize(y + cp.exp(y)), [y >= x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.exp(-y) + x), [x >= -2, x <= 2], lower)
    assert BothAgree.name in names(problem)
    assert problem.solve() == pytest.approx(1.0, abs=1e-6)
    assert x.value == pytest.approx(0.0, abs=1e-3)


def test_it_is_no_step_where_lower_rows_hold_no_x():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(cp.exp(y) - x * y), [y >= -3], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.exp(-y) + x), [x >= 0.1, x <= 2], lower)
    assert BothAgree.name not in names(problem)
