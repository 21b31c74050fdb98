"""Summands of Jacobians: what is done to them, against products of matrices by NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.passes.slopes import (
    Entries,
    Plain,
    SlopeAlgebra,
    Summand,
    TooManyEntriesError,
    spread_of,
)

WIDTH = 4
X = np.array([0.5, -1.0, 2.0, 3.0, 0.25, 1.5])


def numbers(algebra: SlopeAlgebra, slopes: list[Summand]) -> np.ndarray:
    """The sum of all summands as a plain matrix, at X."""
    b, total = algebra.b, np.zeros((slopes[0].n_rows, WIDTH))
    for slope in slopes:
        entries = algebra.by_entry(slope)
        values, scale = entries.values, 1.0
        if isinstance(values, int):
            values = b.finish(values)(X)
        if slope.scale is not None:
            scale = b.finish(slope.scale)(X)[0]
        np.add.at(total, (entries.rows, entries.columns), scale * values)
    return total


@pytest.fixture(params=["constant entries", "computed entries", "constant plain", "computed plain"])
def slope(request: pytest.FixtureRequest) -> tuple[SlopeAlgebra, Summand, np.ndarray]:
    builder = TapeBuilder(("x",), (len(X),))
    algebra = SlopeAlgebra(builder, WIDTH, 1e6)
    rows, columns = np.array([0, 0, 1, 2, 2, 2]), np.array([0, 3, 1, 0, 0, 2])  # one place stands twice
    is_computed = request.param.startswith("computed")
    entries = Entries(3, rows, columns, builder.input("x") if is_computed else X)
    matrix = np.zeros((3, WIDTH))
    np.add.at(matrix, (rows, columns), X)
    return algebra, algebra.as_plain(entries) if request.param.endswith("plain") else entries, matrix


def test_forms_are_the_same_matrix(slope: tuple[SlopeAlgebra, Summand, np.ndarray]) -> None:
    algebra, own, matrix = slope
    np.testing.assert_allclose(numbers(algebra, [own]), matrix)
    np.testing.assert_allclose(numbers(algebra, [algebra.as_plain(own)]), matrix)
    assert isinstance(algebra.as_plain(own), Plain)


def test_scaled_mapped_and_added(slope: tuple[SlopeAlgebra, Summand, np.ndarray]) -> None:
    algebra, own, matrix = slope
    diagonal = np.array([2.0, 0.0, -1.0])
    scaled = algebra.scaled([own], algebra.b.constant(diagonal), 3)
    np.testing.assert_allclose(numbers(algebra, scaled), diagonal[:, None] * matrix)
    factor = np.array([[1.0, 0, 2], [0, 0, 0], [0, 3, 1], [1, 1, 1]])
    mapped = algebra.mapped([own], spread_of(sp.csr_array(factor)))
    np.testing.assert_allclose(numbers(algebra, mapped), factor @ matrix)
    np.testing.assert_allclose(numbers(algebra, algebra.times(factor, own)), factor @ matrix)
    both = algebra.added([*mapped, *algebra.times(factor, own)])
    assert len(both) == 1
    np.testing.assert_allclose(numbers(algebra, both), 2 * factor @ matrix)


def test_no_more_entries_than_allowed() -> None:
    builder = TapeBuilder(("x",), (len(X),))
    algebra = SlopeAlgebra(builder, WIDTH, most=5)
    own = Entries(3, np.arange(3), np.arange(3), np.ones(3))
    algebra.mapped([own], spread_of(sp.eye_array(3)))
    with pytest.raises(TooManyEntriesError):
        algebra.mapped([own], spread_of(sp.eye_array(3)))
