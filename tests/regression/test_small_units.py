"""Objectives and rows in small units once broke branch and bound, or were violated unseen."""

from __future__ import annotations

import cvxpy as cp
import pytest

import blomodel as bm


def near(x: cp.Variable, y: cp.Variable) -> cp.Expression:
    return (x + 0.39) ** 2 + (y[0] + 0.46) ** 2 + (y[1] - 0.12) ** 2


@pytest.mark.parametrize("has_row", [True, False])
@pytest.mark.parametrize(("of_f", "of_g"), [(1.0, 1e-5), (1.0, 1e-6), (1e4, 1e-5), (1e8, 1e-5)])
def test_a_small_quadratic_lower_objective(of_f: float, of_g: float, has_row: bool) -> None:
    x, y = cp.Variable(), cp.Variable(2)
    g = of_g * ((y[0] - 2 * x) ** 2 + (y[1] + 1.36 * x) ** 2)
    lower = bm.Lower(cp.Minimize(g), [y >= -2, y <= 3], variables=[y])
    row = [0.43 * x + 2.63 * y[0] + 1.92 * y[1] <= 2.49] if has_row else []
    p = bm.BilevelProblem(cp.Minimize(of_f * near(x, y)), [x >= -1.5, x <= 2.7, *row], lower)
    assert p.solve() / of_f == pytest.approx(0.0612467, rel=1e-5)
    assert str(p.status) == "optimal"


@pytest.mark.parametrize("s", [1.0, 1e-4, 1e-8])
def test_a_small_linear_lower_objective(s: float) -> None:
    x, y = cp.Variable(), cp.Variable(2)
    rows = [y >= -2, y <= 3, -2.5 * y[0] - 0.5 * y[1] - 1.8 * x <= 3.62]
    lower = bm.Lower(cp.Minimize(s * (-2 * y[0] - 2 * y[1])), rows, variables=[y])
    f = 1000 * (2 * x * y[0] - 2.5 * x - 0.5 * y[0] - 3 * y[1] - 2.5)
    p = bm.BilevelProblem(cp.Minimize(f), [x >= 0, x <= 5.8], lower)
    assert p.solve() == pytest.approx(-13000, rel=1e-6)


@pytest.mark.parametrize("s", [1.0, 1e-5, 1e-8])
def test_a_product_above(s: float) -> None:
    x, y = cp.Variable(), cp.Variable()
    lower = bm.Lower(cp.Minimize(s * (y + 1.5 * x) ** 2), [y >= -2, y <= 3], variables=[y])
    f = x * y + 0.81 * x - 1.91 * y - 0.5
    p = bm.BilevelProblem(cp.Minimize(f), [x >= -0.6, x <= 1.74], lower)
    assert p.solve() == pytest.approx(-3.245, rel=1e-6)


@pytest.mark.parametrize("s", [1e-7, 1e-9, 1e-12])
def test_small_rows_are_rows(s: float) -> None:
    x, y = cp.Variable(), cp.Variable()
    below = bm.Lower(cp.Minimize(-y), [s * y <= s * x, y <= 5], variables=[y])
    p = bm.BilevelProblem(cp.Minimize((x - 1) ** 2 - y), [0 <= x, x <= 2], below)
    assert p.solve() == pytest.approx(-1.25, abs=1e-5)
    assert not bm.certify(p, x=1.0, y=1.5).accepted
    follow = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
    p = bm.BilevelProblem(cp.Minimize(x + y), [0 <= x, x <= 2, s * y >= s * 1.5], follow)
    assert p.solve() == pytest.approx(3.0, abs=1e-5)
    assert not bm.certify(p, x=0, y=0).accepted


def test_a_large_variable_does_not_hide_a_violated_row() -> None:
    x, w = cp.Variable(), cp.Variable(2)
    lower = bm.Lower(cp.Minimize(-w[0] + (w[1] - 1e9) ** 2), [w[0] <= x], variables=[w])
    p = bm.BilevelProblem(cp.Minimize(x - w[0]), [0 <= x, x <= 1], lower)
    assert not bm.certify(p, x=0, y=[900.0, 1e9]).accepted


def test_a_steep_variable_does_not_make_the_others_worth_nothing() -> None:
    x, y = cp.Variable(2), cp.Variable()
    lower = bm.Lower(cp.Minimize(cp.square(y - x[0])), [], variables=[y])
    f = 1e7 * cp.square(x[0] - 1) - 0.04 * cp.square(x[1]) + 0 * y
    p = bm.BilevelProblem(cp.Minimize(f), [x >= -1, x <= 2], lower)
    assert p.solve() == pytest.approx(-0.16, abs=1e-6)


@pytest.mark.parametrize("large", [1e8, 1e9])
def test_a_large_square_hides_no_negative_curvature(large: float) -> None:
    x, y = cp.Variable(2), cp.Variable()
    lower = bm.Lower(cp.Minimize(cp.square(y - x[0])), [], variables=[y])
    f = large * cp.square(x[0] - 1) - 0.04 * cp.square(x[1]) + 0 * y
    p = bm.BilevelProblem(cp.Minimize(f), [x >= -1, x <= 2], lower)
    assert p.solve() == pytest.approx(-0.16, abs=1e-6)
    x, y = cp.Variable(), cp.Variable(2)
    g = large * cp.square(y[0] - x) - 0.04 * cp.square(y[1] - 0.4)
    lower = bm.Lower(cp.Minimize(g), [y >= -1, y <= 2], variables=[y])
    p = bm.BilevelProblem(cp.Minimize(cp.square(x - 1) + y[1]), [x >= -1, x <= 2], lower)
    assert p.solve() == pytest.approx(2.0, abs=1e-4)  # y[1] = -1 is only a local answer
