"""Jacobians of rows: plain matrices and sparse ones are the same, and agree with differences."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from blomodel.basics import limits
from blomodel.basics.limits import Limit
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.constraints import INEQUALITY
from blomodel.model.rows import Rows

RNG = np.random.default_rng(0)
X, Y, P = RNG.normal(size=2), RNG.normal(size=3), np.array([1.5])


def smooth_rows(x, y, p):
    return [cp.exp(y[0]) * x[1] + cp.sum_squares(y) <= p, y[2] ** 3 - x[0] <= 0]


def affine_rows(x, y, p):
    return [p * y[0] + y[1] <= x[0], y <= 1]


def spectral_rows(x, y, p):
    return [cp.bmat([[y[0] + 3, y[1] * x[0]], [y[1] * x[0], y[2] + p]]) >> 0, cp.sum(y) <= x[1]]


@pytest.mark.parametrize("build", [smooth_rows, affine_rows, spectral_rows])
def test_dense_and_sparse_jacobian(build, monkeypatch):
    x, y, p = cp.Variable(2), cp.Variable(3), cp.Parameter()
    rows = Rows(build(x, y, p), INEQUALITY, [Block("x", (x,)), Block("y", (y,)), Block("p", (p,))])
    dense = rows.dense_jacobian(X, Y, P)
    step = 1e-6
    for k, unit in enumerate(np.eye(5)):
        ahead, behind = (
            rows.values(X + sign * step * unit[:2], Y + sign * step * unit[2:], P) for sign in (1, -1)
        )
        assert dense[:, k] == pytest.approx((ahead - behind) / (2 * step), abs=1e-7)
    for limit in (10**6, 0):  # found as a plain matrix, and as a sparse one
        monkeypatch.setattr(limits, "DENSE_JACOBIAN", Limit(limit, "entries", "for the test"))
        linear = rows._linearise(X, Y, P)
        assert np.hstack([linear.in_x.toarray(), linear.in_y.toarray()]) == pytest.approx(dense)
        assert linear.value == pytest.approx(rows.values(X, Y, P))


def test_the_jacobian_of_affine_rows_follows_the_parameters():
    x, y, p = cp.Variable(2), cp.Variable(3), cp.Parameter()
    blocks = [Block("x", (x,)), Block("y", (y,)), Block("p", (p,))]
    rows = Rows(affine_rows(x, y, p), INEQUALITY, blocks)
    assert rows.dense_jacobian(X, Y, np.array([1.5]))[0, 2] == 1.5
    assert rows.dense_jacobian(X, Y, np.array([2.5]))[0, 2] == 2.5
