"""Products of large data are found once, and only for the data that they belong to."""

from __future__ import annotations

import gc

import cvxpy as cp
import numpy as np

from blomodel.compiler import data_products
from blomodel.compiler.blocks import Block
from blomodel.compiler.data_products import product
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient
from blomodel.compiler.passes.entries import jacobian_entries
from blomodel.compiler.tape import Tape


def _hessian(tape: Tape) -> np.ndarray:
    return jacobian_entries(gradient(tape, ("y",)), ("y",)).at((np.zeros(300),)).toarray()


def _data(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(3000, 300))


def test_hessians_of_two_tapes_share_one_product():
    A, b = _data(), np.ones(3000)
    y = cp.Variable(300)
    blocks = [Block("y", [y])]
    before = len(data_products._PRODUCTS)
    constant = cp.Constant(A)
    first = lower([cp.sum_squares(constant @ y - b) / 3000], blocks)
    second = lower([3 * cp.sum_squares(constant @ y) + cp.sum_squares(y) + cp.sum(y)], blocks)
    np.testing.assert_allclose(_hessian(first), A.T @ A * (2 / 3000), atol=1e-9)
    np.testing.assert_allclose(_hessian(second), 6 * A.T @ A + 2 * np.eye(300), atol=1e-9)
    assert len(data_products._PRODUCTS) == before + 1


def test_a_product_goes_with_its_data():
    A = _data()
    A.flags.writeable = False
    kept = product(A.T, A)
    assert product(A.T, A) is kept
    before = len(data_products._PRODUCTS)
    del A
    gc.collect()
    assert len(data_products._PRODUCTS) == before - 1


def test_data_that_may_change_are_multiplied_again():
    A = _data()
    first = product(A.T, A)
    A *= 2
    np.testing.assert_allclose(product(A.T, A), 4 * first, rtol=1e-14)


def test_changed_data_of_a_constant_are_seen():
    A, y = _data(), cp.Variable(300)
    blocks = [Block("y", [y])]
    constant = cp.Constant(A)
    one = _hessian(lower([cp.sum_squares(constant @ y)], blocks))
    constant.value[:] *= 2
    two = _hessian(lower([cp.sum_squares(constant @ y)], blocks))
    np.testing.assert_allclose(two, 4 * one, atol=1e-9)
