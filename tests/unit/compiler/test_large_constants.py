"""Large constants are read where they lie, by every tape, with the same results."""

from __future__ import annotations

import gc
import weakref

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from blomodel.kernels.moves import evaluate

from blomodel.basics import limits
from blomodel.compiler.blocks import Block
from blomodel.compiler.large_constants import has_no_zeros, interned
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient, jvp
from blomodel.compiler.passes.directions import Term, direction, point_in, result_in
from blomodel.model.oracle import loop_tape

ROWS, COLUMNS = 600, 201  # more entries than are copied


def _data(order: str) -> np.ndarray:
    matrix = np.random.default_rng(1).standard_normal((ROWS, COLUMNS))
    return np.asarray(matrix, order=order)  # type: ignore[call-overload]


def _squares(matrix: object) -> tuple[cp.Expression, Block]:
    y = cp.Variable(COLUMNS)
    expression = cp.sum_squares(matrix @ y - 1) + cp.sum(cp.logistic(matrix @ y))  # type: ignore[operator]
    return expression, Block("y", (y,))


def _by_hand(matrix: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    t = matrix @ y
    sigmoid = 1 / (1 + np.exp(-t))
    value = np.sum((t - 1) ** 2) + np.sum(np.logaddexp(0, t))
    bend = 2 + sigmoid * (1 - sigmoid)
    return value, matrix.T @ (2 * (t - 1) + sigmoid), matrix.T @ (bend * t)


@pytest.mark.parametrize("order", ["C", "F"])
def test_values_and_derivatives_without_a_copy_of_the_data(order: str) -> None:
    matrix = _data(order)
    expression, block = _squares(matrix)
    tape, y = lower([expression], (block,)), np.random.default_rng(2).standard_normal(COLUMNS)
    slope = gradient(tape, ("y",))
    action = jvp(slope, ("y",))
    value, first, second = _by_hand(matrix, y)
    assert tape(y)[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(slope(y), first, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(action(y, y), second, rtol=1e-9, atol=1e-9)
    for each in (tape, slope, action):
        assert each.machinery.workspace.size < matrix.size / 2
        assert not limits.COPIED_CONSTANT.allows(each.machinery.kept[0].size)


def test_sparse_data_stay_sparse_and_are_not_copied() -> None:
    random = np.random.default_rng(3)
    matrix = sp.random_array((20_000, 30_000), density=2e-4, format="csr", rng=random)
    y = cp.Variable(30_000)
    tape = lower([cp.sum_squares(matrix @ y - 1)], (Block("y", (y,)),))
    slope, at = gradient(tape, ("y",)), random.standard_normal(30_000)
    np.testing.assert_allclose(slope(at), 2 * (matrix.T @ (matrix @ at - 1)), atol=1e-9)
    assert slope.machinery.workspace.size < 5 * 30_000
    assert slope.machinery.integers.size < 5 * 30_000


def test_copies_of_a_workspace_find_the_data() -> None:
    matrix = _data("C")
    expression, block = _squares(matrix)
    tape = lower([expression], (block,))
    y = np.random.default_rng(4).standard_normal(COLUMNS)
    _, first, _ = _by_hand(matrix, y)
    slope = gradient(tape, ("y",))
    code, integers, workspace, layout = loop_tape(slope, np.empty(0))
    assert workspace is not slope.machinery.workspace
    made = direction([[Term(slope)]], {"y": COLUMNS}, np.empty(0))
    del tape, slope, expression, block
    gc.collect()  # the loop's own instructions keep the data alive
    point_in(made, 1)[:] = y
    np.testing.assert_allclose(evaluate(made), first, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(result_in(made), first, rtol=1e-9, atol=1e-9)


def test_equal_data_are_kept_once_and_only_while_they_are_used() -> None:
    one, other = _data("C").ravel(), _data("C").ravel()
    kept = interned(one)
    assert interned(other) is kept
    other[-1] += 1
    assert interned(other) is not kept
    alive = weakref.ref(one)
    del one, kept
    gc.collect()
    assert alive() is None


def test_a_constant_slope_lies_in_the_workspace() -> None:
    n = 150_000
    coefficients = np.linspace(-1, 1, n)
    y = cp.Variable(n)
    slope = gradient(lower([coefficients @ y], (Block("y", (y,)),)), ("y",))
    np.testing.assert_array_equal(slope(np.zeros(n)), coefficients)
    made = direction([[Term(slope)]], {"y": n}, np.empty(0))
    np.testing.assert_array_equal(evaluate(made), coefficients)


def test_zeros_of_an_array_that_can_change_are_looked_for_each_time() -> None:
    values = np.ones(2 * int(limits.COPIED_CONSTANT.value))
    assert has_no_zeros(values)
    values[5] = 0.0
    assert not has_no_zeros(values)
    kept = values.copy()
    kept.flags.writeable = False
    assert not has_no_zeros(kept) and not has_no_zeros(kept)
    full = np.where(values == 0.0, np.nan, values)
    full.flags.writeable = False
    assert has_no_zeros(full) and has_no_zeros(full)
