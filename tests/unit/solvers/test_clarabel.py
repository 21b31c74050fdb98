"""Clarabel called directly: accuracy, reuse of the solver, and problems without a point."""

import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.clarabel import Clarabel
from blomodel.solvers.question import Cone, ConeKind, ConicQuestion, QuadraticQuestion


def nonnegative(P, q, A, b, reuse=False):
    cones = [Cone(ConeKind.NONNEGATIVE, len(b))]
    return ConicQuestion(P, q, A, b, cones, keeps_sparsity=reuse)


def test_quadratic_rows_keep_their_order():
    # min y0^2 + y1^2 s.t. -y0 <= -2, y0 + y1 = 3, y1 <= 10
    P, q = sp.csc_array(2 * np.eye(2)), np.zeros(2)
    A = sp.csc_array(np.array([[-1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]))
    equality = np.array([False, True, False])
    question = QuadraticQuestion(P, q, A, np.array([-2.0, 3.0, 10.0]), equality)
    answer = Clarabel().solve(question)
    assert answer.status is InnerStatus.OPTIMAL
    assert np.allclose(answer.y, [2.0, 1.0], atol=1e-8)
    assert np.allclose(answer.multipliers, [2.0, -2.0, 0.0], atol=1e-7)
    assert np.allclose(answer.slack, [0.0, 0.0, 9.0], atol=1e-7)
    assert answer.value == pytest.approx(5.0)


def test_reuse_gives_the_same_as_a_new_solver():
    rng = np.random.default_rng(0)
    A = sp.csc_array(np.vstack([-np.eye(3), np.ones((1, 3))]))
    P, kept = sp.csc_array((3, 3)), Clarabel()
    for _ in range(4):
        q, b = rng.standard_normal(3), np.concatenate([np.zeros(3), rng.uniform(1, 2, 1)])
        first = kept.solve(nonnegative(P, q, A, b, reuse=True))
        second = Clarabel().solve(nonnegative(P, q, A, b))
        assert first.status is second.status is InnerStatus.OPTIMAL
        assert np.allclose(first.y, second.y, atol=1e-8)


@pytest.mark.parametrize("reuse", [False, True])
def test_no_point(reuse):
    P, A, solver = sp.csc_array((1, 1)), sp.csc_array(np.array([[1.0], [-1.0]])), Clarabel()
    q = np.array([1.0])
    empty = solver.solve(nonnegative(P, q, A, np.array([1.0, -2.0]), reuse))
    assert empty.status is InnerStatus.INFEASIBLE and empty.value == np.inf
    endless = solver.solve(nonnegative(P, -q, -A[:, [0]], np.array([0.0, np.inf]), reuse))
    assert endless.status is InnerStatus.UNBOUNDED and endless.value == -np.inf
    broken = solver.solve(nonnegative(P, np.array([np.nan]), A, np.array([1.0, 1.0]), reuse))
    assert broken.status is InnerStatus.FAILED and not broken.has_point


def test_every_cone_has_a_native_one():
    """A point of norm at most one, with other cones beside it, nearest to (3, 4)."""
    cones = [
        Cone(ConeKind.SECOND_ORDER, 3),
        Cone(ConeKind.SEMIDEFINITE, 2),
        Cone(ConeKind.EXPONENTIAL, 3),
        Cone(ConeKind.POWER, 3, (0.5,)),
        Cone(ConeKind.GENERAL_POWER, 3, (0.25, 0.75)),
    ]
    disc = np.array([[0.0, 0.0], [-1.0, 0.0], [0.0, -1.0]])
    A = sp.csc_array(np.vstack([disc, np.zeros((12, 2))]))
    inside = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 2.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    question = ConicQuestion(sp.csc_array(np.eye(2)), np.array([-3.0, -4.0]), A, np.array(inside), cones)
    answer = Clarabel().solve(question)
    assert np.allclose(answer.y, [0.6, 0.8], atol=1e-7)
    assert question.residual(answer.y, answer.multipliers, answer.slack) <= 1e-7


def test_statuses_speak():
    assert all(status.message.endswith(".") for status in InnerStatus)
