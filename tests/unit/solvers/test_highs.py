"""Many linear functions over one feasible set, against SciPy's linear programs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.highs import BoundedProgram


def data(seed=0, n=5, rows=6):
    draw = np.random.default_rng(seed)
    inside = draw.standard_normal(n)
    A_eq, A_in = draw.standard_normal((2, n)), draw.standard_normal((rows, n))
    b_eq, b_in = A_eq @ inside, A_in @ inside + draw.random(rows)
    return A_eq, b_eq, A_in, b_in, np.full(n, -3.0), np.full(n, 4.0)


def test_every_cost_gets_its_own_minimum():
    A_eq, b_eq, A_in, b_in, low, high = data()
    program = BoundedProgram(A_eq, b_eq, A_in, b_in, low, high)
    draw = np.random.default_rng(1)
    for _ in range(5):
        cost = draw.standard_normal(5)
        least = program.minimise(cost)
        bounds = np.column_stack([low, high])
        expected = linprog(cost, A_in, b_in, A_eq, b_eq, bounds).fun
        assert least.status is InnerStatus.OPTIMAL
        assert least.value == pytest.approx(expected, abs=1e-8)
        assert np.all(A_in @ least.y <= b_in + 1e-8)
        assert A_eq @ least.y == pytest.approx(b_eq, abs=1e-8)


def test_no_point_and_no_end_are_told_apart():
    A_eq, b_eq, A_in, b_in, low, high = data()
    empty = BoundedProgram(A_eq, b_eq, A_in, b_in - 100, low, high)
    assert empty.minimise(np.ones(5)).status is InnerStatus.INFEASIBLE
    nothing = np.zeros((0, 5)), np.zeros(0)
    open_box = BoundedProgram(*nothing, *nothing, np.full(5, -np.inf), high)
    assert open_box.minimise(np.ones(5)).status is InnerStatus.UNBOUNDED
    assert open_box.minimise(-np.ones(5)).value == pytest.approx(-20)
