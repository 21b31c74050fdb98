"""cvxpy's values of data in files, a few rows at a time."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.declare import row_values
from blomodel.declare.row_values import value_of
from tests.support.files import in_file

ROWS, COLUMNS = 1001, 4


@pytest.fixture
def stored(tmp_path: Path) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    A, b = random.standard_normal((ROWS, COLUMNS)), random.standard_normal(ROWS)
    return in_file(tmp_path / "rows.bin", A), in_file(tmp_path / "labels.bin", b)


def test_values_are_those_of_the_whole(
    stored: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_values, "AT_ONCE", 300)
    y, Y, w = cp.Variable(COLUMNS), cp.Variable((COLUMNS, 2)), cp.Variable(ROWS)
    for number, variable in enumerate((y, Y, w)):
        variable.value = np.random.default_rng(number).standard_normal(variable.shape)
    A, b = map(bm.data, stored)
    C, c = map(np.array, stored)
    for found, wanted in (
        (cp.sum_squares(A @ y - b) / ROWS + cp.norm1(y), cp.sum_squares(C @ y - c) / ROWS + cp.norm1(y)),
        (cp.sum(cp.logistic(-A @ y + 1)), cp.sum(cp.logistic(-C @ y + 1))),
        (cp.sum(cp.multiply(w, cp.square(A @ y))), cp.sum(cp.multiply(w, cp.square(C @ y)))),
        (cp.sum(cp.log_sum_exp(A @ Y, axis=1)), cp.sum(cp.log_sum_exp(C @ Y, axis=1))),
        (2 * cp.norm(A @ y - b), 2 * cp.norm(C @ y - c)),
        (cp.sum(cp.cumsum(A @ y)), cp.sum(cp.cumsum(C @ y))),
        (cp.sum_squares(y), cp.sum_squares(y)),
    ):
        assert value_of(found) == pytest.approx(float(wanted.value), rel=1e-10)


def test_no_vector_of_all_rows_is_made(tmp_path: Path) -> None:
    rows = 1_000_000
    A, b = in_file(tmp_path / "a.bin", np.ones((rows, 2))), in_file(tmp_path / "b.bin", np.ones(rows))
    y = cp.Variable(2, value=np.ones(2))
    expression = cp.sum_squares(bm.data(A) @ y - bm.data(b))
    tracemalloc.start()
    try:
        assert value_of(expression) == rows
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < b.nbytes
