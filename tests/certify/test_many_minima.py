"""A local minimum of the lower level is not its answer, however many there are."""

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm


def valleys(values):
    """Positions of local minima in a table of values."""
    inner = values[1:-1]
    return 1 + np.flatnonzero((inner < values[:-2]) & (inner < values[2:]))


@pytest.mark.parametrize("at", [-2.5, 0.0, 1.7])
def test_wrong_valleys_in_one_variable_are_refused(at):
    # about twenty valleys, of which neighbours differ by little
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    g = cp.nlp.sin(10 * y) + 0.05 * (y - x) ** 2
    lower = bm.Lower(cp.Minimize(g), [y >= -6, y <= 6], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((y - 2) ** 2), [x >= -3, x <= 3], lower)
    grid = np.linspace(-6, 6, 200_001)
    values = np.sin(10 * grid) + 0.05 * (grid - at) ** 2
    wrong = [k for k in valleys(values) if values[k] > values.min() + 1e-3]
    assert len(wrong) > 15
    accepted = [grid[k] for k in wrong if bm.certify(problem, at, grid[k]).accepted]
    assert not accepted


def test_one_wrong_coordinate_among_four_is_refused():
    n, rng = 4, np.random.default_rng(0)
    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    g = cp.sum_squares(y - x) - 2 * cp.sum(cp.nlp.cos(5 * y))
    lower = bm.Lower(cp.Minimize(g), [y >= -4, y <= 4], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - 1)), [x >= -2, x <= 2], lower)
    grid = np.linspace(-4, 4, 20_001)
    n_wrong = 0
    for _ in range(8):
        at = rng.uniform(-2, 2, n)
        values = (grid[None, :] - at[:, None]) ** 2 - 2 * np.cos(5 * grid)[None, :]
        best, k = grid[values.argmin(axis=1)], rng.integers(n)
        found = valleys(values[k])
        second = found[np.argsort(values[k][found])][1]
        if values[k][second] > values[k].min() + 1e-3:
            n_wrong += 1
            wrong = best.copy()
            wrong[k] = grid[second]
            assert not bm.certify(problem, at, wrong).accepted
    assert n_wrong > 4
