"""Atoms that cvxpy lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from cvxpy.atoms.elementwise.elementwise import Elementwise
from cvxpy.constraints.constraint import Constraint


class sigmoid(Elementwise):
    """The logistic function 1 / (1 + exp(-x)), element by element.

    Smooth and increasing, neither convex nor concave: it may be used wherever cvxpy's nonlinear
    atoms may, in upper levels and in terms of the lower level that hold upper variables only.

    Examples
    --------
    >>> import blomodel as bm
    >>> float(bm.sigmoid(0.0).value)
    0.5
    """

    def __init__(self, x: Any) -> None:
        super().__init__(x)

    @Elementwise.numpy_numeric
    def numeric(self, values: list[Any]) -> Any:
        return scipy.special.expit(values[0])

    def sign_from_args(self) -> tuple[bool, bool]:
        return (True, False)

    def bounds_from_args(self) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = self.args[0].get_bounds()
        return scipy.special.expit(lower), scipy.special.expit(upper)

    def is_atom_convex(self) -> bool:
        return False

    def is_atom_concave(self) -> bool:
        return False

    def is_atom_smooth(self) -> bool:
        return True

    def is_incr(self, idx: int) -> bool:
        return True

    def is_decr(self, idx: int) -> bool:
        return False

    def _domain(self) -> list[Constraint]:
        return []

    def _grad(self, values: list[Any]) -> list[Any]:
        slope = scipy.special.expit(values[0]) * scipy.special.expit(-values[0])
        return [sigmoid.elemwise_grad_to_diag(slope, self.args[0].size, self.size)]
