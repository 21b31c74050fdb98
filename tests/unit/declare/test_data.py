"""Data on disk: nothing is copied, and mini-batches of a file end where those of an array do."""

from __future__ import annotations

from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics.arrays import is_on_disk
from blomodel.errors import DataError

ROWS, COLUMNS = 3000, 40


def _file(path: Path) -> np.ndarray:
    stored = np.memmap(path, dtype=float, mode="w+", shape=(ROWS, COLUMNS))
    stored[:] = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
    stored.flush()
    return np.memmap(path, dtype=float, mode="r", shape=(ROWS, COLUMNS))


def _ridge(A: object, b: np.ndarray) -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(COLUMNS, name="y")
    g = cp.sum_squares(A @ y - b) / ROWS + cp.exp(x) * cp.sum_squares(y)  # type: ignore[operator]
    lower = bm.Lower(cp.Minimize(g), [], variables=[y])
    return bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - 0.5)), [x >= -5, x <= 1], lower)


def test_a_file_is_not_copied_and_gives_the_same_answers(tmp_path: Path) -> None:
    A = _file(tmp_path / "rows.bin")
    b = A.sum(axis=1) / 2
    ends = []
    for matrix in (bm.data(A), np.array(A)):
        problem = _ridge(matrix, np.array(b))
        problem.solve(method="f2sa", batch_size=50, max_steps=30)
        assert problem.solution is not None
        ends.append(problem.solution.iterate["y"])
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-10)


def test_tapes_read_the_file_itself(tmp_path: Path) -> None:
    A = _file(tmp_path / "rows.bin")
    stated = bm.data(A)
    assert np.shares_memory(stated.value, A)
    assert is_on_disk(stated.value)
    assert not is_on_disk(np.array(A))
    model = _ridge(stated, np.ones(ROWS)).plain_model
    large = [part for part in model.g.machinery.kept if part.size == A.size]
    assert [np.shares_memory(part, A) for part in large] == [True]


def test_other_arrays_are_refused() -> None:
    with pytest.raises(DataError, match="float64"):
        bm.data(np.zeros((3, 2), dtype=np.float32))
    with pytest.raises(DataError, match="row by row"):
        bm.data(np.zeros((3, 2)).T)
