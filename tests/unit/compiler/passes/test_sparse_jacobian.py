"""Jacobians with fixed positions, against those by sweeps and against cvxpy's own values."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from blomodel.basics.deadline import Deadline
from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import jacobian, vjp
from blomodel.compiler.passes.sparse_jacobian import TooLargeError, sparse_jacobian

RNG = np.random.default_rng(0)
A, M = RNG.standard_normal((5, 4)), RNG.standard_normal((3, 2))
x, y, Y = cp.Variable(3, name="x"), cp.Variable(4, name="y"), cp.Variable((2, 3), name="Y")
BLOCKS = (Block("x", (x,)), Block("y", (y, Y)), Block("p", ()))
POINT = (RNG.standard_normal(3), RNG.standard_normal(10), np.zeros(0))
EXPRESSIONS = [
    cp.sum_squares(A @ y - 1) * x[0],
    cp.logistic(A @ y),
    cp.exp(x) @ cp.square(x),
    M @ Y @ x,
    cp.trace(Y @ M),
    cp.norm(y),
    cp.max(y),
    cp.cumsum(Y, axis=1),
    cp.multiply(x, Y[0]),
    cp.quad_form(y, A.T @ A),
    cp.sqrt(1 + cp.sum_squares(Y)),
    (Y.T @ Y)[0],
    cp.square(cp.pos(y)),
    cp.maximum(x, Y[1]),
    cp.log_sum_exp(y),
    (x[0] + x[1]) / (3 + cp.square(y)),
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_it_is_the_jacobian_by_sweeps_at_any_order(expression):
    tape = lower([expression], BLOCKS)
    found = sparse_jacobian(tape, ("x", "y")).at(*POINT).toarray()
    assert np.allclose(found, jacobian(tape, ("x", "y"), POINT).toarray())
    slope, weights = vjp(tape, ("x", "y")), RNG.standard_normal(tape.n_outputs)
    second = sparse_jacobian(slope, ("x", "y")).at(*POINT, weights).toarray()
    by_sweeps = jacobian(slope, ("x", "y"), (*POINT, weights)).toarray()
    assert np.allclose(second, by_sweeps)
    triangle = sparse_jacobian(slope, ("x", "y"), only_lower_triangle=True)
    assert np.allclose(triangle.at(*POINT, weights).toarray(), np.tril(by_sweeps))


def test_positions_are_those_that_can_move():
    tape = lower([cp.multiply(x, Y[0])], BLOCKS)
    found = sparse_jacobian(tape, ("x", "y"))
    assert len(found.rows) == 6
    assert found.shape == (3, 13)


def test_a_deadline_ends_it():
    tape = lower([cp.logistic(A @ y)], BLOCKS)
    with pytest.raises(TooLargeError, match="time limit"):
        sparse_jacobian(tape, ("x", "y"), deadline=Deadline.after(-1.0))
