"""Constraints as rows: inequalities ``<= 0`` and equalities ``== 0``, compiled to tapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from cvxpy.constraints.constraint import Constraint

from blomodel.basics import limits
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.constraints import INEQUALITY, SPECTRAL, as_row
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import dense_jacobian, jacobian
from blomodel.compiler.passes.polynomial import AFFINE, CONSTANT, polynomial
from blomodel.compiler.tape import Tape
from blomodel.text.shorten import shorten


@dataclass(frozen=True)
class Linearisation:
    """Values of rows at a point, and their Jacobians in x and y."""

    value: np.ndarray
    in_x: sp.csr_array
    in_y: sp.csr_array


class Rows:
    """One kind of row of a list of constraints, as a single tape.

    Parameters
    ----------
    constraints : sequence of cvxpy constraints
    kind : {"inequality", "equality"}
        Spectral rows (positive semidefinite matrices) are turned into one inequality for each
        eigenvalue when ``kind`` is "inequality".
    blocks : sequence of Block
        The blocks "x", "y" and "p".
    """

    def __init__(self, constraints: Sequence[Constraint], kind: str, blocks: Sequence[Block]) -> None:
        self.slices: dict[int, slice] = {}
        self._constraints = constraints
        expressions, end = [], 0
        forms = [as_row(constraint) for constraint in constraints]
        self.spectral: list[tuple[int, Any]] = [
            (position, row[1])
            for position, row in enumerate(forms)
            if kind == INEQUALITY and row[0] == SPECTRAL
        ]
        for position, (row_kind, expression) in enumerate(forms):
            if row_kind != kind:
                continue
            expressions.append(expression)
            self.slices[position] = slice(end, end + expression.size)
            end += expression.size
        self.n_smooth: int = end
        self.tape: Tape | None = lower(expressions, blocks) if expressions else None
        self._spectral_tapes: list[tuple[int, Tape]] = []
        for position, expression in self.spectral:
            side = expression.shape[0]
            self._spectral_tapes.append((side, lower([expression], blocks)))
            self.slices[position] = slice(end, end + side)
            end += side
        self.size: int = end
        self._sizes = (blocks[0].size, blocks[1].size)
        self._last: tuple[bytes, Linearisation] | None = None
        self._last_dense: tuple[bytes, np.ndarray] | None = None

    def __len__(self) -> int:
        return self.size

    @cached_property
    def labels(self) -> list[str]:
        """What a person calls each row; made on demand, as thousands of texts take a while."""
        labels: list[str] = []
        for position, part in self.slices.items():
            labels += [shorten(self._constraints[position], 60)] * (part.stop - part.start)
        return labels

    def values(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> np.ndarray:
        """The rows' values at a point."""
        if not self._spectral_tapes:
            return np.empty(0) if self.tape is None else self.tape(x, y, p)
        parts = [self.tape(x, y, p)] if self.tape is not None else []
        for side, tape in self._spectral_tapes:
            matrix = tape(x, y, p).reshape(side, side, order="F")
            parts.append(-np.linalg.eigvalsh((matrix + matrix.T) / 2))
        return np.concatenate(parts)

    def values_at_each(self, x: np.ndarray, points: np.ndarray, p: np.ndarray) -> np.ndarray:
        """The rows' values with each row of an array as y."""
        if self.tape is None or self._spectral_tapes:
            return np.array([self.values(x, y, p) for y in points]).reshape(len(points), self.size)
        return self.tape.at_each("y", points, x, points[0], p)

    @cached_property
    def is_affine(self) -> bool:
        """Whether every row is affine in (x, y) together."""
        if self.spectral:
            return False
        if self.tape is None:
            return True
        in_y = polynomial(self.tape, variable="y", coefficient="x")
        return bool(
            np.all(in_y.degree <= 1)
            and np.all(in_y.coefficient_class[:, 1] <= CONSTANT)
            and np.all(in_y.coefficient_class[:, 0] <= AFFINE)
        )

    def linearise(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> Linearisation:
        """Values and Jacobians at a point."""
        if not self.is_affine:
            return self._linearise(x, y, p)
        # The Jacobian of affine rows depends on the parameters alone.
        key = p.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = (key, self._linearise(x, y, p))
        kept = self._last[1]
        return Linearisation(self.values(x, y, p), kept.in_x, kept.in_y)

    def _linearise(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> Linearisation:
        n_x, n_y = self._sizes
        if limits.DENSE_JACOBIAN.allows(self.size * (n_x + n_y)):
            slopes = self._dense_jacobian(x, y, p)
        else:
            parts = [] if self.tape is None else [jacobian(self.tape, ("x", "y"), (x, y, p))]
            for side, tape in self._spectral_tapes:
                by_entry = _eigenvalue_slopes(tape(x, y, p), side)
                parts.append(sp.csr_array(-by_entry @ jacobian(tape, ("x", "y"), (x, y, p))))
            slopes = sp.csr_array(sp.vstack(parts))
        return Linearisation(
            self.values(x, y, p), sp.csr_array(slopes[:, :n_x]), sp.csr_array(slopes[:, n_x:])
        )

    def dense_jacobian(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> np.ndarray:
        """The Jacobian in (x, y) as a plain matrix, which is faster where it is small."""
        if not self.is_affine:
            return self._dense_jacobian(x, y, p)
        key = p.tobytes()
        if self._last_dense is None or self._last_dense[0] != key:
            self._last_dense = (key, self._dense_jacobian(x, y, p))
        return self._last_dense[1]

    def _dense_jacobian(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> np.ndarray:
        if self.tape is not None and not self._spectral_tapes:
            return dense_jacobian(self.tape, ("x", "y"), (x, y, p))
        parts = [np.zeros((0, sum(self._sizes)))]
        if self.tape is not None:
            parts.append(dense_jacobian(self.tape, ("x", "y"), (x, y, p)))
        for side, tape in self._spectral_tapes:
            by_entry = _eigenvalue_slopes(tape(x, y, p), side)
            parts.append(-by_entry @ dense_jacobian(tape, ("x", "y"), (x, y, p)))
        return np.vstack(parts)


def _eigenvalue_slopes(entries: np.ndarray, side: int) -> np.ndarray:
    """Derivatives of a matrix's eigenvalues in its entries: v_i v_j for a simple eigenvalue."""
    matrix = entries.reshape(side, side, order="F")
    _, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.stack([np.outer(v, v).ravel(order="F") for v in vectors.T])
