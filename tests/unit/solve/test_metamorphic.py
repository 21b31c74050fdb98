"""One model, one answer: the same problem written in several ways has the same value."""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm

SAME = 1e-6
N = 3  # buyers
DRAW = np.random.default_rng(7)
WORTH, WEIGHT = np.round(DRAW.uniform(1, 10, (N, 2)), 1), np.round(DRAW.uniform(1, 5, N), 1)
A, C = np.round(DRAW.normal(size=(3, 3)), 2), np.round(DRAW.uniform(1, 4, 3), 2)


def same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * (1 + abs(one))


def buyers(is_joint: bool, *, is_linear: bool = True) -> bm.BilevelProblem:
    """Prices of two products; each of three buyers takes what suits it best."""
    price = cp.Variable(2, name="price")
    if is_joint:
        take = cp.Variable((N, 2), nonneg=True, name="take")
        prices = np.ones((N, 1)) @ cp.reshape(price, (1, 2), order="F")
        gain = cp.sum(cp.multiply(WORTH - prices, take)) - (0 if is_linear else cp.sum_squares(take) / 2)
        lower = bm.Lower(cp.Maximize(gain), [cp.sum(take, axis=1) <= 1], variables=[take])
        revenue = cp.sum(WEIGHT @ cp.multiply(prices, take))
        return bm.BilevelProblem(cp.Maximize(revenue), [price >= 0, price <= 10], lower)
    followers, revenue = [], 0
    for k in range(N):
        take = cp.Variable(2, nonneg=True, name=f"take{k}")
        gain = (WORTH[k] - price) @ take - (0 if is_linear else cp.sum_squares(take) / 2)
        rows = [cp.sum(take) <= 1]
        followers.append(bm.Lower(cp.Maximize(gain), rows, variables=[take], name=f"buyer {k}"))
        revenue += WEIGHT[k] * (price @ take)
    return bm.BilevelProblem(cp.Maximize(revenue), [price >= 0, price <= 10], followers)


@pytest.mark.parametrize("is_linear", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_followers_as_a_list_or_as_a_matrix(is_linear: bool) -> None:
    joint, apart = (buyers(is_joint, is_linear=is_linear) for is_joint in (True, False))
    assert same(joint.solve(), apart.solve())
    assert joint.certificate.accepted and apart.certificate.accepted


def quadratic(
    *,
    order: Callable[[list], list] = list,
    names: tuple[str, str] = ("x", "y"),
    unit_x: float = 1.0,
    unit_y: float = 1.0,
    of_rows: float = 1.0,
    of_g: float = 1.0,
    of_f: float = 1.0,
) -> bm.BilevelProblem:
    """A convex QP below and above; x and y are counted in units, rows and objectives multiplied."""
    x_, y_ = cp.Variable(2, name=names[0]), cp.Variable(3, name=names[1])
    x, y = unit_x * x_, unit_y * y_
    g = cp.sum_squares(A @ y - C) / 2 + (x[0] - 2 * x[1]) * y[0] + x[1] * y[2]
    below = [of_rows * y >= -of_rows * 2, y <= 3, of_rows * (cp.sum(y) + x[0]) <= 4 * of_rows]
    lower = bm.Lower(cp.Minimize(of_g * g), order(below), variables=[y_])
    f = cp.sum_squares(y - np.array([1.0, -1.0, 2.0])) + 0.3 * cp.sum_squares(x - 1)
    above = [of_rows * x >= -3 * of_rows, x <= 3, of_rows * (x[0] + y[1]) <= 2 * of_rows]
    return bm.BilevelProblem(cp.Minimize(of_f * f), order(above), lower)


CHANGES = {
    "reordered": {"order": lambda rows: rows[::-1]},
    "renamed": {"names": ("z", "a")},
    "units of x": {"unit_x": 10.0},
    "units of y": {"unit_y": 0.1},
    "units of both": {"unit_x": 100.0, "unit_y": 0.01},
    "rows": {"of_rows": 1e3},
    "lower objective": {"of_g": 1e-3},
    "small lower objective": {"of_g": 1e-7},
    "upper objective": {"of_f": 1e-3},
    "all": {"unit_x": 10.0, "unit_y": 0.1, "of_rows": 1e-2, "of_g": 1e3, "of_f": 1e4},
}


@pytest.fixture(scope="module")
def plain() -> float:
    problem = quadratic()
    value = problem.solve()
    assert str(problem.status) == "optimal"
    return value


@pytest.mark.parametrize("name", CHANGES)
def test_the_same_problem_in_other_words(name: str, plain: float) -> None:
    change = CHANGES[name]
    problem = quadratic(**change)
    assert same(plain, problem.solve() / change.get("of_f", 1.0))
    assert str(problem.status) == "optimal"


@pytest.mark.parametrize("unit", [pytest.param(0.01, marks=pytest.mark.slow), 1.0, 100.0])
def test_a_smooth_follower_in_other_units(unit: float) -> None:
    t, e_ = cp.Variable(name="t"), cp.Variable(name="e", nonneg=True)
    e = unit * e_
    lower = bm.Lower(cp.Maximize(8 * cp.log(1 + e) - t * e), variables=[e_])
    problem = bm.BilevelProblem(cp.Maximize(t * e - e**2), [0.5 <= t, t <= 10], lower)
    # e = 8 / t - 1, so that the upper level sees 8 - t - (8 / t - 1)^2.
    grid = np.linspace(0.5, 8, 750_001)
    best = (8 - grid - (8 / grid - 1) ** 2).max()
    assert problem.solve() == pytest.approx(best, abs=1e-5)
