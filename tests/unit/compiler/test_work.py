"""Which instructions are worth being divided."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from blomodel.kernels import machine as op

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.work import divisible, estimated_work


def marked(expression: cp.Expression, variable: cp.Variable) -> set[int]:
    code = lower([expression], [Block("y", (variable,))]).machinery.code
    return {int(row[0]) - op.DIVISIBLE for row in code if row[0] >= op.DIVISIBLE}


def test_long_products_and_functions_are_marked_and_short_ones_are_not() -> None:
    random, y = np.random.default_rng(0), cp.Variable(10)
    A = random.standard_normal((60_000, 10))
    assert marked(cp.sum(cp.logistic(A @ y)), y) == {op.MATMUL, op.SOFTPLUS}
    assert not marked(cp.sum(cp.logistic(A[:3000] @ y)), y)


def test_sparse_products_count_by_their_numbers() -> None:
    y = cp.Variable(2000)
    for density, expected in ((0.05, {op.SPARSE}), (0.0005, set())):
        matrix = sp.random_array((4000, 2000), density=density, rng=np.random.default_rng(0))
        assert marked(cp.sum_squares(matrix @ y), y) == expected


def test_no_mark_is_made_in_the_table_that_was_given() -> None:
    code = np.array([[op.EXP, 10**6, 0, 0, 0, 0, 0, 0]], dtype=np.uint64)
    assert divisible(code, np.zeros(1, np.uint64))[0, 0] == op.EXP + op.DIVISIBLE
    assert code[0, 0] == op.EXP
    assert estimated_work(code[0], 0) > estimated_work(np.array([op.NEG, *code[0, 1:]]), 0)
