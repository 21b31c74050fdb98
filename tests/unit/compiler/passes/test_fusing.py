"""Products with one matrix in one pass, and products that are kept while their point stays."""

import numpy as np
import pytest
from blomodel.kernels import machine as op
from blomodel.kernels.moves import evaluate

from blomodel.basics import limits
from blomodel.basics.limits import Limit
from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.passes.directions import Term, point_in, shared_directions
from blomodel.compiler.passes.fusing import fuse_products


@pytest.fixture(autouse=True)
def every_matrix_counts_as_large(monkeypatch):
    monkeypatch.setattr(limits, "SEPARATE_PRODUCTS", Limit(0, "entries", "for the test"))


def products(tape):
    return [node for node in tape.nodes if node.op == op.MATMUL]


def test_products_with_the_same_matrix_become_one():
    random = np.random.default_rng(0)
    A = random.standard_normal((4, 3))
    b = TapeBuilder(("y", "z", "x"), (6, 9, 1))
    matrix = b.constant(A)
    first = b.unary(op.EXP, b.matmul(matrix, b.input("y"), 4, 3, 2))
    second = b.unary(op.SIN, b.matmul(matrix, b.input("z"), 4, 3, 3))
    back = [b.matmul(matrix, part, 3, 4, n, a_transposed=True) for part, n in ((second, 3), (first, 2))]
    tape = b.finish(b.concatenate(back))
    fused = fuse_products(tape)
    assert [node.data[2] for node in products(tape)] == [2, 3, 3, 2]
    assert [node.data[2] for node in products(fused)] == [5, 5]
    y, z = random.standard_normal(6), random.standard_normal(9)
    Y, Z = y.reshape((3, 2), order="F"), z.reshape((3, 3), order="F")
    expected = np.hstack([A.T @ np.sin(A @ Z), A.T @ np.exp(A @ Y)]).ravel(order="F")
    np.testing.assert_allclose(fused(y, z, [0.0]), expected, rtol=1e-13)


def test_products_that_need_each_other_stay_apart():
    A = np.random.default_rng(1).standard_normal((3, 3))
    b = TapeBuilder(("y",), (3,))
    once = b.matmul(b.constant(A), b.input("y"), 3, 3, 1)
    tape = b.finish(b.concatenate([b.matmul(b.constant(A), once, 3, 3, 1), once]))
    fused = fuse_products(tape)
    assert len(products(fused)) == 2
    y = np.arange(3.0)
    np.testing.assert_allclose(fused(y), np.concatenate([A @ A @ y, A @ y]), rtol=1e-13)


def test_what_does_not_depend_on_the_last_input_stays_apart():
    A = np.random.default_rng(3).standard_normal((3, 3))
    b = TapeBuilder(("y", "z"), (3, 3))
    parts = [b.matmul(b.constant(A), b.input(name), 3, 3, 1) for name in ("y", "z")]
    tape = b.finish(b.concatenate(parts))
    assert len(products(fuse_products(tape))) == 2
    assert fuse_products(tape).machinery.prefix == 1


def test_a_kept_product_follows_its_point():
    random = np.random.default_rng(2)
    A = random.standard_normal((4, 3))
    b = TapeBuilder(("x", "y", "p"), (1, 6, 0))
    square = b.unary(op.EXP, b.matmul(b.constant(A), b.input("y"), 4, 3, 2))
    tape = b.finish(b.matmul(b.constant(A), square, 3, 4, 2, a_transposed=True))
    one, other = shared_directions(
        [([[Term(tape)]], ("x", "y")), ([[Term(tape, sign=-1.0)]], ("x", "y"))],
        {"x": 1, "y": 6},
        np.zeros(0),
    )
    kept = [row for row in one[0] if row[0] == op.MATMUL and row[7] >= 4]
    also = [row for row in other[0] if row[0] == op.MATMUL and row[7] >= 4]
    assert len(kept) == len(also) == 1
    assert kept[0][2] == also[0][2]  # one place for the product of both
    y = point_in(one, 2)
    for _ in range(3):
        y[:] = random.standard_normal(6)
        expected = (A.T @ np.exp(A @ y.reshape((3, 2), order="F"))).ravel(order="F")
        for _ in range(2):
            np.testing.assert_allclose(evaluate(one), expected, rtol=1e-12)
            np.testing.assert_allclose(evaluate(other), -expected, rtol=1e-12)
