"""Quadratic programs in the space of their multipliers agree with Clarabel through cvxpy."""

import cvxpy as cp
import numpy as np
import pytest

from blomodel.solvers.answer import InnerStatus
from blomodel.solvers.convex_qp import ConvexProgram
from blomodel.solvers.reduced_pieces import reduced_pieces


def random_program(seed, rank=8):
    draw = np.random.default_rng(seed)
    n, m = 8, 10
    root = draw.normal(size=(n, rank))
    A_eq, b_eq = draw.normal(size=(2, n)), draw.normal(size=2) * 0.1
    A_in, b_in = draw.normal(size=(m, n)), draw.uniform(0.1, 1.0, m)
    return root @ root.T, draw.normal(size=n) * 3, A_eq, b_eq, A_in, b_in, np.array([0, 3, 5])


@pytest.mark.parametrize("seed", range(8))
def test_values_points_and_multipliers(seed):
    P, q, A_eq, b_eq, A_in, b_in, nonnegative = random_program(seed)
    program = ConvexProgram(P, q, A_eq, b_eq, A_in, b_in, nonnegative)
    reduced = reduced_pieces(program)
    draw = np.random.default_rng(seed)
    matrix, right = program.stacked
    for _ in range(4):
        tight = draw.choice(len(b_in), draw.integers(0, 3), replace=False)
        zero = nonnegative[: draw.integers(0, 2)]
        is_equality = program.is_equality(tight, zero)
        z = cp.Variable(q.size)
        rows = matrix.toarray()
        constraints = [rows[is_equality] @ z == right[is_equality], rows @ z <= right]
        truth = cp.Problem(cp.Minimize(0.5 * cp.quad_form(z, cp.psd_wrap(P)) + q @ z), constraints)
        truth.solve(solver="CLARABEL")
        answer = reduced.solve(is_equality, np.inf)
        if truth.status != "optimal":
            assert answer is None or answer.status is InnerStatus.INFEASIBLE
            continue
        if answer is None:  # more rows than directions met on the way; others then solve it
            assert program.solve(tight, zero).value == pytest.approx(truth.value, abs=1e-6)
            continue
        assert answer.value == pytest.approx(truth.value, abs=1e-6)
        assert program.objective(answer.y) == pytest.approx(answer.bound, abs=1e-8)
        assert np.abs(P @ answer.y + q + rows.T @ answer.multipliers).max() < 1e-8
        assert answer.multipliers[~is_equality].min() >= 0
        beyond = reduced.solve(is_equality, truth.value - 0.1)
        assert beyond.status is InnerStatus.INFEASIBLE
        below = reduced.solve(is_equality, truth.value + 0.1)
        assert below is None or below.value == pytest.approx(truth.value, abs=1e-6)


def test_only_where_the_objective_is_strictly_convex():
    P, q, A_eq, b_eq, A_in, b_in, nonnegative = random_program(0, rank=3)
    program = ConvexProgram(P, q, A_eq, b_eq, A_in, b_in, nonnegative)
    assert reduced_pieces(program) is None
    dependent = ConvexProgram(np.eye(8), q, np.vstack([A_eq, A_eq]), np.tile(b_eq, 2), A_in, b_in)
    assert reduced_pieces(dependent) is None
