"""Quadratic and linear programs: every answer must satisfy the optimality conditions."""

import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.quadratic import QuadraticSolver


def _assert_optimal(P, q, A, b, equality, point, tolerance=1e-9):
    assert point.status is InnerStatus.OPTIMAL, point
    slack = b - A @ point.y
    bounded = np.isfinite(b)
    assert np.abs(P @ point.y + q + A.T @ point.multipliers).max() <= tolerance
    assert slack[bounded].min(initial=0.0) >= -tolerance
    assert np.abs(slack[equality]).max(initial=0.0) <= tolerance
    assert point.multipliers[~equality].min(initial=0.0) >= 0.0
    assert np.abs(point.multipliers * np.where(bounded, slack, 1.0)).max(initial=0.0) <= tolerance


def _random(n, m, n_equal, seed, rank=None):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((n, rank or n))
    A = rng.standard_normal((m, n))
    equality = np.arange(m) < n_equal
    inside = rng.standard_normal(n)
    b = A @ inside + np.where(equality, 0.0, rng.uniform(0.0, 1.0, m))
    return M @ M.T / n, rng.standard_normal(n), A, b, equality


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n", "m", "n_equal"), [(1, 1, 0), (3, 8, 1), (20, 15, 3), (12, 40, 0)])
def test_strongly_convex(n, m, n_equal, seed):
    P, q, A, b, equality = _random(n, m, n_equal, seed)
    P += np.eye(n)
    solver = QuadraticSolver(sp.csc_array(P), sp.csc_array(A), equality)
    for scale in (1.0, 1.01, 3.0, -2.0):
        _assert_optimal(P, scale * q, A, b, equality, solver.solve(scale * q, b))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rank", [1, 4])
def test_merely_convex_with_bounds(seed, rank):
    P, q, A, b, equality = _random(8, 5, 1, seed, rank)
    A = np.vstack([A, np.eye(8), -np.eye(8)])
    b = np.concatenate([b, np.full(16, 3.0)])
    equality = np.concatenate([equality, np.zeros(16, bool)])
    solver = QuadraticSolver(sp.csc_array(P), sp.csc_array(A), equality)
    for scale in (1.0, 1.001, -1.0):
        _assert_optimal(P, scale * q, A, b, equality, solver.solve(scale * q, b))


@pytest.mark.parametrize("n", [5, 300])
def test_linear_program_small_by_clarabel_and_large_by_highs(n):
    rng = np.random.default_rng(n)
    A = sp.vstack([sp.random_array((n, n), density=3 / n, rng=rng), sp.eye_array(n), -sp.eye_array(n)])
    A, b = sp.csc_array(A), np.concatenate([rng.uniform(0.5, 1, n), np.ones(2 * n)])
    P, equality = sp.csc_array((n, n)), np.zeros(3 * n, bool)
    solver = QuadraticSolver(P, A, equality)
    for _ in range(3):
        q = rng.standard_normal(n)
        _assert_optimal(P, q, A, b, equality, solver.solve(q, b))
    again = solver.solve(q * 1.0001, b)
    assert again.solver == "active-set"  # the vertex stays optimal


def test_unchanged_active_rows_cost_no_iteration():
    P, q, A, b, equality = _random(10, 10, 0, 3)
    P += np.eye(10)
    solver = QuadraticSolver(sp.csc_array(P), sp.csc_array(A), equality)
    solver.solve(q, b)
    second = solver.solve(q + 1e-6, b)
    assert second.solver == "active-set" and second.iterations == 0


def test_dependent_active_rows():
    A = sp.csc_array(np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [2.0, 0.0]]))
    b = np.array([1.0, 1.0, -1.0, 2.0])  # four ways to say y_0 = 1
    P, q, equality = sp.csc_array(np.eye(2)), np.array([-5.0, 0.5]), np.zeros(4, bool)
    point = QuadraticSolver(P, A, equality).solve(q, b)
    _assert_optimal(P, q, A, b, equality, point)
    assert np.allclose(point.y, [1.0, -0.5], atol=1e-10)


@pytest.mark.parametrize("P", [np.eye(2), np.diag([1.0, 0.0]), np.zeros((2, 2))])
def test_infeasible(P):
    A = sp.csc_array(np.array([[1.0, 1.0], [-1.0, -1.0]]))
    solver = QuadraticSolver(sp.csc_array(P), A, np.zeros(2, bool))
    for warm in (True, False):
        point = solver.solve(np.ones(2), np.array([1.0, -1.5]), warm=warm)
        assert point.status is InnerStatus.INFEASIBLE
    # and the solver still works afterwards
    assert solver.solve(np.ones(2), np.array([1.0, 1.0])).status in (
        InnerStatus.OPTIMAL,
        InnerStatus.UNBOUNDED,
    )


@pytest.mark.parametrize("P", [np.diag([1.0, 0.0]), np.zeros((2, 2))])
def test_unbounded(P):
    A = sp.csc_array(np.array([[1.0, 0.0], [0.0, 1.0]]))
    solver = QuadraticSolver(sp.csc_array(P), A, np.zeros(2, bool))
    point = solver.solve(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    assert point.status is InnerStatus.UNBOUNDED


def test_infinite_bounds_and_numbers_that_are_none():
    P, A = sp.csc_array(np.eye(2)), sp.csc_array(np.eye(2))
    solver = QuadraticSolver(P, A, np.zeros(2, bool))
    q, b = np.array([-3.0, -4.0]), np.array([np.inf, 1.0])
    point = solver.solve(q, b)
    _assert_optimal(P, q, A, b, np.zeros(2, bool), point)
    assert np.allclose(point.y, [3.0, 1.0])
    assert solver.solve(q, np.array([-np.inf, 1.0])).status is InnerStatus.INFEASIBLE
    assert solver.solve(q, np.array([np.nan, 1.0])).status is InnerStatus.FAILED
    assert solver.solve(np.array([np.nan, 1.0]), b).status is InnerStatus.FAILED


def test_without_constraints():
    P, q = sp.csc_array(np.diag([2.0, 4.0])), np.array([2.0, -4.0])
    point = QuadraticSolver(P, sp.csc_array((0, 2)), np.zeros(0, bool)).solve(q, np.zeros(0))
    assert np.allclose(point.y, [-1.0, 1.0]) and point.status is InnerStatus.OPTIMAL


def test_badly_scaled_rows():
    P, q, A, b, equality = _random(15, 20, 2, 7)
    P += np.eye(15)
    scale = 10.0 ** np.random.default_rng(0).uniform(-3, 3, 20)
    A, b = scale[:, None] * A, scale * b
    point = QuadraticSolver(sp.csc_array(P), sp.csc_array(A), equality).solve(q, b)
    plain = QuadraticSolver(sp.csc_array(P), sp.csc_array(A / scale[:, None]), equality)
    assert np.allclose(point.y, plain.solve(q, b / scale).y, atol=1e-9)


def test_new_matrices_keep_the_warm_start():
    P, q, A, b, equality = _random(6, 8, 1, 11)
    P += np.eye(6)
    solver = QuadraticSolver(sp.csc_array(P), sp.csc_array(A), equality, lasting=False)
    solver.solve(q, b)
    A2, P2 = A * 1.001, P * 1.01
    solver.set_matrices(sp.csc_array(P2), sp.csc_array(A2))
    point = solver.solve(q, b)
    _assert_optimal(P2, q, A2, b, equality, point)
    assert point.solver == "active-set"


@pytest.mark.parametrize("P", [np.diag([1.0, 0.0]), np.zeros((2, 2))])
def test_unbounded_without_rows_or_along_an_equality(P):
    falling = np.array([0.0, 1.0])
    free = QuadraticSolver(sp.csc_array(P), sp.csc_array((0, 2)), np.zeros(0, bool))
    assert free.solve(falling, np.zeros(0)).status is InnerStatus.UNBOUNDED
    row = sp.csc_array(np.array([[1.0, 0.0]]))
    tied = QuadraticSolver(sp.csc_array(P), row, np.ones(1, bool))
    assert tied.solve(falling, np.ones(1)).status is InnerStatus.UNBOUNDED
    # The simplex method has the last word when the interior point method gives up.
    assert tied._decide(falling, np.ones(1)) is InnerStatus.UNBOUNDED


def test_last_word_on_infeasible():
    A = sp.csc_array(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    solver = QuadraticSolver(sp.csc_array(np.eye(2)), A, np.zeros(2, bool))
    assert solver._decide(np.ones(2), np.array([0.0, -1.0])) is InnerStatus.INFEASIBLE


def test_a_point_running_off_to_infinity_is_no_answer():
    # An unbounded program on which Clarabel stops at |y| = 1e9, where residuals relative to y are small.
    A = np.array([[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, 0.0, -1.0, 1.0]])
    q, b = np.array([-1.0, 2.0, 3.0, 0.0, 1.0, -3.0]), np.array([0.0, -1.0])
    solver = QuadraticSolver(sp.csc_array((6, 6)), sp.csc_array(A), np.zeros(2, bool))
    assert solver.solve(q, b).status is InnerStatus.UNBOUNDED
