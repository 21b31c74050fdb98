"""Tapes of files give in pieces what they give as a whole, and take no memory for each row."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.basics import limits
from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient, jacobian, jvp
from blomodel.compiler.tape import Tape
from blomodel.programs.newton import last_input_only
from tests.support.files import in_file

ROWS, COLUMNS = 90_001, 3  # neither a multiple of a piece's rows
x, y = cp.Variable(2, name="x"), cp.Variable(COLUMNS, name="y")
Make = Callable[[object, object], cp.Expression]
MODELS: dict[str, Make] = {
    "least squares": lambda A, b: cp.sum_squares(A @ y - b) / ROWS + cp.exp(x[0]) * cp.sum_squares(y),  # type: ignore[operator]
    "minus the data": lambda A, b: cp.sum(cp.logistic(-A @ y)) + x[1] * cp.norm1(y),  # type: ignore[operator]
    "labels": lambda A, b: cp.sum(cp.logistic(cp.multiply(-b, A @ y + x[0]))) + x[1],  # type: ignore[operator]
    "linear": lambda A, b: x[0] * cp.sum(A @ y) + cp.sum(cp.square(A @ y)),  # type: ignore[operator]
}


@pytest.fixture(params=MODELS)
def tapes(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Tape, Tape]:
    """One of data in files, and the same of data in memory."""
    random = np.random.default_rng(0)
    A, b = random.standard_normal((ROWS, COLUMNS)), random.standard_normal(ROWS)
    stored = (in_file(tmp_path / "rows.bin", A), in_file(tmp_path / "labels.bin", b))
    small = limits.Limit(1000, "numbers", "so that a small file is a large one")
    monkeypatch.setattr(limits, "WHOLE_FILE", small)
    blocks = [Block("x", (x,)), Block("y", (y,))]
    make = MODELS[request.param]
    files = lower([make(*map(bm.data, stored))], blocks)
    return files, lower([make(A, b)], blocks)


AT = np.array([0.3, 0.7]), np.array([0.5, -1.0, 2.0])


def test_values_and_derivatives_are_those_of_the_whole(tapes: tuple[Tape, Tape]) -> None:
    by_pieces, whole = tapes
    np.testing.assert_allclose(by_pieces(*AT), whole(*AT), rtol=1e-10)
    assert by_pieces.pieces is not None
    assert whole.pieces is None
    for block in ("x", "y"):
        slopes = [gradient(tape, block) for tape in tapes]
        np.testing.assert_allclose(slopes[0](*AT), slopes[1](*AT), rtol=1e-9, atol=1e-9)
    slopes = [gradient(tape, "y") for tape in tapes]
    assert slopes[0].pieces is not None
    hessians = [jacobian(slope, "y", AT).toarray() for slope in slopes]
    np.testing.assert_allclose(hessians[0], hessians[1], rtol=1e-9, atol=1e-9)
    direction = np.array([1.0, 2.0, -1.0])
    product = last_input_only(jvp(slopes[0], ("y",)), AT)(direction)
    np.testing.assert_allclose(product, hessians[1] @ direction, rtol=1e-9, atol=1e-9)


def test_many_points_are_those_one_by_one(tapes: tuple[Tape, Tape]) -> None:
    points = np.random.default_rng(2).standard_normal((3, COLUMNS))
    found = [tape.at_each("y", points, AT[0], points[0]) for tape in tapes]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10)


def test_what_joins_rows_is_run_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = limits.Limit(10, "numbers", "so that a small file is a large one")
    monkeypatch.setattr(limits, "WHOLE_FILE", small)
    # Below the size from which data are read where they lie, they are copied in any case.
    A = np.random.default_rng(0).standard_normal((60_000, 2))
    z = cp.Variable(2)
    expression = cp.norm(bm.data(in_file(tmp_path / "rows.bin", A)) @ z)
    tape = lower([expression], [Block("y", (z,))])
    assert tape.pieces is None
    at = np.array([1.0, 2.0])
    np.testing.assert_allclose(tape(at), np.linalg.norm(A @ at))


@pytest.mark.parametrize("kind", [pytest.param("squares", marks=pytest.mark.slow), "logistic"])
def test_a_tall_file_takes_no_memory_for_each_row(tmp_path: Path, kind: str) -> None:
    rows = 1_000_000
    A = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", float, (rows, 2))
    b = np.lib.format.open_memmap(tmp_path / "b.npy", "w+", float, (rows,))
    random = np.random.default_rng(0)
    for begin in range(0, rows, 100_000):
        part = slice(begin, begin + 100_000)
        A[part] = random.standard_normal((100_000, 2))
        b[part] = A[part].sum(axis=1)
    data, labels = (bm.data(np.load(tmp_path / f"{name}.npy", mmap_mode="r")) for name in "ab")
    w, z = cp.Variable(name="w"), cp.Variable(2, name="z")
    losses = cp.square(data @ z - labels) if kind == "squares" else cp.logistic(-data @ z)
    g = cp.sum(losses) / rows + cp.exp(w) * cp.sum_squares(z)
    lower_level = bm.Lower(cp.Minimize(g), [], variables=[z])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(z - 1)), [w >= -5, w <= 1], lower_level)
    problem.solve(method="f2sa", batch_size=50, max_steps=1, time_limit=0.5)  # imports
    tracemalloc.start()
    try:
        problem.solve(method="f2sa", batch_size=50, max_steps=2, time_limit=4)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert problem.status.has_point
    # Before, dozens of vectors with an entry for each row were there at once.
    assert peak < 2 * labels.value.nbytes


@pytest.mark.parametrize(("most", "is_whole"), [(limits.WIDE_FILE.value, True), (100, False)])
def test_long_rows_are_read_where_they_lie(
    most: int, is_whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    A = np.random.default_rng(0).standard_normal((4000, 200))
    monkeypatch.setattr(limits, "WHOLE_FILE", limits.Limit(100, "numbers", "for a small file"))
    monkeypatch.setattr(limits, "WIDE_FILE", limits.Limit(most, "numbers", "for a small file"))
    z = cp.Variable(200)
    tape = lower([cp.sum_squares(bm.data(in_file(tmp_path / "rows.bin", A)) @ z)], [Block("y", (z,))])
    assert (tape.pieces is None) == is_whole
