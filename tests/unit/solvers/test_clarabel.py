"""Clarabel called directly: accuracy, reuse of the solver, and problems without a point."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.clarabel import ClarabelSolver, solve_quadratic


def test_quadratic_rows_keep_their_order():
    # min y0^2 + y1^2 s.t. -y0 <= -1, y0 + y1 = 3, y1 <= 10
    P, q = sp.csc_array(2 * np.eye(2)), np.zeros(2)
    A = sp.csc_array(np.array([[-1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]))
    result = solve_quadratic(P, q, A, np.array([-2.0, 3.0, 10.0]), np.array([False, True, False]))
    assert result.status is InnerStatus.OPTIMAL
    assert np.allclose(result.x, [2.0, 1.0], atol=1e-8)
    assert np.allclose(result.z, [2.0, -2.0, 0.0], atol=1e-7)


def test_reuse_gives_the_same_as_a_new_solver():
    rng = np.random.default_rng(0)
    A = sp.csc_array(np.vstack([-np.eye(3), np.ones((1, 3))]))
    P, cones = sp.csc_array((3, 3)), [clarabel.NonnegativeConeT(4)]
    kept = ClarabelSolver(cones)
    for _ in range(4):
        q, b = rng.standard_normal(3), np.concatenate([np.zeros(3), rng.uniform(1, 2, 1)])
        first = kept.solve(P, q, A, b, 1e-9, reuse=True)
        second = ClarabelSolver(cones).solve(P, q, A, b, 1e-9)
        assert first.status is second.status is InnerStatus.OPTIMAL
        assert np.allclose(first.x, second.x, atol=1e-8)


@pytest.mark.parametrize("reuse", [False, True])
def test_no_point(reuse):
    P, A = sp.csc_array((1, 1)), sp.csc_array(np.array([[1.0], [-1.0]]))
    solver = ClarabelSolver([clarabel.NonnegativeConeT(2)])
    q = np.array([1.0])
    empty = solver.solve(P, q, A, np.array([1.0, -2.0]), 1e-9, reuse)
    assert empty.status is InnerStatus.INFEASIBLE
    endless = solver.solve(P, -q, -A[:, [0]], np.array([0.0, np.inf]), 1e-9, reuse)
    assert endless.status is InnerStatus.UNBOUNDED
    broken = solver.solve(P, np.array([np.nan]), A, np.array([1.0, 1.0]), 1e-9, reuse)
    assert broken.status is InnerStatus.FAILED and not broken.status.has_point


def test_statuses_speak():
    assert all(status.message.endswith(".") for status in InnerStatus)
