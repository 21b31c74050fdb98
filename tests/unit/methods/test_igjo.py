"""IGJO on penalties whose answers are known in closed form."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import ModelError


def shrunk(start=None):
    """y_i = sign(v_i) (|v_i| - x_i)_+ and f = |y - w|^2."""
    v, w = np.array([3.0, -2.0, 0.3]), np.array([1.0, -0.5, 0.2])
    x, y = cp.Variable(3, name="x", value=start), cp.Variable(3, name="y")
    g = cp.sum_squares(y - v) / 2 + x @ cp.abs(y)
    lower = bm.Lower(cp.Minimize(g), variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - w)), [x >= 0, x <= 20], lower), x, y


def test_weights_of_a_lasso():
    problem, x, y = shrunk(np.full(3, 0.05))
    problem.solve(method="igjo")
    assert x.value == pytest.approx([2.0, 1.5, 0.1], abs=1e-3)
    assert y.value == pytest.approx([1.0, -0.5, 0.2], abs=1e-3)
    assert problem.solution.evaluations >= problem.solution.iterations


def test_a_start_without_slope_is_left_and_said():
    """At x = 10 all norms are 0, and f does not change."""
    problem, x, _ = shrunk()
    problem.solve(method="igjo")
    assert any("does not change" in note for note in problem.solution.notes)
    assert x.value[:2] == pytest.approx([2.0, 1.5], abs=1e-3)


def test_weights_of_a_ridge():
    """A smooth penalty: y = v / (1 + 2x), best where that is w."""
    x, y = cp.Variable(name="x", value=1.0), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 3) ** 2 / 2 + x * y**2), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((y - 2) ** 2), [x >= 0, x <= 5], lower)
    problem.solve(method="igjo")
    assert x.value == pytest.approx(0.25, abs=1e-4)


def test_constraints_below_are_refused():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 3) ** 2 + x * cp.abs(y)), [y <= 1], variables=[y])
    with pytest.raises(ModelError, match="igjo"):
        bm.BilevelProblem(cp.Minimize(y**2), [x >= 0], lower).solve(method="igjo")
