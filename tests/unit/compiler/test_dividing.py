"""Instructions in parts leave what whole ones leave."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from blomodel.kernels import machine as op

from blomodel.compiler.dividing import divide
from blomodel.compiler.tape import SparseMatrix

RANDOM = np.random.default_rng(0)
N, K, COLUMNS = 23, 17, 3
LISTS = SparseMatrix(sp.random_array((N, K), density=0.3, rng=RANDOM)).lists
PLACES = RANDOM.integers(0, 400, 2 * N).astype(np.uint64)
INTEGERS = np.concatenate([np.zeros(1, np.uint64), LISTS, PLACES])
AT, OUT = 10, 1000  # where operands and results lie


def cases() -> dict[str, list[int]]:
    found = {
        op.NAMES[code]: [code, N, OUT, AT] for code in (op.NEG, op.EXP, op.SOFTPLUS, op.SIGMOID, op.ABS)
    }
    for code in (op.ADD, op.SUB, op.MUL, op.DIV, op.MAXIMUM, op.POWER, op.GREATER_EQUAL):
        for step_a, step_b in ((1, 1), (0, 1), (1, 0)):
            name = f"{op.NAMES[code]} {step_a}{step_b}"
            found[name] = [code, N, OUT, AT, step_a, AT + 100, step_b]
    found["FILL"] = [op.FILL, N, OUT, AT]
    found["GATHER"] = [op.GATHER, N, OUT, 1 + LISTS.size]
    found["SUM"] = [op.SUM, 1, OUT, AT, N, 0]
    for code in sorted(op.SEGMENTS - {op.LARGEST}):
        found[f"{op.NAMES[code]} of runs"] = [code, N, OUT, AT, 7, 0]
    found["SPARSE"] = [op.SPARSE, N, OUT, AT, 1, 200, 1, K]
    found["SPARSE of columns"] = [op.SPARSE, N, OUT, AT, 1, 200, COLUMNS, K]
    for m, k, n in ((N, K, 1), (K, N, 1), (N, K, COLUMNS), (K, N, COLUMNS)):
        for transposed in range(4):
            found[f"MATMUL {m} {k} {n} {transposed}"] = [op.MATMUL, m, OUT, AT, k, 500, n, transposed]
    return found


def ran(rows: np.ndarray, w: np.ndarray) -> np.ndarray:
    op.run(rows, INTEGERS, w, 0, len(rows))
    return w


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", cases())
def test_parts_together_are_the_whole(name: str, count: int) -> None:
    row = np.array([cases()[name] + [0] * op.WIDTH][0][: op.WIDTH], dtype=np.uint64)
    w = np.abs(RANDOM.standard_normal(2000))
    whole = ran(row[None, :], w.copy())
    marked = row.copy()
    marked[0] += np.uint64(op.DIVISIBLE)
    parts = w.copy()
    found = divide(marked, INTEGERS.ctypes.data, parts.ctypes.data, count)
    assert found is not None and len(found.parts) == count
    for table in reversed(found.parts):  # in any order
        ran(table, parts)
    ran(found.last, parts)
    np.testing.assert_allclose(parts, whole, rtol=1e-13)
    if not len(found.last) and not name.startswith("MATMUL"):
        np.testing.assert_array_equal(parts, whole)


def test_a_product_that_is_kept_tells_where_its_factor_lies() -> None:
    row = np.array([op.MATMUL + op.DIVISIBLE, N, OUT, AT, K, 500, 1, 5], dtype=np.uint64)
    found = divide(row, INTEGERS.ctypes.data, np.zeros(9).ctypes.data, 2)
    assert found is not None
    assert found.kept == (500, OUT + N, K)
    assert all(table[0, 7] == 1 for table in found.parts)


def test_what_has_one_row_has_no_parts() -> None:
    row = np.array([op.SEGMENT_MAX, 1, OUT, AT, 50, 0, 0, 0], dtype=np.uint64)
    assert divide(row, INTEGERS.ctypes.data, np.zeros(9).ctypes.data, 2) is None
