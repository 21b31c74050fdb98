"""Second derivatives of the KKT reformulation's Lagrangian: as a matrix, or times a direction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.expressions.constraints import EQUALITY, INEQUALITY, as_row
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import jacobian, jvp, known_jacobian, vjp
from blomodel.compiler.tape import Tape

if TYPE_CHECKING:
    from blomodel.model.model import Model


@dataclass(frozen=True, eq=False)
class KktWeights:
    """Multipliers at which the Hessian is taken.

    Attributes
    ----------
    own : array
        The lower level's multipliers, which are unknowns of the reformulation.
    upper, lower : tuple of two arrays
        The reformulation's multipliers of each level's inequality and equality rows.
    stationarity : array
        Its multipliers of the lower level's stationarity.
    """

    own: np.ndarray
    upper: tuple[np.ndarray, np.ndarray]
    lower: tuple[np.ndarray, np.ndarray]
    stationarity: np.ndarray


class KktHessian:
    """Of f, weighted rows of both levels and weighted lower stationarity; spectral rows are left out."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @cached_property
    def _rows_gradient(self) -> Tape:
        """Tape of grad_(x,y) [weights . (f, upper rows, lower rows)]."""
        model = self.model
        pieces = [model.f_expression]
        for constraints in (model.upper_constraints, model.lower_constraints):
            for kind in (INEQUALITY, EQUALITY):
                pieces += [e for k, e in map(as_row, constraints) if k == kind]
        return vjp(lower(pieces, model.blocks), ("x", "y"))

    @cached_property
    def _stationarity_gradient(self) -> Tape:
        """Tape of grad_(x,y) [direction . lower stationarity]."""
        return vjp(self.model.lagrangian_gradient, ("x", "y"))

    def _of_rows(self, weights: KktWeights) -> np.ndarray:
        inside, on = weights.upper
        return np.concatenate([[1.0], inside[: self.model.upper_in.n_smooth], on, *weights.lower])

    def matrix(self, x: np.ndarray, y: np.ndarray, p: np.ndarray, weights: KktWeights) -> sp.csc_array:
        """The Hessian in (x, y)."""
        rows = (x, y, p, self._of_rows(weights))
        total = jacobian(self._rows_gradient, ("x", "y"), rows)
        if not weights.stationarity.size:  # multipliers in y: stationarity is among the rows
            return sp.csc_array(total)
        below = (x, y, p, np.concatenate(([1.0], weights.own)), weights.stationarity)
        return sp.csc_array(total + jacobian(self._stationarity_gradient, ("x", "y"), below))

    def products(
        self, x: np.ndarray, y: np.ndarray, p: np.ndarray, weights: KktWeights, moves: np.ndarray
    ) -> np.ndarray:
        """The Hessian in (x, y) times the columns of ``moves``."""
        if not moves.shape[1]:
            return np.zeros(moves.shape)
        found = _products(self._rows_gradient, (x, y, p, self._of_rows(weights)), moves)
        if weights.stationarity.size:
            below = x, y, p, np.concatenate(([1.0], weights.own)), weights.stationarity
            found += _products(self._stationarity_gradient, below, moves)
        return found

    def product(
        self,
        x: np.ndarray,
        y: np.ndarray,
        p: np.ndarray,
        weights: KktWeights,
        direction: np.ndarray,
    ) -> np.ndarray:
        """The Hessian in (x, y, multipliers), times a direction, without the matrix."""
        n = self.model.x.size + self.model.y.size
        ahead = jvp(self._rows_gradient, ("x", "y"))
        product = np.zeros(direction.size)
        product[:n] = ahead(x, y, p, self._of_rows(weights), direction[:n])
        if weights.stationarity.size:
            gradient = self.model.lagrangian_gradient
            blocks = ("x", "y", gradient.input_names[-1])
            twice = jvp(vjp(gradient, blocks), blocks)
            own = np.concatenate(([1.0], weights.own))
            move = np.concatenate([direction[:n], [0.0], direction[n:]])
            product += np.delete(twice(x, y, p, own, weights.stationarity, move), n)
        return product


def _products(gradient: Tape, at: tuple[np.ndarray, ...], moves: np.ndarray) -> np.ndarray:
    """The derivative in (x, y) times columns: by its matrix where that is known, else a run for each."""
    matrix = known_jacobian(gradient, ("x", "y"), at)
    if matrix is not None:
        return np.asarray(matrix @ moves)
    ahead = jvp(gradient, ("x", "y"))
    return ahead.at_each(ahead.input_names[-1], moves.T, *at, moves[:, 0]).T
