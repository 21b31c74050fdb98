"""Sizes of variables and rows: a model in other units gets sizes that undo it."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits
from blomodel.basics.limits import Limit
from blomodel.compiler.passes.derivatives import jvp
from blomodel.compiler.tape import Tape
from blomodel.transformations.magnitudes import Magnitudes, find_magnitudes
from blomodel.transformations.units import objective_units

EVERY = -1.0  # no coefficient counts as ordinary


def sizes_of(unit_x: float = 1.0, unit_y: float = 1.0, of_rows: float = 1.0) -> Magnitudes:
    x_, y_ = cp.Variable(name="x"), cp.Variable(2, name="y")
    x, y = unit_x * x_, unit_y * y_
    rows = [of_rows * (y[0] + 2 * y[1]) <= of_rows * (3 + x), y >= 0]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - 1) + x * y[0]), rows, variables=[y_])
    problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + y[1]), [x >= 0, x <= 5], lower)
    found = find_magnitudes(problem.plain_model, np.zeros(0), ordinary=EVERY)
    assert found is not None
    return found


@pytest.mark.parametrize("unit_x", [1e-7, 1.0, 1e4])
@pytest.mark.parametrize("unit_y", [1e-3, 1.0, 1e9])
@pytest.mark.parametrize("of_rows", [1e-8, 1.0, 1e6])
def test_units_are_undone(unit_x: float, unit_y: float, of_rows: float) -> None:
    plain, other = sizes_of(), sizes_of(unit_x, unit_y, of_rows)
    moved = np.log2([unit_x, unit_y, unit_y])
    # The slight pull towards no change is all that differs.
    assert other.variables + moved == pytest.approx(plain.variables, abs=1e-2)
    expected = plain.scaled_rows[2][0] + np.log2(of_rows)
    assert other.scaled_rows[2][0] == pytest.approx(expected, abs=1e-2)


def test_no_variable_is_larger_than_rows_allow() -> None:
    """Returns of a millionth say nothing about weights that add up to one."""
    x, w = cp.Variable(name="x"), cp.Variable(3, name="w", nonneg=True)
    gain = np.array([1e-6, 2e-6, 3e-6])
    lower = bm.Lower(
        cp.Minimize(1e-13 * cp.sum_squares(w) - (gain * 1e-3) @ w), [cp.sum(w) == 1], variables=[w]
    )
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + w[0]), [x >= 0, x <= 1], lower)
    found = find_magnitudes(problem.plain_model, np.zeros(0), ordinary=EVERY)
    assert found is not None
    assert np.all(found.variables[1:] <= 1e-9)


def test_a_model_of_ordinary_numbers_is_not_looked_at_further() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 100], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2 + y), [x >= -9], lower)
    assert find_magnitudes(problem.plain_model, np.zeros(0), ordinary=9.0) is None


def test_data_are_read_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slopes at the middle once for all looks, and second derivatives there in one call."""
    random = np.random.default_rng(0)
    A, b = random.standard_normal((40, 60)), random.standard_normal(40)
    x, y = cp.Variable(40, name="x"), cp.Variable(60, name="y")
    lower = bm.Lower(
        cp.Minimize(cp.sum(cp.multiply(x, cp.square(A @ y - b))) + 1e-6 * cp.sum_squares(y)), [], [y]
    )
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y)), [x >= 0, x <= 1], lower)
    model, p = problem.plain_model, np.zeros(0)
    monkeypatch.setattr(limits, "FEW_LOOKS", Limit(1, "multiplications", "up to it, for this test"))
    runs: list[Tape] = []
    run = Tape.__call__
    monkeypatch.setattr(Tape, "__call__", lambda self, *at: runs.append(self) or run(self, *at))
    assert find_magnitudes(model, p, ordinary=EVERY) is not None
    objective_units(model, p)
    product = jvp(model.g_grad, ("x", "y"))
    assert runs.count(model.g_grad) == 2  # in the middle and away from it
    assert runs.count(product) == 1
