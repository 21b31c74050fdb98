"""Programs of independent blocks, against the same programs solved as a whole."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.blocks import BlockActiveSet, Part, independent_parts
from blomodel.solvers.quadratic import QuadraticSolver


class Joined:
    """Random strongly convex programs side by side, their variables and rows shuffled."""

    def __init__(self, seed: int, sizes: list[tuple[int, int, int]], is_diagonal: bool = False) -> None:
        rng = np.random.default_rng(seed)
        hessians, rows, right, equality = [], [], [], []
        for n, m, m_eq in sizes:
            root = np.diag(rng.uniform(0.5, 2, n)) if is_diagonal else rng.normal(size=(n, n))
            hessians.append(root @ root.T + 0.1 * np.eye(n))
            matrix, inside = rng.normal(size=(m, n)), rng.normal(size=n)
            rows.append(matrix)
            right.append(matrix @ inside + np.where(np.arange(m) < m_eq, 0.0, rng.uniform(0, 1, m)))
            equality.append(np.arange(m) < m_eq)
        P, A = sp.csr_array(sp.block_diag(hessians)), sp.csr_array(sp.block_diag(rows))
        A = sp.csr_array(A.reshape(sum(m for _, m, _ in sizes), P.shape[0]))
        order, row_order = rng.permutation(P.shape[0]), rng.permutation(A.shape[0])
        self.P = sp.csc_array(P[order][:, order])
        self.A = sp.csc_array(A[row_order][:, order])
        self.b, self.equality = np.concatenate(right)[row_order], np.concatenate(equality)[row_order]
        self.rng = rng

    def q(self) -> np.ndarray:
        return 3 * self.rng.normal(size=self.P.shape[0])

    @property
    def parts(self) -> list[Part]:
        return independent_parts(self.P, self.A)


SIZES = {
    "alike": [(4, 5, 1)] * 6,
    "of all sizes": [(1, 1, 0), (2, 4, 1), (3, 0, 0), (7, 9, 2), (1, 0, 0), (6, 8, 3), (5, 5, 0)],
    "without rows": [(3, 0, 0)] * 4,
    "larger": [(70, 40, 10)] * 2,
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("is_diagonal", [False, True])
def test_agrees_with_the_whole(name: str, is_diagonal: bool) -> None:
    program = Joined(3, SIZES[name], is_diagonal)
    parts = program.parts
    assert len(parts) >= len(SIZES[name])
    apart = QuadraticSolver(program.P, program.A, program.equality, parts=parts)
    whole = QuadraticSolver(program.P, program.A, program.equality)
    assert apart.is_strongly_convex
    for _ in range(4):
        q = program.q()
        mine, other = apart.solve(q, program.b), whole.solve(q, program.b)
        assert mine.status is other.status is InnerStatus.OPTIMAL
        np.testing.assert_allclose(mine.y, other.y, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(mine.multipliers, other.multipliers, rtol=1e-7, atol=1e-8)
        slope = program.P @ mine.y + q + program.A.T @ mine.multipliers
        assert np.abs(slope).max() < 1e-9
    other = Joined(4, SIZES[name], is_diagonal)
    scaled = sp.csc_array(2 * program.P)
    apart.set_matrices(scaled, program.A)
    q = other.q()
    fresh = QuadraticSolver(scaled, program.A, program.equality).solve(q, program.b)
    np.testing.assert_allclose(apart.solve(q, program.b).y, fresh.y, rtol=1e-9, atol=1e-9)


def test_the_blocks_answer_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Joined(1, SIZES["alike"])
    blocks = BlockActiveSet(program.parts, program.equality)
    assert blocks.set_matrices(program.P, program.A)
    assert blocks.solve(program.q(), program.b, None, 1e-9) is not None


def test_the_optimality_system_of_an_answer_outlives_the_next_solve() -> None:
    program = Joined(5, SIZES["of all sizes"])
    solver = QuadraticSolver(program.P, program.A, program.equality, parts=program.parts)
    system = solver.solve(program.q(), program.b).system
    solver.solve(program.q(), program.b)
    solver.set_matrices(sp.csc_array(2 * program.P), program.A)
    n, k = program.P.shape[0], system.A.shape[0]
    K = np.block([[system.P.toarray(), system.A.toarray().T], [system.A.toarray(), np.zeros((k, k))]])
    right = program.rng.normal(size=n + k)
    found = np.concatenate(system.solve(right[:n], right[n:]))
    np.testing.assert_allclose(K @ found, right, rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(system.P.toarray(), program.P.toarray())


def test_a_row_may_be_without_bound() -> None:
    program = Joined(2, SIZES["alike"])
    b = np.where(program.equality | (np.arange(len(program.b)) % 2 == 0), program.b, np.inf)
    q = program.q()
    apart = QuadraticSolver(program.P, program.A, program.equality, parts=program.parts).solve(q, b)
    whole = QuadraticSolver(program.P, program.A, program.equality).solve(q, b)
    np.testing.assert_allclose(apart.y, whole.y, rtol=1e-9, atol=1e-9)


def test_an_impossible_block_makes_the_whole_impossible() -> None:
    P, A = sp.csc_array(np.eye(3)), sp.csc_array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0]])
    b, parts = np.array([-1.0, -1.0, 1.0]), independent_parts(P, A)
    assert [list(part.variables) for part in parts] == [[0], [1], [2]]
    answer = QuadraticSolver(P, A, np.zeros(3, bool), parts=parts).solve(np.ones(3), b)
    assert answer.status is InnerStatus.INFEASIBLE


def test_a_flat_block_is_left_to_others() -> None:
    P, A = sp.csc_array(np.diag([1.0, 0.0])), sp.csc_array([[1.0, 0], [0, -1.0]])
    solver = QuadraticSolver(P, A, np.zeros(2, bool), parts=independent_parts(P, A))
    assert not solver.is_strongly_convex
    answer = solver.solve(np.array([-3.0, 1.0]), np.array([1.0, 0.0]))
    np.testing.assert_allclose(answer.y, [1.0, 0.0], atol=1e-9)


def test_parts_are_tied_by_rows_and_by_products() -> None:
    hessian = sp.csc_array(np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1.0]]))
    rows = sp.csc_array(np.array([[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 2.0]]))
    parts = independent_parts(hessian, rows)
    assert [list(part.variables) for part in parts] == [[0, 3], [1, 2]]
    assert [list(part.rows) for part in parts] == [[1, 2], [0]]
