"""The lower level's KKT conditions hold at its answers, whoever holds the multipliers."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm

NOTHING = np.zeros(0)


def market(uses_price: bool):
    x, y = cp.Variable(name="x"), cp.Variable(3, name="y")
    demand = 4 + x - cp.sum(y) == 0
    g = np.array([1.0, 2.0, 4.0]) @ y + 0.2 * cp.sum_squares(y) + x * y[0]
    lower = bm.Lower(cp.Minimize(g), [demand, y >= 0, y <= 3], variables=[y])
    price = lower.multiplier(demand)
    wish = (price - 3) ** 2 if uses_price else cp.sum_squares(y)
    return bm.BilevelProblem(cp.Minimize(wish + x**2), [0 <= x, x <= 2], lower).model


@pytest.mark.parametrize("uses_price", [False, True])
def test_unknowns_pairs_and_equations_at_lower_answers(uses_price: bool) -> None:
    model = market(uses_price)
    conditions = model.conditions
    assert conditions.multipliers_are_unknowns is not uses_price
    assert conditions.n_pairs == model.n_pairs == 6  # rows of y >= 0 and y <= 3
    assert conditions.n_multipliers == (0 if uses_price else model.n_lower_rows)
    for at in (0.1, 0.8, 1.7):
        x = np.array([at])
        answer = model.lower_program.solve(x, NOTHING, accuracy=1e-10)
        multipliers = conditions.fit(x, answer.y, NOTHING)
        equations = conditions.stationarity(x, answer.y, NOTHING, multipliers)
        assert len(equations) == conditions.n_equations
        assert np.abs(equations).max(initial=0) <= 1e-6
        z = np.concatenate([x, answer.y, multipliers])
        assert z.size == conditions.n_unknowns
        slack = model.lower_in.values(x, answer.y, NOTHING)[conditions.rows]
        pressure = z[conditions.columns]
        assert np.abs(slack * pressure).max() <= 1e-5 and pressure.min() >= -1e-6
        for rows, chosen, entries in conditions.vanishing_products():
            values = rows.values(x, answer.y, NOTHING)[chosen]
            assert np.abs(values * z[entries]).max(initial=0) <= 1e-5
        shift = conditions.shift(answer.y)
        np.testing.assert_array_equal(shift[conditions.columns], pressure * uses_price)


def test_derivative_of_the_equations_against_differences() -> None:
    model = market(False)
    conditions, rng = model.conditions, np.random.default_rng(0)
    n_x, n_y = model.x.size, model.y.size
    z = rng.normal(size=conditions.n_unknowns)

    def equations(z: np.ndarray) -> np.ndarray:
        return conditions.stationarity(z[:n_x], z[n_x : n_x + n_y], NOTHING, z[n_x + n_y :])

    x, y, multipliers = np.split(z, [n_x, n_x + n_y])
    slopes = [rows.linearise(x, y, NOTHING).in_y for rows in (model.lower_in, model.lower_eq)]
    found = conditions.jacobian(x, y, NOTHING, multipliers, slopes).toarray()
    for k, unit in enumerate(np.eye(z.size)):
        difference = (equations(z + 1e-6 * unit) - equations(z - 1e-6 * unit)) / 2e-6
        np.testing.assert_allclose(found[:, k], difference, atol=1e-7)
    none = market(True).conditions
    empty = none.jacobian(x, np.zeros(none.model.y.size), NOTHING, NOTHING, ())
    assert empty.shape == (0, none.n_unknowns)
