"""Matrices read off linear maps that can only be run, and points at which to look at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp

Run = Callable[[np.ndarray], np.ndarray]


class MatrixProbe:
    """Reads a matrix off a linear map by running it on directions.

    The first reading takes one run per column. With the sparsity known, columns that share no row
    are read in one run (Curtis, Powell and Reid, 1974).
    """

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.shape = (n_rows, n_columns)
        self.pattern: sp.csc_array | None = None
        self._check = np.random.default_rng(0).standard_normal(n_columns)

    def full(self, run: Run) -> sp.csc_array:
        """One run per column."""
        n_rows, n_columns = self.shape
        indices, data, starts = [], [], np.zeros(n_columns + 1, dtype=np.int64)
        direction = np.zeros(n_columns)
        for column in range(n_columns):
            direction[column] = 1.0
            values = run(direction)
            direction[column] = 0.0
            rows = np.flatnonzero(values)
            indices.append(rows)
            data.append(values[rows])
            starts[column + 1] = starts[column] + len(rows)
        if not indices:
            return sp.csc_array(self.shape)
        return sp.csc_array(
            (np.concatenate(data), np.concatenate(indices), starts), shape=self.shape
        )

    def learn(self, matrices: Sequence[sp.csc_array]) -> None:
        """Take the union of the matrices' entries as the sparsity from now on."""
        union = sp.csc_array(self.shape)
        for matrix in matrices if self.pattern is None else [*matrices, self.pattern]:
            union = union + sp.csc_array(
                (np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=self.shape
            )
        union.sort_indices()
        self.pattern = union
        self._colours = _colour_columns(union)
        n_colours = int(self._colours.max(initial=-1)) + 1
        columns = np.repeat(np.arange(self.shape[1]), np.diff(union.indptr))
        self._where = (self._colours[columns], union.indices)
        self._directions = np.zeros((n_colours, self.shape[1]))
        self._directions[self._colours, np.arange(self.shape[1])] = 1.0

    def read(self, run: Run) -> sp.csc_array:
        """The matrix in the learnt sparsity (which grows if it turns out too small)."""
        assert self.pattern is not None
        values = np.empty((len(self._directions), self.shape[0]))
        for colour, direction in enumerate(self._directions):
            values[colour] = run(direction)
        data = values[self._where]
        matrix = sp.csc_array((data, self.pattern.indices, self.pattern.indptr), shape=self.shape)
        # An entry that was zero at all points looked at so far would be read into the wrong place.
        expected = run(self._check)
        reach = 1e-9 * (1.0 + np.abs(expected).max(initial=0.0))
        if np.abs(matrix @ self._check - expected).max(initial=0.0) > reach:
            matrix = self.full(run)
            self.learn([matrix])
        return matrix


def generic_points(lower_bound: np.ndarray, upper_bound: np.ndarray) -> list[np.ndarray]:
    """Points inside the box at which no coefficient vanishes by accident."""
    rng = np.random.default_rng(20)
    points = []
    for _ in range(3):
        low = np.where(np.isfinite(lower_bound), lower_bound, -np.inf)
        high = np.where(np.isfinite(upper_bound), upper_bound, np.inf)
        share = rng.uniform(0.05, 0.95, len(low))
        reach = np.abs(rng.standard_normal(len(low))) + 0.1
        with np.errstate(invalid="ignore"):
            inside = low + share * (high - low)
        point = np.where(
            np.isfinite(low), low + reach, np.where(np.isfinite(high), high - reach, reach)
        )
        sides = rng.choice([-1.0, 1.0], len(low))
        point = np.where(np.isinf(low) & np.isinf(high), sides * reach, point)
        points.append(np.where(np.isfinite(low) & np.isfinite(high), inside, point))
    return points


def _colour_columns(pattern: sp.csc_array) -> np.ndarray:
    """Greedy colours: columns of one colour share no row."""
    n_rows, n_columns = pattern.shape
    colours = np.zeros(n_columns, dtype=np.int64)
    by_row = sp.csr_array(pattern)
    if len(by_row.indptr) > 1 and np.diff(by_row.indptr).max(initial=0) == n_columns:
        return np.arange(n_columns)  # a full row: every column needs its own run
    colours -= 1
    for column in np.argsort(-np.diff(pattern.indptr), kind="stable"):
        taken: set[int] = set()
        for row in pattern.indices[pattern.indptr[column] : pattern.indptr[column + 1]]:
            taken.update(
                colours[by_row.indices[by_row.indptr[row] : by_row.indptr[row + 1]]].tolist()
            )
        colour = 0
        while colour in taken:
            colour += 1
        colours[column] = colour
    return colours
