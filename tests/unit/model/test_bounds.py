"""Bounds read off rows, and the Jacobians of long rows that they come from."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.compiler.passes import derivatives


def x_bounds(x: cp.Variable, constraints: list) -> tuple[np.ndarray, np.ndarray]:
    """What the compiled model finds for upper constraints."""
    y = cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x[0]) ** 2), variables=[y])
    return bm.BilevelProblem(cp.Minimize(y), constraints, lower).model.x_bounds


def test_the_tightest_of_several_rows_counts() -> None:
    x = cp.Variable(4, name="x")
    first = [x[0] <= 3, 2 * x[0] <= 5, -x[0] <= 1, -3 * x[0] <= 6]
    low, high = x_bounds(x, [*first, x[1] == 4, x[2] + x[3] <= 1, x[3] >= -7])
    np.testing.assert_allclose(low, [-1, 4, -np.inf, -7])
    np.testing.assert_allclose(high, [2.5, 4, np.inf, np.inf])


def test_rows_that_hold_more_or_are_curved_do_not_count() -> None:
    x = cp.Variable(2, name="x")
    low, high = x_bounds(x, [cp.square(x[0]) <= 4, x[0] + x[1] <= 1])
    assert np.all(np.isinf(low)) and np.all(np.isinf(high))


@pytest.mark.parametrize("chunk", [1, derivatives._CHUNK])
def test_reading_the_jacobian_off_the_tape_changes_nothing(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a chunk of 1 every linear tape counts as large."""
    monkeypatch.setattr(derivatives, "_CHUNK", chunk)
    x = cp.Variable(3, name="x")
    matrix = np.array([[1.0, 0, -2], [0, 0, 3]])
    y = cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y)), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum(y)), [matrix @ x - y <= 1], lower)
    point = (np.ones(3), np.ones(2), np.zeros(0))
    found = derivatives.jacobian(problem.model.upper_in.tape, ("x", "y"), point)
    np.testing.assert_allclose(found.toarray(), np.hstack([matrix, -np.eye(2)]))
    assert found.nnz == 5
