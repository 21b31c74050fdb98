"""Descent across kinks on functions whose minima are known."""

from dataclasses import dataclass

import numpy as np
import pytest

from blomodel.methods.search.kinked_descent import minimise_across_kinks


@dataclass(frozen=True)
class Point:
    x: np.ndarray
    value: float
    gradient: np.ndarray
    y: np.ndarray
    is_finite: bool = True


class Function:
    """A function by value and gradient that counts its calls and remembers where they were."""

    def __init__(self, value, gradient):
        self.value, self.gradient, self.asked = value, gradient, []

    def __call__(self, x):
        self.asked.append(x)
        return Point(x, float(self.value(x)), self.gradient(x), np.zeros(0))


# The largest of |x1 - 1| and 2 |x2 + 1|, tilted: no smooth method ends at (1, -1).
PIECES = np.array([[1.0, 0.3], [-1.0, 0.2], [0.2, 2.0], [0.1, -2.0]])
FREE = np.full(2, -5.0), np.full(2, 5.0)


def largest(x):
    return (PIECES @ (x - [1.0, -1.0])).max()


def slope_of_largest(x):
    return PIECES[(PIECES @ (x - [1.0, -1.0])).argmax()]


@pytest.mark.parametrize("start", [(3.0, 3.0), (-4.0, 0.5), (1.0, 4.0)])
def test_a_corner_of_a_piecewise_linear_function_is_found(start):
    function = Function(largest, slope_of_largest)
    end = minimise_across_kinks(function, function(np.array(start)), FREE, max_evaluations=400)
    assert end.value == pytest.approx(0.0, abs=1e-5)
    assert len(function.asked) <= 401


def test_bounds_are_kept_and_used():
    bounds = np.array([1.5, -5.0]), np.array([5.0, 5.0])
    function = Function(largest, slope_of_largest)
    end = minimise_across_kinks(function, function(np.array([4.0, 4.0])), bounds, max_evaluations=400)
    grid = min(largest(np.array([1.5, other])) for other in np.linspace(-3, 1, 40001))
    assert end.value == pytest.approx(grid, abs=1e-4)
    assert all((x >= bounds[0]).all() and (x <= bounds[1]).all() for x in function.asked)


def test_a_smooth_function_is_no_harder():
    matrix = np.diag([1.0, 100.0])
    function = Function(lambda x: x @ matrix @ x, lambda x: 2 * matrix @ x)
    end = minimise_across_kinks(function, function(np.array([3.0, 2.0])), FREE, max_evaluations=200)
    assert end.value == pytest.approx(0.0, abs=1e-8)
