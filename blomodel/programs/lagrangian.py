"""Terms and constraints of an inner problem as tapes, and its Lagrangian's derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints import PSD, SOC, Equality, ExpCone, Inequality, NonNeg, NonPos, Zero
from cvxpy.constraints.constraint import Constraint
from cvxpy.constraints.power import PowCone3D, PowConeND

from blomodel.basics import limits
from blomodel.compiler.blocks import Block
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.curvature_entries import curvature_entries
from blomodel.compiler.passes.derivatives import dense_jacobian, jacobian, jvp, pattern, vjp
from blomodel.compiler.passes.polynomial import PolynomialFacts, polynomial
from blomodel.compiler.tape import Tape
from blomodel.errors import ModelError
from blomodel.programs.optimality_system import factor_plain_system, factor_system, solve_sensitivity
from blomodel.text.shorten import shorten

_CONES = (SOC, PSD, ExpCone, PowCone3D, PowConeND)
_CHANGES = 2  # coefficient classes from here on depend on the block
_NEWTON_STEPS = 4  # with one factorisation
_NEWTON_TOLERANCE = 1e-10  # on the gradient of the Lagrangian, relative to the terms' gradient
_PRODUCTS_OF_A_DENSE_HESSIAN = (
    20  # for each variable, in one evaluation: the Hessian is then taken to be dense
)


class LagrangianPoint(NamedTuple):
    """Where a Lagrangian is looked at: variables, parameters, weights of the terms, multipliers."""

    x: np.ndarray
    y: np.ndarray
    p: np.ndarray
    weights: np.ndarray
    multipliers: np.ndarray


@dataclass(eq=False)
class KeptFactor:
    """The factorised optimality system of some active rows at an earlier point."""

    chosen: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    solve: Callable[[np.ndarray], np.ndarray] | None = None


class Lagrangian:
    """sum_k weight_k term_k + sum_i <dual_i, sign_i row_i>, the rows in the constraints' order.

    ``sign`` is +1 where cvxpy's dual multiplies the expression (lhs - rhs, x == 0) and -1 where it
    multiplies its negative (x >= 0 and the other cones).
    """

    n_terms: int
    blocks: tuple[Block, ...]
    is_polyhedral_form: bool
    slices: list[slice[int, int, Any]]
    n_rows: int
    signs: np.ndarray
    equality: np.ndarray
    terms: Tape

    def __init__(
        self,
        terms: Sequence[cp.Expression],
        constraints: Sequence[Constraint],
        blocks: Sequence[Block],
    ) -> None:
        self.n_terms = len(terms)
        self.blocks = tuple(blocks)
        expressions: list[cp.Expression] = []
        signs, equality, ends = [], [], [0]
        self.shapes: list[tuple[int, ...]] = []
        self._is_cone: list[bool] = []
        for constraint in constraints:
            parts, sign = _rows_of(constraint)
            size = sum(part.size for part in parts)
            expressions += parts
            signs.append(np.full(size, sign))
            equality.append(np.full(size, isinstance(constraint, Equality | Zero)))
            self.shapes.append(parts[0].shape if len(parts) == 1 else (size,))
            ends.append(ends[-1] + size)
            self._is_cone.append(isinstance(constraint, _CONES))
        self.is_polyhedral_form = not any(self._is_cone)  # but the nonnegative orthant and zero
        self.slices = [slice(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]
        self.n_rows = ends[-1]
        self.signs = np.concatenate(signs) if signs else np.zeros(0)
        self.equality = np.concatenate(equality) if equality else np.zeros(0, bool)
        self.terms = lower(list(terms), self.blocks)
        self.rows: Tape | None = lower(expressions, self.blocks) if expressions else None
        self._slopes: tuple[bytes, sp.csr_array] | None = None  # of the rows, and their parameters

    @cached_property
    def terms_grad_x(self) -> Tape:
        """The weighted terms' gradient in x; the weights come last."""
        return vjp(self.terms, ("x",))

    @cached_property
    def terms_grad_y(self) -> Tape:
        """The weighted terms' gradient in y; the weights come last."""
        return vjp(self.terms, ("y",))

    @cached_property
    def rows_grad_x(self) -> Tape:
        """The weighted rows' gradient in x; the weights come last."""
        assert self.rows is not None
        return vjp(self.rows, ("x",))

    @cached_property
    def rows_grad_y(self) -> Tape:
        """The weighted rows' gradient in y; the weights come last."""
        assert self.rows is not None
        return vjp(self.rows, ("y",))

    @cached_property
    def term_facts(self) -> PolynomialFacts:
        """Degrees of the terms in y, and how their coefficients depend on x."""
        return polynomial(self.terms)

    @cached_property
    def row_facts(self) -> PolynomialFacts | None:
        """The same for the constraints' rows."""
        return None if self.rows is None else polynomial(self.rows)

    def term_changes(self, name: str) -> np.ndarray:
        """Whether the coefficients of degree 0, 1, 2 in y can change with a block ("x" or "p")."""
        return self._changes(self.terms, self.term_facts, name)

    def row_changes(self, name: str) -> np.ndarray:
        """The same for the constraints' rows."""
        if self.rows is None or self.row_facts is None:
            return np.zeros(3, bool)
        return self._changes(self.rows, self.row_facts, name)

    def _changes(self, tape: Tape, in_x: PolynomialFacts, name: str) -> np.ndarray:
        if name != "x" and not tape.depends_on(name):
            return np.zeros(3, bool)
        facts = in_x if name == "x" else polynomial(tape, "y", name)
        return np.asarray((facts.coefficient_class >= _CHANGES).any(axis=0))

    @cached_property
    def patterns(self) -> tuple[sp.csc_array, sp.csc_array]:
        """What the terms and the rows tie together: ones where Hessian and rows may hold an entry.

        The rows of one cone count as one.
        """
        n = self.blocks[1].size
        terms = pattern(self.terms_grad_y, ("y",))
        rows = sp.csc_array((0, n)) if self.rows is None else pattern(self.rows, ("y",))
        if terms is None or rows is None:
            return sp.csc_array(np.ones((n, n))), sp.csc_array((self.n_rows, n))
        if not self.is_polyhedral_form:
            number = np.arange(self.n_rows)
            for part, is_cone in zip(self.slices, self._is_cone, strict=True):
                number[part] = part.start if is_cone else number[part]
            gathered = sp.csr_array((np.ones(self.n_rows), (number, np.arange(self.n_rows))))
            rows = sp.csc_array(gathered @ rows)
        return terms, rows

    @cached_property
    def rows_move_with_x(self) -> bool:
        """Whether any constraint can change with x."""
        return bool(self.row_changes("x").any())

    @property
    def _is_dense(self) -> bool:
        return self.terms.n_products > _PRODUCTS_OF_A_DENSE_HESSIAN * self.blocks[1].size

    @property
    def can_refine(self) -> bool:
        """Whether Newton steps on the optimality system cost less than solving anew."""
        return limits.REFINED_DENSE_HESSIAN.allows(self.blocks[1].size) or not self._is_dense

    @property
    def is_large_and_dense(self) -> bool:
        """Whether the Hessian of the terms is large, dense, and costs far more than the terms."""
        n = self.blocks[1].size
        is_large = not limits.DENSE_OPTIMALITY_SYSTEM.allows(n)
        return self._is_dense and is_large and 4 * self.terms.n_products < n**2

    @cached_property
    def has_dear_hessian(self) -> bool:
        """Whether second derivatives of the terms are too many, or take too long to be found."""
        n, entries = self.blocks[1].size, curvature_entries(self.terms)
        if not limits.HESSIAN_PRODUCTS.allows(self.terms.n_products * n):
            return True
        # Where each variable is tied to hundreds of others, a sparse factor is soon a full one.
        is_large = not limits.FULL_FACTOR.allows(n)
        fills_up = is_large and not limits.TIED_VARIABLES.allows(entries / max(n, 1))
        return fills_up or not limits.STUDIED_CURVATURES.allows(entries)

    def flatten(self, duals: Sequence[np.ndarray]) -> np.ndarray:
        """The duals of all constraints as one vector."""
        if not duals:
            return np.zeros(0)
        return np.concatenate([np.asarray(dual, float).ravel(order="F") for dual in duals])

    def split(self, multipliers: np.ndarray) -> list[np.ndarray]:
        """One array per constraint, in its shape."""
        return [
            multipliers[part] if len(shape) == 1 else multipliers[part].reshape(shape, order="F")
            for part, shape in zip(self.slices, self.shapes, strict=True)
        ]

    def gradient_x(self, at: LagrangianPoint) -> np.ndarray:
        """Gradient in x: the derivative of the optimal value, by the envelope theorem."""
        x, y, p, weights, multipliers = at
        slope = self.terms_grad_x(x, y, p, weights)
        if self.rows_move_with_x:
            slope += self.rows_grad_x(x, y, p, self.signs * multipliers)
        return slope

    def solution_jacobian(
        self,
        at: LagrangianPoint,
        tolerance: float = 1e-7,
    ) -> np.ndarray | None:
        """Derivative of the minimiser in x from the optimality system of the active rows.

        None unless multipliers and slacks tell the active rows apart and the minimiser is unique.
        """
        x, y, p, weights, multipliers = at
        R = sp.csc_array(jacobian(self.terms_grad_y, ("x",), (x, y, p, weights)))
        H = self.hessian_y(at)
        n, nx = R.shape
        A, B = sp.csr_array((0, n)), sp.csr_array((0, nx))
        if self.rows is not None:
            R = R + jacobian(self.rows_grad_y, ("x",), (x, y, p, self.signs * multipliers))
            slack = -self.signs * self.rows(x, y, p)
            reach_slack = tolerance * max(1.0, np.abs(y).max(initial=0.0))
            reach_dual = tolerance * max(1.0, np.abs(multipliers).max(initial=0.0))
            active = (multipliers > reach_dual) | self.equality
            if ((slack <= reach_slack) & ~active).any():
                return None  # a row touches without pushing: the minimiser has a kink here
            chosen = np.flatnonzero(active)
            A = sp.csr_array(jacobian(self.rows, ("y",), (x, y, p)))[chosen]
            B = sp.csr_array(jacobian(self.rows, ("x",), (x, y, p)))[chosen]
        return solve_sensitivity(H, A, R, B)

    def hessian_y(self, at: LagrangianPoint) -> sp.csc_array:
        """Second derivatives in y."""
        x, y, p, weights, multipliers = at
        H = sp.csc_array(jacobian(self.terms_grad_y, ("y",), (x, y, p, weights)))
        facts = self.row_facts
        if facts is not None and (facts.degree > 1).any():
            H = H + jacobian(self.rows_grad_y, ("y",), (x, y, p, self.signs * multipliers))
        return H

    def refine(
        self,
        at: LagrangianPoint,
        max_factors: int = 2,
        kept: KeptFactor | None = None,
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Newton steps on the optimality system, from a nearly optimal point.

        Active are the rows whose multiplier exceeds their slack, so that each new factorisation is
        a semismooth Newton step; in between, steps with the old one are taken while they gain
        much. None when this leads nowhere, as at a kink of the objective, or costs too much.

        Parameters
        ----------
        kept : KeptFactor, optional
            The last factor of an earlier call, with which steps are tried first; that of this call
            takes its place.
        """
        x, y, p, weights, multipliers = at
        inequality, n = ~self.equality, len(y)
        if not self.can_refine:
            return None
        last, is_old = np.inf, kept is not None and kept.solve is not None
        for _ in range(max_factors + is_old):
            values = self._row_values(x, y, p)
            chosen = np.flatnonzero((multipliers > -values) | self.equality)
            here = LagrangianPoint(x, y, p, weights, multipliers)
            solve = None
            if is_old and kept is not None and np.array_equal(chosen, kept.chosen):
                solve = kept.solve
            gains_first = 0.3 if solve is not None else 100.0
            is_old = False
            if solve is None:
                solve = self._factor_at(here, chosen)
            if solve is None:
                return None
            if kept is not None:
                kept.chosen, kept.solve = chosen, solve
            multipliers = np.where((multipliers > -values) | self.equality, multipliers, 0.0)
            residual, values, reach = self._residual(here._replace(multipliers=multipliers), chosen)
            error = float(np.abs(residual).max(initial=0.0))
            if not np.isfinite(error):
                return None  # an exponential of a large argument
            for number in range(_NEWTON_STEPS):
                step = solve(-residual)
                y_new, multipliers_new = y + step[:n], multipliers.copy()
                multipliers_new[chosen] += step[n:]
                there = here._replace(y=y_new, multipliers=multipliers_new)
                residual, values_new, reach_new = self._residual(there, chosen)
                error_new = float(np.abs(residual).max(initial=0.0))
                # The first step may overshoot; those with the same factor must pay.
                if not error_new < (gains_first if number == 0 else 0.3) * max(error, 1e-14 * reach):
                    break
                y, multipliers, values, error = y_new, multipliers_new, values_new, error_new
                reach = reach_new
                if error <= 1e-15 * reach:
                    break
            if not np.isfinite(error) or error > 10.0 * last:
                return None
            last = error
            signs_fit = (multipliers[inequality] >= -1e-8).all() and (values[inequality] <= 1e-9).all()
            if error <= _NEWTON_TOLERANCE * reach and signs_fit:
                return y, np.where(inequality, np.maximum(multipliers, 0.0), multipliers)
        return None

    def hessian_product(self, at: LagrangianPoint, vector: np.ndarray) -> np.ndarray:
        """Second derivatives in y times a vector, by a run of a tape or two."""
        x, y, p, weights, multipliers = at
        product = jvp(self.terms_grad_y, ("y",))(x, y, p, weights, vector)
        if self.row_facts is not None and (self.row_facts.degree > 1).any():
            signed = self.signs * multipliers
            product = product + jvp(self.rows_grad_y, ("y",))(x, y, p, signed, vector)
        return product

    def _row_values(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> np.ndarray:
        return np.zeros(0) if self.rows is None else self.signs * self.rows(x, y, p)

    def _residual(
        self,
        at: LagrangianPoint,
        chosen: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Gradient of the Lagrangian over the active rows, all rows, and the gradient's scale."""
        x, y, p, weights, multipliers = at
        slope = self.terms_grad_y(x, y, p, weights)
        reach = float(np.abs(slope).max(initial=1.0))
        if self.rows is None:
            return slope, np.zeros(0), reach
        slope = slope + self.rows_grad_y(x, y, p, self.signs * multipliers)
        values = self._row_values(x, y, p)
        return np.concatenate([slope, values[chosen]]), values, reach

    def _factor_at(
        self,
        at: LagrangianPoint,
        chosen: np.ndarray,
    ) -> Callable[[np.ndarray], np.ndarray] | None:
        H, A = self.system_at(at, chosen)
        return factor_plain_system(H, A) if isinstance(H, np.ndarray) else factor_system(H, A)

    def system_at(self, at: LagrangianPoint, chosen: np.ndarray) -> tuple[Any, Any]:
        """Second derivatives in y and slopes of the chosen rows; sparse, but for small ones."""
        x, y, p, weights, multipliers = at
        n = len(y)
        if limits.PLAIN_SYSTEM.allows(n + self.n_rows):
            H = dense_jacobian(self.terms_grad_y, ("y",), (x, y, p, weights))
            A = np.zeros((0, n))
            if self.rows is not None:
                if self.row_facts is not None and (self.row_facts.degree > 1).any():
                    signed = self.signs * multipliers
                    H = H + dense_jacobian(self.rows_grad_y, ("y",), (x, y, p, signed))
                if len(chosen):
                    slopes = dense_jacobian(self.rows, ("y",), (x, y, p))
                    A = self.signs[chosen, None] * slopes[chosen]
            return H, A
        sparse = sp.csr_array((0, n))
        if self.rows is not None and len(chosen):
            sparse = self._signed_slopes(x, y, p)[chosen]
        return self.hessian_y(at), sparse

    def _signed_slopes(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> sp.csr_array:
        """Slopes of all rows in y, kept where they depend on the parameters alone."""
        key = p.tobytes() if self._has_fixed_slopes else None
        if key is not None and self._slopes is not None and self._slopes[0] == key:
            return self._slopes[1]
        assert self.rows is not None
        slopes = sp.csr_array(jacobian(self.rows, ("y",), (x, y, p)))
        slopes.data = slopes.data * np.repeat(self.signs, np.diff(slopes.indptr))
        if key is not None:
            self._slopes = key, slopes
        return slopes

    @cached_property
    def _has_fixed_slopes(self) -> bool:
        facts = self.row_facts
        return facts is not None and not (facts.degree > 1).any() and not self.row_changes("x")[1]


def _rows_of(constraint: Constraint) -> tuple[list[cp.Expression], float]:
    if isinstance(constraint, Inequality | Equality):
        return [constraint.expr], 1.0
    if isinstance(constraint, NonPos | Zero):
        return [constraint.args[0]], 1.0
    if isinstance(constraint, NonNeg | PSD):
        return [constraint.args[0]], -1.0
    if isinstance(constraint, _CONES):
        return list(constraint.args), -1.0
    raise ModelError(
        f"Constraint {shorten(constraint)!r} is a {type(constraint).__name__}; equalities, "
        "inequalities and the cones SOC, PSD, ExpCone, PowCone3D and PowConeND are supported."
    )
