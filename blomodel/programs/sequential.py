"""Smooth convex programs with affine rows by a sequence of quadratic ones.

Where an interior-point solver stalls on the cones that cvxpy makes of a function, as for fifth powers of
flows of a hundred, the function itself is harmless. Newton's steps do not depend on units: each
minimises the second-order model over the rows, so that every point is feasible and the value falls.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.passes.derivatives import jacobian
from blomodel.programs.lagrangian import Lagrangian, LagrangianPoint
from blomodel.solvers.quadratic import QuadraticSolver

MAX_STEPS = 60
MAX_HALVINGS = 40
SUFFICIENT = 1e-4  # share of the predicted decrease that a step must bring
REGULAR = 1e-10  # added to the Hessian's diagonal, relative to its largest entry
MARGIN = 1e-2  # distance from the rows of a second start, where the first has no value
ROUNDING = 1e-14  # relative changes of the value below this are not seen

Pair = tuple[np.ndarray, np.ndarray]


class SequentialQuadratics:
    """Minimises weights . terms(x, y) over affine rows, for terms that are smooth and convex in y."""

    def __init__(self, lagrangian: Lagrangian) -> None:
        self.lagrangian = lagrangian

    @staticmethod
    def takes(lagrangian: Lagrangian) -> bool:
        """Whether all rows are affine in y, and no cones."""
        facts = lagrangian.row_facts
        has_affine_rows = facts is None or bool((facts.degree <= 1).all())
        return lagrangian.is_polyhedral_form and has_affine_rows

    def solve(
        self, x: np.ndarray, p: np.ndarray, weights: np.ndarray, near: np.ndarray, accuracy: float
    ) -> Pair | None:
        """A minimiser and multipliers; None where there is none, or none is found."""
        with np.errstate(all="ignore"):
            A, b = self._rows(x, p, near)
            for margin in (0.0, MARGIN):
                start = self._feasible(A, b - margin * (1 + np.abs(b)) * ~self.lagrangian.equality, near)
                if start is not None and np.isfinite(self._value(x, start, p, weights)):
                    return self._descend(x, p, weights, start, (A, b), accuracy)
        return None

    def _rows(self, x: np.ndarray, p: np.ndarray, y: np.ndarray) -> tuple[sp.csc_array, np.ndarray]:
        """The rows as A y <= b, with = where the Lagrangian says so."""
        lagrangian = self.lagrangian
        if lagrangian.rows is None:
            return sp.csc_array((0, y.size)), np.zeros(0)
        slopes = sp.csr_array(jacobian(lagrangian.rows, ("y",), (x, y, p)))
        A = sp.csc_array(sp.diags_array(lagrangian.signs) @ slopes)
        return A, A @ y - lagrangian.signs * lagrangian.rows(x, y, p)

    def _value(self, x: np.ndarray, y: np.ndarray, p: np.ndarray, weights: np.ndarray) -> float:
        return float(weights @ self.lagrangian.terms(x, y, p))

    def _feasible(self, A: sp.csc_array, b: np.ndarray, near: np.ndarray) -> np.ndarray | None:
        """The nearest point that the rows allow."""
        if not b.size:
            return near.copy()
        unit = sp.eye_array(near.size, format="csc")
        answer = QuadraticSolver(unit, A, self.lagrangian.equality, lasting=False).solve(-near, b)
        return answer.y if answer.status.has_point else None

    def _descend(
        self,
        x: np.ndarray,
        p: np.ndarray,
        weights: np.ndarray,
        y: np.ndarray,
        rows: tuple[sp.csc_array, np.ndarray],
        accuracy: float,
    ) -> Pair | None:
        lagrangian, (A, b) = self.lagrangian, rows
        value, none = self._value(x, y, p, weights), np.zeros(b.size)
        solver: QuadraticSolver | None = None
        for _ in range(MAX_STEPS):
            slope = lagrangian.terms_grad_y(x, y, p, weights)
            curved = lagrangian.hessian_y(LagrangianPoint(x, y, p, weights, none))
            unit = float(np.abs(slope).max(initial=0.0))  # the models' own unit, so that theirs is 1
            if not (np.isfinite(unit) and np.all(np.isfinite(curved.data))):
                return None
            unit = unit or 1.0
            small = REGULAR * max(float(np.abs(curved.diagonal()).max(initial=0.0)), unit)
            P = sp.csc_array((curved + small * sp.eye_array(y.size)) / unit)
            if solver is None:
                solver = QuadraticSolver(P, A, lagrangian.equality, lasting=False)
            else:
                solver.set_matrices(P, A)
            answer = solver.solve(slope / unit, b - A @ y)
            if not answer.status.has_point or answer.multipliers is None:
                return None
            move, multipliers = answer.y, unit * answer.multipliers
            decrease = -float(slope @ move)
            smallest = ROUNDING * (1 + abs(value))
            if decrease <= max(1e-3 * accuracy * (1 + abs(value)), smallest):
                last = y + move
                is_better = self._value(x, last, p, weights) <= value + smallest
                return (last if is_better else y), multipliers
            length = 1.0
            for _ in range(MAX_HALVINGS):
                changed = self._value(x, y + length * move, p, weights)
                if changed <= value - SUFFICIENT * length * decrease + smallest:
                    break
                length *= 0.5
            else:
                return None
            y, value = y + length * move, changed
        return None
