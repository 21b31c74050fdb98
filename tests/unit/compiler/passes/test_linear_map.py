"""The matrix of a linear tape, carried through the tape, against runs of the derivative tape."""

from __future__ import annotations

import time

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import jacobian
from blomodel.compiler.passes.linear_map import linear_map

RNG = np.random.default_rng(5)
x, y, p = cp.Variable(6, name="x"), cp.Variable((2, 3), name="y"), cp.Parameter(6, name="p")
BLOCKS = (Block("x", [x]), Block("y", [y]), Block("p", [p]))
SPARSE = sp.random_array((5, 6), density=0.4, rng=RNG, format="csr")

LINEAR = {
    "bounds": x - 1,
    "negative": -2 * x,
    "products": cp.multiply(p, x) + cp.multiply(RNG.normal(size=6), x) / 3,
    "pieces": cp.hstack([x[4:1:-1], y[1, :], x[0]]),
    "sums": cp.sum(y, axis=0) - cp.sum(x),
    "repeated": x + y[0, 0],
    "matrix": SPARSE @ x + 1,
    "differences": cp.diff(x),
    "constant": cp.Constant(np.ones(3)),
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("names", [("x",), ("y",), ("x", "y")])
def test_agrees_with_the_derivative_tape(name: str, names: tuple[str, ...]) -> None:
    tape = lower([LINEAR[name]], BLOCKS)
    point = [RNG.normal(size=6) for _ in range(3)]
    found = linear_map(tape, names, point)
    assert found is not None
    np.testing.assert_allclose(
        found.toarray(), jacobian(tape, names, point).toarray(), rtol=1e-14, atol=1e-14
    )


@pytest.mark.parametrize("expression", [cp.square(x), cp.multiply(x, cp.vec(y, order="F")), cp.exp(x)])
def test_what_is_not_linear_is_left_alone(expression: cp.Expression) -> None:
    point = [np.ones(6)] * 3
    assert linear_map(lower([expression], BLOCKS), ("x", "y"), point) is None


def test_a_coefficient_may_be_a_function_of_other_inputs() -> None:
    tape = lower([cp.multiply(cp.exp(x), cp.vec(y, order="F"))], BLOCKS)
    point = [RNG.normal(size=6) for _ in range(3)]
    np.testing.assert_allclose(linear_map(tape, ("y",), point).toarray(), np.diag(np.exp(point[0])))


def test_a_large_diagonal_takes_no_quadratic_time() -> None:
    n = 200_000
    long = cp.Variable(n, name="long")
    tape = lower([2 * long - 1], (Block("long", [long]),))
    began = time.process_time()
    found = linear_map(tape, ("long",), [np.zeros(n)])
    assert time.process_time() - began < 2.0  # column by column: hours
    assert found.nnz == n and np.all(found.data == 2.0)
