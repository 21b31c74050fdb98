"""Multipliers from slopes: those of the program where they are unique, none where they are not."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.certification.fitted_multipliers import fit_multipliers
from blomodel.transformations.kinks import rows_for_kinks

NOTHING = np.zeros(0)


@pytest.mark.parametrize("weight", [0.5, 4.0, 20.0])
def test_they_are_those_of_the_program(weight: float) -> None:
    r = np.random.default_rng(0)
    A, b = r.standard_normal((12, 5)), r.standard_normal(12)
    x, y = cp.Variable(name="x"), cp.Variable(5, name="y")
    g = cp.sum_squares(A @ y - b) + x * cp.norm1(y)
    lower = bm.Lower(cp.Minimize(g), [cp.sum(y) == 0.1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y)), [x >= 0.1, x <= 30], lower)
    model, at = rows_for_kinks(problem.plain_model).model, np.array([weight])
    answer = model.lower_program.solve(at, NOTHING, accuracy=1e-11)
    fitted = fit_multipliers(model, NOTHING, at, np.where(np.abs(answer.y) < 1e-7, 0.0, answer.y))
    assert fitted is not None
    assert fitted == pytest.approx(model.split_duals(answer.duals), abs=1e-4)


def doubled(sign: float) -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    rows = [y <= 1] if sign < 0 else [y <= 1, 2 * y <= 2]
    lower = bm.Lower(cp.Minimize(cp.square(y - x)), rows, variables=[y])
    return bm.BilevelProblem(cp.Minimize(x**2), [x >= -5, x <= 5], lower)


def test_none_where_several_would_do_or_a_sign_is_wrong() -> None:
    one = np.ones(1)
    assert fit_multipliers(doubled(1.0).plain_model, NOTHING, 2 * one, one) is None
    row = doubled(-1.0).plain_model
    assert fit_multipliers(row, NOTHING, 2 * one, one) == pytest.approx(2.0)
    assert fit_multipliers(row, NOTHING, 0.5 * one, one) is None  # y = 1 is not the answer there
    assert fit_multipliers(row, NOTHING, 0.5 * one, 0.8 * one) is None  # nor is this, with no row
