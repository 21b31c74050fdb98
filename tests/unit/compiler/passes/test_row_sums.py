"""Functions of a few rows: their mean over all choices of rows is the function itself."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient
from blomodel.compiler.passes.row_sums import RowSum, row_sum
from blomodel.compiler.row_parts import ENTRIES, PRODUCTS, NotASumError
from blomodel.compiler.tape import Tape

N, K, CLASSES = 6, 3, 2
RANDOM = np.random.default_rng(0)
A, B = RANDOM.standard_normal((N, K)), RANDOM.standard_normal(N)
LABELS = np.eye(CLASSES)[RANDOM.integers(0, CLASSES, N)]


def _blocks() -> tuple[cp.Variable, cp.Variable, cp.Variable, tuple[Block, ...]]:
    x, y, Y = cp.Variable(N + 1), cp.Variable(K), cp.Variable((K, CLASSES))
    return x, y, Y, (Block("x", (x,)), Block("y", (y, Y)), Block("p", ()))


CASES: dict[str, Callable[[cp.Variable, cp.Variable, cp.Variable], cp.Expression]] = {
    "squares": lambda x, y, Y: cp.sum_squares(A @ y - B) / N + cp.exp(x[0]) * cp.sum_squares(y),
    "logistic": lambda x, y, Y: x[0] * cp.sum(cp.logistic(cp.multiply(-np.sign(B), A @ y))),
    "weights": lambda x, y, Y: cp.sum(cp.multiply(x[1:], cp.square(A @ y - B))) / 3 - x[0],
    "weights, bent": lambda x, y, Y: cp.sum(cp.multiply(cp.logistic(2 * x[:-1]), cp.square(A @ y - B))),
    "softmax": lambda x, y, Y: (
        cp.sum(
            cp.multiply(
                x[:-1],
                cp.log_sum_exp(A @ Y, axis=1) - cp.sum(cp.multiply(LABELS, A @ Y), axis=1),
            )
        )
        + cp.sum_squares(Y)
    ),
    "absolute": lambda x, y, Y: cp.norm1(A @ y - B) + cp.norm1(y),
    "huber of columns": lambda x, y, Y: cp.sum(cp.huber(A @ Y, 0.3)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1, 2, N])
def test_the_mean_over_all_batches_is_the_whole(name: str, size: int) -> None:
    x, y, Y, blocks = _blocks()
    tape = lower([CASES[name](x, y, Y)], blocks)
    found = row_sum(tape, size, "g")
    at = (RANDOM.standard_normal(N + 1), RANDOM.standard_normal(K + K * CLASSES), np.empty(0))
    _check_mean(tape, found, at, N, size)


def _check_mean(tape: Tape, found: RowSum, at: tuple[np.ndarray, ...], n_rows: int, size: int) -> None:
    """Values and slopes on all batches of a size have the whole function's as their mean."""
    blocks = ("y", "x", ENTRIES, PRODUCTS)
    in_y, in_x, in_entries, in_products = (gradient(found.tape, (block,)) for block in blocks)
    means = [np.zeros(1), np.zeros(at[0].size), np.zeros(at[1].size)]
    batches = [np.array(rows) for rows in combinations(range(n_rows), size)]
    for rows in batches:
        inputs = (*at, *found.inputs(*at, rows))
        in_sparse = in_products(*inputs)
        slope_x = in_x(*inputs) + found.through_products("x", at, rows, in_sparse)
        np.add.at(slope_x, found.places(rows), in_entries(*inputs))
        slope_y = in_y(*inputs) + found.through_products("y", at, rows, in_sparse)
        for mean, part in zip(means, (found.tape(*inputs), slope_x, slope_y), strict=True):
            mean += part / len(batches)
    whole = tape(*at), gradient(tape, ("x",))(*at), gradient(tape, ("y",))(*at)
    for mean, part in zip(means, whole, strict=True):
        np.testing.assert_allclose(mean, part, rtol=1e-10, atol=1e-10)


SPARSE_ROWS, SPARSE_COLUMNS = 8, 60
SPARSE = sp.random_array((SPARSE_ROWS, SPARSE_COLUMNS), density=0.04, rng=RANDOM, format="csr")
TARGETS = RANDOM.standard_normal(SPARSE_ROWS)
SPARSE_CASES: dict[str, Callable[[cp.Variable, cp.Variable, cp.Variable], cp.Expression]] = {
    "squares": lambda x, y, Y: cp.sum_squares(SPARSE @ y - TARGETS) + x[0] * cp.sum_squares(y),
    "logistic": lambda x, y, Y: cp.sum(cp.logistic(cp.multiply(-np.sign(TARGETS), SPARSE @ y))),
    "weights": lambda x, y, Y: cp.sum(cp.multiply(x[1:], cp.square(SPARSE @ y - TARGETS))) - x[0],
    "softmax": lambda x, y, Y: cp.sum(cp.multiply(x[:-1], cp.log_sum_exp(SPARSE @ Y, axis=1))),
    "bent": lambda x, y, Y: cp.sum(cp.square(SPARSE @ (cp.exp(y) * x[2]))),
}


@pytest.mark.parametrize("name", SPARSE_CASES)
@pytest.mark.parametrize("size", [1, 3, SPARSE_ROWS])
def test_rows_of_sparse_matrices_too(name: str, size: int) -> None:
    x, y = cp.Variable(SPARSE_ROWS + 1), cp.Variable(SPARSE_COLUMNS)
    Y = cp.Variable((SPARSE_COLUMNS, CLASSES))
    blocks = Block("x", (x,)), Block("y", (y, Y)), Block("p", ())
    tape = lower([SPARSE_CASES[name](x, y, Y)], blocks)
    found = row_sum(tape, size, "g")
    assert found.has_products and found.n_rows == SPARSE_ROWS
    n_y = SPARSE_COLUMNS * (1 + CLASSES)
    at = (RANDOM.standard_normal(SPARSE_ROWS + 1), 0.5 * RANDOM.standard_normal(n_y), np.empty(0))
    _check_mean(tape, found, at, SPARSE_ROWS, size)


@pytest.mark.parametrize(
    "expression",
    [
        lambda y: cp.norm(A @ y - B),
        lambda y: cp.square(cp.sum_squares(A @ y)),
        lambda y: cp.max(A @ y),
        lambda y: cp.sum_squares(cp.diff(A @ y)),
        lambda y: cp.sum_squares(y),
    ],
)
def test_what_is_no_sum_over_rows_is_refused(expression: Callable[[cp.Variable], cp.Expression]) -> None:
    _, y, _, blocks = _blocks()
    with pytest.raises(NotASumError, match="no sum over rows"):
        row_sum(lower([expression(y)], blocks), 2, "the lower objective")
