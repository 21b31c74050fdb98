"""Newton steps in a box, against SciPy's own descents and functions with known minima."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der, rosen_hess

from blomodel.methods.search.newton_descent import minimise_by_newton


@dataclass
class Point:
    """An evaluation without a lower level."""

    x: np.ndarray
    value: float
    gradient: np.ndarray
    y: np.ndarray
    is_finite: bool = True


def rosenbrock(x: np.ndarray) -> Point:
    return Point(x, float(rosen(x)), rosen_der(x), x)


def rosenbrock_hessian(at: Point, free: np.ndarray) -> np.ndarray:
    return np.asarray(rosen_hess(at.x)[np.ix_(free, free)])


@pytest.mark.parametrize("upper", [5.0, 0.7])
def test_same_minimum_as_scipy(upper: float) -> None:
    bounds = np.full(6, -2.0), np.full(6, upper)
    start = rosenbrock(np.full(6, 0.3))
    end = minimise_by_newton(
        rosenbrock, rosenbrock_hessian, start, bounds, tolerance=1e-10, max_iterations=100
    )
    known = minimize(
        rosen, start.x, jac=rosen_der, method="L-BFGS-B", bounds=np.column_stack(bounds), tol=1e-15
    )
    assert end.is_minimum
    assert end.point.value <= known.fun + 1e-10
    assert np.all(end.point.x <= upper)


def test_a_saddle_is_left() -> None:
    def saddle(x: np.ndarray) -> Point:
        value = x[0] ** 2 - x[1] ** 2 + x[1] ** 4
        return Point(x, float(value), np.array([2 * x[0], -2 * x[1] + 4 * x[1] ** 3]), x)

    def hessian(at: Point, free: np.ndarray) -> np.ndarray:
        return np.diag([2.0, -2 + 12 * at.x[1] ** 2])[np.ix_(free, free)]

    bounds = np.full(2, -3.0), np.full(2, 3.0)
    end = minimise_by_newton(
        saddle, hessian, saddle(np.zeros(2)), bounds, tolerance=1e-9, max_iterations=50
    )
    assert end.is_minimum
    assert end.point.value == pytest.approx(-0.25)  # at y = +-sqrt(1/2)


@pytest.mark.parametrize("seed", range(5))
def test_a_quadratic_with_many_bounds_takes_one_step(seed: int) -> None:
    """Variables that stop at bounds too early are let go again, so that a step ends at the least."""
    draw, n = np.random.default_rng(seed), 60
    root = draw.standard_normal((n, n))
    matrix, vector = root @ root.T / n + 0.01 * np.eye(n), draw.standard_normal(n)

    def quadratic(x: np.ndarray) -> Point:
        return Point(x, float(x @ matrix @ x / 2 + vector @ x), matrix @ x + vector, x)

    def second(at: Point, free: np.ndarray) -> np.ndarray:
        return matrix[np.ix_(free, free)]

    bounds = np.full(n, -0.3), np.full(n, 0.5)
    start = quadratic(np.zeros(n))
    end = minimise_by_newton(quadratic, second, start, bounds, tolerance=1e-9, max_iterations=1).point
    slope = quadratic(end.x).gradient
    left = np.where(end.x <= bounds[0], np.minimum(slope, 0), slope)
    left = np.where(end.x >= bounds[1], np.maximum(left, 0), left)
    assert np.abs(left).max() < 1e-9
    assert ((end.x == bounds[0]) | (end.x == bounds[1])).sum() > n / 3


def test_level_along_many_directions_that_curve_downwards() -> None:
    """Slopes that are small in each direction are followed in all of them at once."""
    n = 40
    bends = np.linspace(-1.0, -0.5, n)

    def hills(x: np.ndarray) -> Point:
        return Point(x, float(0.5 * bends @ x**2 + 0.25 * np.sum(x**4)), bends * x + x**3, x)

    def second(at: Point, free: np.ndarray) -> np.ndarray:
        return np.diag(bends + 3 * at.x**2)[np.ix_(free, free)]

    bounds = np.full(n, -3.0), np.full(n, 3.0)
    start = hills(np.full(n, 1e-3))
    end = minimise_by_newton(hills, second, start, bounds, tolerance=1e-2, max_iterations=20)
    assert end.is_minimum
    assert end.point.value == pytest.approx(-0.25 * bends @ bends, rel=1e-3)
