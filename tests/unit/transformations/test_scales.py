"""Variables, rows and objectives in units of their own, and the way back."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.certification import checks
from blomodel.certification.below.lower_check import LowerCheck
from blomodel.solvers.answer import InnerStatus
from blomodel.transformations.scales import rescaling_advice
from tests.support.slow_cases import first_few

SAME = 1e-6
KINDS = ("lp", "qp", "log", "exp")


def random_problem(kind: str, seed: int, **units: float) -> tuple[bm.BilevelProblem, list]:
    """Two upper and three lower variables; ``units``: x, y, rows, row_above, f, g, and spread.

    Each entry of x, y and the lower rows is moved by up to 10^spread more, in either direction.
    """
    r, other = np.random.default_rng(seed), np.random.default_rng(seed + 1000)
    A, B, b = (
        np.round(m, 1) for m in (r.normal(size=(2, 3)), r.normal(size=(2, 2)), r.uniform(1, 3, 2))
    )
    C, Q = np.round(r.normal(size=(3, 2)), 1), np.round(r.normal(size=(3, 3)), 1)
    c, t, wish = (np.round(r.normal(size=n), 1) for n in (3, 3, 2))

    def unit(name: str, count: int) -> np.ndarray:
        spread = units.get("spread", 0.0)
        return units.get(name, 1.0) * 10 ** other.uniform(-spread, spread, count)

    x_, y_ = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    x, y = cp.multiply(unit("x", 2), x_), cp.multiply(unit("y", 3), y_)
    g = {
        "lp": (c + C @ x) @ y,
        "qp": cp.sum_squares(Q @ y - c) / 2 + 0.1 * cp.sum_squares(y) + (C @ x) @ y,
        "log": -cp.sum(cp.log(3 + y)) + (C @ x) @ y / 2,
        "exp": cp.sum(cp.exp(y / 2)) + cp.sum_squares(y) / 2 + (C @ x) @ y,
    }[kind]
    of_rows, above = unit("rows", 2), units.get("row_above", 1.0)
    rows = [cp.multiply(of_rows, A @ y + B @ x) <= of_rows * b, y >= -2, y <= 3]
    f = cp.sum_squares(y - t) + 0.5 * cp.sum_squares(x - wish)
    lower = bm.Lower(cp.Minimize(units.get("g", 1.0) * g), rows, variables=[y_])
    tie = above * (x[0] + 0.5 * y[0]) <= above * 1.5
    f = units.get("f", 1.0) * f
    return bm.BilevelProblem(cp.Minimize(f), [x >= -1, x <= 1, tie], lower), rows


def solved(kind: str, seed: int, **units: float) -> tuple[float, str]:
    problem, _ = random_problem(kind, seed, **units)
    return problem.solve() / units.get("f", 1.0), str(problem.status)


def assert_same(kind: str, seed: int, **units: float) -> None:
    value, status = solved(kind, seed)
    other, other_status = solved(kind, seed, **units)
    assert other == pytest.approx(value, rel=SAME, abs=SAME)
    assert other_status == status


@pytest.mark.parametrize("what", ["x", "y", "rows", "row_above", "f", "g"])
@pytest.mark.parametrize("factor", first_few([1e-6, 1e6], 1))
def test_units_change_neither_value_nor_status(what: str, factor: float) -> None:
    assert_same("qp", 0, **{what: factor})


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["x", "y", "rows", "row_above", "f", "g"])
@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e3, 1e6])
def test_units_change_nothing_in_any_family(kind: str, what: str, factor: float) -> None:
    assert_same(kind, 1, **{what: factor})


@pytest.mark.parametrize("kind", ["lp", "qp"])
def test_a_unit_for_each_entry(kind: str) -> None:
    assert_same(kind, 1, spread=4.0)


def test_ordinary_models_are_not_touched() -> None:
    problem, _ = random_problem("qp", 0, x=10.0, y=0.1, rows=30.0)
    assert problem.model is problem.plain_model
    assert not any(step.name == "scales" for step in problem.chain)


@pytest.mark.parametrize(("unit_y", "of_row", "of_g"), [(1e5, 1e-4, 1e3), (1e-6, 1e6, 1.0)])
def test_points_and_multipliers_come_back_as_stated(unit_y: float, of_row: float, of_g: float) -> None:
    x, y_ = cp.Variable(name="x"), cp.Variable(name="y")
    y, row = unit_y * y_, of_row * unit_y * y_ <= of_row
    lower = bm.Lower(cp.Minimize(of_g * (y - x) ** 2), [row], variables=[y_])
    problem = bm.BilevelProblem(cp.Minimize((x - 3) ** 2 + y), [0 <= x, x <= 3], lower)
    assert any(step.name == "scales" for step in problem.chain)
    assert problem.solve() == pytest.approx(1.0, abs=1e-6)
    # x = 3 and y = 1, where the lower objective's slope is 2 (1 - 3) = -4.
    assert unit_y * float(y_.value) == pytest.approx(1.0, rel=1e-6)
    assert float(row.dual_value) * of_row / of_g == pytest.approx(4.0, rel=1e-5)
    assert problem.certificate.lower_value / of_g == pytest.approx(4.0, rel=1e-6)


def test_values_go_there_and_back_exactly() -> None:
    problem, _ = random_problem("qp", 0, y=1e-7, x=1e4, spread=2.0)
    draw = np.random.default_rng(0)
    values = {v: draw.normal(size=v.shape) for v in problem.variables}
    forth = problem.chain.forward_values(values, np.zeros(0))
    assert not set(forth) & set(values)
    for variable, value in problem.chain.invert_values(forth).items():
        assert np.array_equal(value, values[variable])  # powers of two change no digit


def test_cones_are_scaled_as_a_whole() -> None:
    value = []
    for unit in (1.0, 1e6):
        x, y_ = cp.Variable(name="x"), cp.Variable(2, name="y")
        y = unit * y_
        disc = cp.SOC(unit * (1 + x), unit * y)
        lower = bm.Lower(cp.Minimize(-y[0] - 2 * y[1]), [disc], variables=[y_])
        problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + y[0]), [x >= 0, x <= 3], lower)
        value.append(problem.solve(method="reduced-penalty"))
    # y = (1 + x) (1, 2) / sqrt(5), so that x = 2 - 1 / (2 sqrt(5)).
    best = (1 / 20) + (3 - 1 / (2 * np.sqrt(5))) / np.sqrt(5)
    assert value == pytest.approx([best, best], abs=1e-5)


def test_the_chain_tells_what_was_done() -> None:
    problem, _ = random_problem("qp", 0, y=1e-6, rows=1e6)
    text = str(problem.chain)
    assert "'y[" in text and "units of" in text and "divided by their size" in text


def test_advice_names_the_coefficient_that_no_units_help() -> None:
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    rows = [y[0] + y[1] <= 3 + x, y[0] - 2 * y[1] <= 1, y[0] + 1e13 * y[1] >= -1, y <= 9]
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - 1)), rows, variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 + y[0]), [x >= 0, x <= 2], lower)
    advice = rescaling_advice(problem.model, np.zeros(0))
    assert "'y[" in advice and "coefficient" in advice and "rescale it by" in advice
    ordinary, _ = random_problem("qp", 0)
    assert rescaling_advice(ordinary.model, np.zeros(0)) == ""


def test_a_lower_level_that_cannot_be_solved_is_told_with_advice(monkeypatch: Any) -> None:
    problem, _ = random_problem("qp", 0)
    failed = LowerCheck(InnerStatus.FAILED, np.nan, None, [], "nobody", reason="it stalls")
    monkeypatch.setattr(checks, "check_lower", lambda *_: failed)
    monkeypatch.setattr(checks, "rescaling_advice", lambda *_: "'y[0]' is about 1e+09")
    refused = bm.certify(problem, x=[0, 0], y=[0, 0, 0])
    assert not refused.accepted
    assert any("it stalls; 'y[0]' is about 1e+09" in reason for reason in refused.reasons)


def capacity_market(y: float = 1.0, rows: float = 1.0, g: float = 1.0, x: float = 1.0) -> Any:
    """A regulator wants a price of 3.2 by the capacity x of the cheaper of two generators."""
    x_, y_ = cp.Variable(name="x"), cp.Variable(2, name="y")
    capacity, power = x * x_, y * y_
    balance = rows * cp.sum(power) == rows * 3.0
    cost = g * (0.5 * cp.square(power[0]) + cp.square(power[1]) + power[0])
    below = [balance, rows * power[0] <= rows * capacity, power >= 0]
    lower = bm.Lower(cp.Minimize(cost), below, variables=[y_])
    price = lower.multiplier(balance) * (rows / g)
    f = cp.square(price + 3.2) + 0.1 * cp.square(capacity - 2)
    problem = bm.BilevelProblem(cp.Minimize(f), [capacity >= 0, capacity <= 3], lower)
    return problem, x_, balance


@pytest.mark.parametrize(
    "unit", [1e-6, 1e6, *(pytest.param(unit, marks=pytest.mark.slow) for unit in (1e-3, 1e3))]
)
@pytest.mark.parametrize("what", ["y", "rows", "g", "x"])
def test_multipliers_above_in_other_units(what: str, unit: float) -> None:
    """Below its capacity the price is -2 (3 - x): f is 4 (x - 1.4)^2 + 0.1 (x - 2)^2."""
    best = (4 * 1.4 + 0.1 * 2) / 4.1
    value = 4 * (best - 1.4) ** 2 + 0.1 * (best - 2) ** 2
    units = {what: unit}
    problem, x, balance = capacity_market(**units)
    assert problem.solve() == pytest.approx(value, abs=1e-6)
    assert problem.status == "optimal"
    assert x.value * units.get("x", 1.0) == pytest.approx(best, abs=1e-4)
    price = balance.dual_value * units.get("rows", 1.0) / units.get("g", 1.0)
    assert price == pytest.approx(-2 * (3 - best), abs=1e-3)
    assert problem.certificate.bound <= value + 1e-9
