r"""The lower level's KKT conditions: their unknowns, their pairs, and their stationarity equations.

The unknowns are z = (x, y, multipliers). Usually the multipliers of all lower rows are unknowns beside
y, and stationarity is a set of equations beside the lower rows,

.. math:: \nabla_y g + \lambda\cdot\nabla_y c + \mu\cdot\nabla_y h = 0, \quad
          0 \le \lambda \perp -c \ge 0.

Where the upper level uses multipliers, y holds them already and stationarity is among the lower rows:
there are no further unknowns, and a point is lower-optimal when it satisfies the lower rows and, of
every pair, the row is tight or the multiplier zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.passes.derivatives import jacobian
from blomodel.declare.statement import Partner
from blomodel.model.rows import Rows

if TYPE_CHECKING:
    from blomodel.model.model import Model

Array = np.ndarray


class Conditions(ABC):
    """What the KKT conditions of a lower level look like, whoever holds the multipliers.

    Attributes
    ----------
    multipliers_are_unknowns : bool
        Whether the multipliers of all lower rows are unknowns of their own, beside y.
    n_multipliers : int
        Unknowns beside x and y.
    n_equations : int
        Stationarity equations beside the lower rows.
    rows, columns : arrays
        The pairs: rows of ``model.lower_in``, and the entries of z that are their multipliers.
    """

    multipliers_are_unknowns: bool
    n_multipliers: int
    n_equations: int
    rows: Array
    columns: Array

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def n_pairs(self) -> int:
        """Complementarity pairs."""
        return len(self.rows)

    @property
    def n_unknowns(self) -> int:
        """Entries of z."""
        return self.model.x.size + self.model.y.size + self.n_multipliers

    @abstractmethod
    def fit(self, x: Array, y: Array, p: Array) -> Array:
        """The multipliers among the unknowns that fit a lower answer best."""

    @abstractmethod
    def stationarity(self, x: Array, y: Array, p: Array, multipliers: Array) -> Array:
        """Left side of the equations."""

    @abstractmethod
    def jacobian(
        self, x: Array, y: Array, p: Array, multipliers: Array, slopes: Sequence[sp.csr_array]
    ) -> sp.csr_array:
        """Derivative of the equations in z; slopes: those of ``lower_in`` and ``lower_eq`` in y."""

    @abstractmethod
    def parameter_jacobian(self, x: Array, y: Array, p: Array, multipliers: Array) -> Array:
        """Derivative of the equations in the parameters."""

    @abstractmethod
    def shift(self, y: Array) -> Array:
        """What to add to a step in z so that the pairs' multipliers are values, not steps."""

    @abstractmethod
    def vanishing_products(self) -> list[tuple[Rows, Array, Array]]:
        """Products of a lower row and an entry of z that are zero at every lower answer.

        Each item holds rows, which of them, and the entries; empty where the entries are not in (x, y).
        """

    @abstractmethod
    def equation_partners(self) -> tuple[Array, Array, Array]:
        """Equations with an entry of z each, and which of them are stationarity.

        Equations are counted from those of ``stationarity`` on, then ``lower_eq``. The entry is the
        variable in which an equation is stationary, else the equation's multiplier.
        """


class MultipliersBesideY(Conditions):
    """The multipliers of all lower rows are unknowns, inequalities first."""

    n_multipliers: int
    n_equations: int
    rows: Array
    columns: Array

    multipliers_are_unknowns = True

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.n_multipliers = model.n_lower_rows
        self.n_equations = model.y.size
        self.rows = np.arange(len(model.lower_in))
        self.columns = model.x.size + model.y.size + self.rows

    def fit(self, x: Array, y: Array, p: Array) -> Array:
        """The multipliers that fit a lower answer best."""
        return self.model.split_duals(self.model.multistart.fit_duals(x, y, p))

    def stationarity(self, x: Array, y: Array, p: Array, multipliers: Array) -> Array:
        """Gradient of the lower Lagrangian in y."""
        return self.model.lower_stationarity(x, y, p, multipliers)

    def jacobian(
        self, x: Array, y: Array, p: Array, multipliers: Array, slopes: Sequence[sp.csr_array]
    ) -> sp.csr_array:
        """Second derivatives of the Lagrangian, and the slopes of the rows."""
        cross, hessian = self.model.lower_hessian(x, y, p, multipliers)
        return sp.csr_array(sp.hstack([cross, hessian, *(slope.T for slope in slopes)]))

    def parameter_jacobian(self, x: Array, y: Array, p: Array, multipliers: Array) -> Array:
        """Second derivatives of the Lagrangian in y and the parameters."""
        weights = np.concatenate(([1.0], multipliers))
        return jacobian(self.model.lagrangian_gradient, ("p",), (x, y, p, weights)).toarray()

    def shift(self, y: Array) -> Array:
        """Nothing: multipliers enter as values from the start."""
        return np.zeros(self.n_unknowns)

    def vanishing_products(self) -> list[tuple[Rows, Array, Array]]:
        """None that (x, y) alone knows of."""
        return []

    def equation_partners(self) -> tuple[Array, Array, Array]:
        """All of y, then the multipliers of the equations."""
        n_x, n_y, n_in = self.model.x.size, self.model.y.size, len(self.rows)
        n_eq = self.n_multipliers - n_in
        entries = n_x + np.concatenate([np.arange(n_y), n_y + n_in + np.arange(n_eq)])
        return np.arange(n_y + n_eq), entries, np.arange(n_y + n_eq) < n_y


class MultipliersWithinY(Conditions):
    """The multipliers of the lower level are entries of y, and stationarity is among its rows."""

    rows: Array
    columns: Array

    multipliers_are_unknowns = False
    n_multipliers = 0
    n_equations = 0

    def __init__(self, model: Model, partners: Sequence[Partner]) -> None:
        super().__init__(model)
        own_pairs = _find_pairs(model, model.lower_in, partners)
        self.rows, self.columns = own_pairs[:2]
        self._equations = _find_pairs(model, model.lower_eq, partners)

    def fit(self, x: Array, y: Array, p: Array) -> Array:
        """None: y holds them."""
        return np.empty(0)

    def stationarity(self, x: Array, y: Array, p: Array, multipliers: Array) -> Array:
        """No equations."""
        return np.empty(0)

    def jacobian(
        self, x: Array, y: Array, p: Array, multipliers: Array, slopes: Sequence[sp.csr_array]
    ) -> sp.csr_array:
        """No equations."""
        return sp.csr_array((0, self.n_unknowns), dtype=float)

    def parameter_jacobian(self, x: Array, y: Array, p: Array, multipliers: Array) -> Array:
        """No equations."""
        return np.zeros((0, p.size))

    def shift(self, y: Array) -> Array:
        """The present values of the pairs' multipliers."""
        shift = np.zeros(self.n_unknowns)
        shift[self.columns] = y[self.columns - self.model.x.size]
        return shift

    def vanishing_products(self) -> list[tuple[Rows, Array, Array]]:
        """The pairs; and equations times what belongs to them."""
        model = self.model
        return [(model.lower_in, self.rows, self.columns), (model.lower_eq, *self._equations[:2])]

    def equation_partners(self) -> tuple[Array, Array, Array]:
        """Those that the statement names."""
        return self._equations


def find_conditions(model: Model) -> Conditions:
    """The conditions of a model's lower level, by what its statement says about multipliers."""
    partners = model.statement.partners
    return MultipliersWithinY(model, partners) if partners else MultipliersBesideY(model)


def _find_pairs(model: Model, rows: Rows, partners: Sequence[Partner]) -> tuple[Array, Array, Array]:
    """Rows whose constraint has a partner, entries of z that are the partner, and what is stationary."""
    chosen, entries, is_stationary = [np.empty(0, int)], [np.empty(0, int)], [np.empty(0, bool)]
    for partner in partners:
        if partner.position in rows.slices:
            chosen.append(np.arange(rows.size)[rows.slices[partner.position]])
            entries += [np.arange(model.y.size)[model.y.slice_of(leaf)] for leaf in partner.variables]
            is_stationary.append(np.full(len(chosen[-1]), partner.is_stationarity))
    return np.concatenate(chosen), model.x.size + np.concatenate(entries), np.concatenate(is_stationary)
