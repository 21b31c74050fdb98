"""Atoms that cvxpy lacks, each with its lowering rule."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import scipy.special
from cvxpy.atoms.elementwise.elementwise import Elementwise
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.rules import Lowering, Operand, rule
from blomodel.kernels import machine as op


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
        """Values of the atom at given values of its argument, without overflow."""
        return scipy.special.expit(values[0])

    def sign_from_args(self) -> tuple[bool, bool]:
        """Nonnegative, and not nonpositive, whatever the argument is."""
        return (True, False)

    def bounds_from_args(self) -> tuple[np.ndarray, np.ndarray]:
        """The values at the bounds of the argument, since the function increases."""
        lower, upper = self.args[0].get_bounds()
        return scipy.special.expit(lower), scipy.special.expit(upper)

    def is_atom_convex(self) -> bool:
        """Not convex: the curve bends downwards for positive arguments."""
        return False

    def is_atom_concave(self) -> bool:
        """Not concave: the curve bends upwards for negative arguments."""
        return False

    def is_atom_smooth(self) -> bool:
        """Smooth everywhere."""
        return True

    def is_incr(self, idx: int) -> bool:
        """Increasing in its argument."""
        return True

    def is_decr(self, idx: int) -> bool:
        """Decreasing nowhere."""
        return False

    def _domain(self) -> list[Constraint]:
        return []

    def _grad(self, values: list[Any]) -> list[Any]:
        slope = scipy.special.expit(values[0]) * scipy.special.expit(-values[0])
        return [sigmoid.elemwise_grad_to_diag(slope, self.args[0].size, self.size)]


def _by_tanh(atom: Any) -> cp.Expression:
    return (1.0 + cp.nlp.tanh(atom.args[0] / 2.0)) / 2.0


# Of upper variables only, since cvxpy's rules call it convex in nothing: it guards trivially.
@rule(sigmoid, is_guarded=True, definition=_by_tanh)
def _sigmoid(lowering: Lowering, atom: Any, args: list[Operand]) -> int:
    return lowering.builder.unary(op.SIGMOID, args[0].node)
