"""Objectives far from order one: units that are powers of two, and the way back."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.transformations.units import objective_units


def problem_of(of_f: float, of_g: float, *, has_row: bool = True) -> tuple[bm.BilevelProblem, list]:
    """Value of_f * 0.0612467 at x = -0.2148, whatever the units of the lower objective."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    f = of_f * ((x + 0.39) ** 2 + (y[0] + 0.46) ** 2 + (y[1] - 0.12) ** 2)
    g = of_g * ((y[0] - 2 * x) ** 2 + (y[1] + 1.36 * x) ** 2)
    rows = [y >= -2, y <= 3]
    tie = [0.43 * x + 2.63 * y[0] + 1.92 * y[1] <= 2.49] if has_row else []
    lower = bm.Lower(cp.Minimize(g), rows, variables=[y])
    return bm.BilevelProblem(cp.Minimize(f), [x >= -1.5, x <= 2.7, *tie], lower), rows


@pytest.mark.parametrize("of_f", [1e-6, 1.0, 1e8])
@pytest.mark.parametrize("of_g", [1e-8, 1e-5, 1.0, 1e8])
def test_units_do_not_change_the_answer(of_f: float, of_g: float) -> None:
    problem, _ = problem_of(of_f, of_g)
    assert problem.solve() / of_f == pytest.approx(0.0612467, rel=1e-5)
    assert str(problem.status) == "optimal"
    assert problem.certificate.bound / of_f == pytest.approx(0.0612467, rel=1e-5)


def test_nothing_is_done_where_all_is_of_order_one() -> None:
    problem, _ = problem_of(10.0, 0.1)
    assert problem.model is problem.plain_model
    assert objective_units(problem.model, np.zeros(0)) == (1.0, 1.0)


def test_multipliers_come_back_in_stated_units() -> None:
    found = []
    for of_g in (1.0, 2.0**-20):
        x, y = cp.Variable(name="x"), cp.Variable(name="y")
        row = y <= 1
        lower = bm.Lower(cp.Minimize(of_g * (y - x) ** 2), [row], variables=[y])
        problem = bm.BilevelProblem(cp.Minimize((x - 3) ** 2 + y), [0 <= x, x <= 3], lower)
        problem.solve()
        found.append(float(row.dual_value) / of_g)
        if of_g < 1:
            assert "lower objective is counted in units of 7.63e-06" in str(problem.chain)
    assert found == pytest.approx([4.0, 4.0], rel=1e-6)
