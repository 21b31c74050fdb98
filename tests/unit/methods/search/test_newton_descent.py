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
