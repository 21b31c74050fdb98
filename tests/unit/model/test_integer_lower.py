"""Lower levels in whole numbers against all of their points."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.solvers.answer import InnerStatus


def problem(is_quadratic, seed=0):
    draw = np.random.default_rng(seed)
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y", integer=True, bounds=[0, 3])
    A, B = draw.integers(-2, 3, (2, 2)), draw.integers(-2, 4, (2, 3))
    d, shift = draw.integers(-4, 5, 3), draw.normal(size=(3, 2))
    g = d @ y
    if is_quadratic:
        g = g + cp.sum_squares(y - shift @ x)
    below = [A @ x + B @ y <= 4]
    lower = bm.Lower(cp.Minimize(g), below, variables=[y])
    stated = bm.BilevelProblem(cp.Minimize(y[0] - y[1] + x[0]), [x >= 0, x <= 3, y[2] <= 2], lower)

    def brute_force(at):
        points = [np.array(v, float) for v in itertools.product(range(4), repeat=3)]
        allowed = [v for v in points if np.all(A @ at + B @ v <= 4 + 1e-9)]
        curved = (lambda v: ((v - shift @ at) ** 2).sum()) if is_quadratic else (lambda v: 0.0)
        values = [d @ v + curved(v) for v in allowed]
        least = min(values)
        best = [v for v, g in zip(allowed, values, strict=True) if g <= least + 1e-8 and v[2] <= 2]
        return least, min((v[0] - v[1] for v in best), default=np.inf)

    return stated, brute_force


@pytest.mark.parametrize("is_quadratic", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_answers_and_choices(is_quadratic, seed):
    if is_quadratic:
        pytest.importorskip("pyscipopt")
    stated, brute_force = problem(is_quadratic, seed)
    model = stated.model
    for at in ([0.0, 0.0], [1.0, 0.5]):
        x = np.array(at)
        answer, is_proven = model.solve_lower(x, np.zeros(0), np.zeros(3))
        least, best = brute_force(x)
        assert is_proven
        assert answer.value == pytest.approx(least, abs=1e-6)
        assert np.array_equal(answer.y, np.round(answer.y))
        chosen = model.integer_lower.choose(x, np.zeros(0), answer.value)
        if np.isinf(best):
            assert chosen.status is InnerStatus.INFEASIBLE
        else:
            assert chosen.value == pytest.approx(best + x[0], abs=1e-6)
    assert model.integer_lower.is_linear != is_quadratic


def test_without_an_answer():
    x, y = cp.Variable(), cp.Variable(integer=True, bounds=[0, 5])
    lower = bm.Lower(cp.Minimize(y), [2 * y == x], variables=[y])
    model = bm.BilevelProblem(cp.Minimize(x), [0 <= x, x <= 9], lower).model
    found, is_proven = model.solve_lower(np.array([3.0]), np.zeros(0), np.zeros(1))
    assert (found.status, is_proven) == (InnerStatus.INFEASIBLE, True)
    found, _ = model.solve_lower(np.array([4.0]), np.zeros(0), np.zeros(1))
    assert found.y.tolist() == [2.0]
