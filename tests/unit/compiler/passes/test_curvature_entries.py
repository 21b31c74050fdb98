"""An estimate of second derivatives, compared with those that are there."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.curvature_entries import curvature_entries
from blomodel.compiler.passes.derivatives import hessian


@pytest.mark.parametrize("is_sparse", [False, True])
def test_at_least_as_many_as_there_are(is_sparse: bool) -> None:
    random = np.random.default_rng(0)
    data = random.standard_normal((30, 20))
    if is_sparse:
        data = sp.csr_array(np.where(random.random((30, 20)) < 0.1, data, 0.0))
    x, y = cp.Variable(30), cp.Variable(20)
    expression = cp.sum(cp.multiply(x, cp.logistic(data @ y)))
    tape = lower([expression], (Block("x", (x,)), Block("y", (y,))))
    found = hessian(tape, ("y",), (np.ones(30), np.ones(20))).nnz
    assert found <= curvature_entries(tape) <= 4 * found


def test_none_without_matrices() -> None:
    x, y = cp.Variable(), cp.Variable(1000)
    tape = lower([cp.sum_squares(y - x)], (Block("x", (x,)), Block("y", (y,))))
    assert curvature_entries(tape) == 0
