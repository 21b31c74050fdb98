"""The weighted objective of a conic inner problem, written so that the weights can change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.elementwise.power import Power
from cvxpy.constraints.constraint import Constraint
from cvxpy.utilities.scopes import dpp_scope

from blomodel.compiler.expressions.convexity import explain_nonconvex
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import jacobian, vjp
from blomodel.errors import NonconvexLowerError
from blomodel.programs.hoisting import Hoister, product_factors, signed_factor
from blomodel.programs.points import pack_or_generic
from blomodel.text.shorten import shorten


class WeightedObjective:
    """sum_k w_k term_k as a cvxpy expression in parameters, but for a linear function of y.

    Summands that are quadratic in y are merged by their coefficients: |F y|^2 / 2 + q'y, of which the
    expression holds q = 0; as a parameter it would multiply cvxpy's tensors by the size of y. The others
    are hoisted; one that holds parameters enters through an epigraph variable, since a product of
    parameters would have to be canonicalised again at each x.
    """

    hoister: Hoister
    name: str
    n: int
    expression: cp.Expression

    def __init__(self, hoister: Hoister, terms: Sequence[cp.Expression], name: str) -> None:
        self.hoister, self.name = hoister, name
        self.n = hoister.blocks[1].size
        self.epigraphs: list[Constraint] = []
        self._weights = [cp.Parameter(nonneg=True) for _ in terms] if len(terms) > 1 else []
        self._why: list[str] = [""] * len(terms)  # reasons against each term
        pieces: list[cp.Expression] = []
        groups: list[list[cp.Expression]] = []
        is_constant = True
        for index, term in enumerate(terms):
            group, others, constant = self._sort(term)
            groups.append(group)
            is_constant &= constant
            pieces += self._others(index, len(terms), term, others)
        pieces += self._quadratic(groups, terms, is_constant)
        self.expression = total(pieces)

    def _sort(self, term: cp.Expression) -> tuple[list[cp.Expression], list[cp.Expression], bool]:
        """Quadratic summands, the others rewritten, and whether the quadratic ones are constant."""
        group, others, is_constant = [], [], True
        for part in summands(term):
            if not self.hoister.holds_y(part):
                continue  # moves the value, not the minimiser
            _, degree, constant = self.hoister.degrees(part)
            degree_of_part = int(degree.max())
            if degree_of_part <= 1 or (degree_of_part == 2 and constant):
                group.append(part)
                continue
            rewritten = self.hoister(part)
            with dpp_scope():
                parametric = rewritten.is_convex()
            if degree_of_part == 2 and not parametric:
                group.append(part)
                is_constant = False
            else:
                convex = rewritten.is_convex()
                others.append(self.hoister.lifted(part) if convex and not parametric else rewritten)
        return group, others, is_constant

    def _others(
        self, index: int, n_terms: int, term: cp.Expression, others: list[cp.Expression]
    ) -> list[cp.Expression]:
        for part in others:
            if part.is_convex():
                continue
            reason = (
                f"{shorten(term)!r} is not known to be convex in the lower variables: "
                + explain_nonconvex(part)
            )
            if index == n_terms - 1:
                raise NonconvexLowerError(f"{self.name}: {reason}")
            self._why[index] = reason
            return []
        if n_terms == 1:
            return others
        weight = self._weights[index]
        plain = [weight * part for part in others if not part.parameters()]
        moving = [part for part in others if part.parameters()]
        if moving:
            level = cp.Variable()
            self.epigraphs.append(total(moving) <= level)
            plain.append(weight * level)
        return plain

    def _quadratic(
        self, groups: list[list[cp.Expression]], terms: Sequence[cp.Expression], is_constant: bool
    ) -> list[cp.Expression]:
        hoister, y = self.hoister, self.hoister.y_vector
        self._tape = lower([total(group) for group in groups], hoister.blocks)
        self._slope = vjp(self._tape, ("y",))
        self._factor: cp.Parameter | None = None
        self._found: tuple[float, sp.csc_array] | None = None
        linear = np.zeros(self.n) @ y  # so that cvxpy keeps all of y
        if is_constant:
            factors = [self._constant_factor(k, groups, terms) for k in range(len(groups))]
            if all(factor is not None for factor in factors):
                squares = [
                    (0.5 * self._weights[k] if self._weights else 0.5) * cp.sum_squares(factor @ y)
                    for k, factor in enumerate(factors)
                    if factor is not None and factor.shape[0]
                ]
                return [*squares, linear]
        self._factor = cp.Parameter((self.n, self.n))
        return [0.5 * cp.sum_squares(self._factor @ y), linear]

    def _constant_factor(
        self, k: int, groups: list[list[cp.Expression]], terms: Sequence[cp.Expression]
    ) -> sp.csc_array | None:
        """F with F'F the Hessian of a group; None when it is not positive semidefinite."""
        written = [self._squares(part) for part in groups[k]]
        if all(rows is not None for rows in written):
            factor = sp.csc_array(sp.vstack([sp.csr_array((0, self.n)), *written]))
            # A few long squares, as of a data matrix with few samples, are their own best factor.
            if factor.shape[0] < self.n:
                return factor
        x, p = self.hoister.points[0], pack_or_generic(self.hoister.blocks[2])
        Q = self._hessian(x, p, np.eye(len(groups))[k])
        if k == len(groups) - 1:
            self._refuse_concave(Q, terms[k])
        found = signed_factor(Q)
        return found[1] if found is not None and (found[0] > 0 or Q.nnz == 0) else None

    def _squares(self, part: cp.Expression) -> sp.csr_array | None:
        """F with part = |F y + c|^2 / 2 + a linear function; None where it is not written as squares."""
        if self.hoister.degrees(part)[1].max() <= 1:
            return sp.csr_array((0, self.n))
        factors, rest = product_factors(part, self.hoister.holds_y)
        if not factors:
            rest = part
        if rest is None or any(factor.variables() or factor.parameters() for factor, _ in factors):
            return None
        scale = 2.0
        for factor, is_inverted in factors:
            number = float(np.squeeze(factor.value))
            scale *= 1 / number if is_inverted else number
        if isinstance(rest, Sum) and rest.axis is None:
            rest = rest.args[0]
        if isinstance(rest, cp.quad_over_lin) and rest.args[1].is_constant() and rest.axis is None:
            scale /= float(np.squeeze(rest.args[1].value))
        elif not (isinstance(rest, Power) and rest.p.value == 2):
            return None
        tape, degree, is_constant = self.hoister.degrees(rest.args[0])
        if not (scale > 0 and is_constant and degree.max() <= 1):
            return None
        zeros = [np.zeros(size) for size in tape.input_sizes]
        return sp.csr_array(np.sqrt(scale) * jacobian(tape, ("y",), zeros))

    def _refuse_concave(self, Q: sp.csc_array, term: cp.Expression) -> None:
        found = signed_factor(Q)
        if Q.nnz and (found is None or found[0] < 0):
            value = np.linalg.eigvalsh(Q.toarray())[0]
            raise NonconvexLowerError(
                f"{self.name}: the objective {shorten(term)!r} is not known to be convex in the "
                "lower variables: the Hessian of its quadratic part has the eigenvalue "
                f"{value:.4g}. Restate it, or use method 'value-cuts'."
            )

    def _hessian(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> sp.csc_array:
        return jacobian(self._slope, ("y",), (x, np.zeros(self.n), p, weights))

    def why_not_convex(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> str:
        """Why the weighted objective is not known to be convex here; empty when it is."""
        for weight, reason in zip(weights, self._why, strict=True):
            if weight != 0 and reason:
                return reason
        if (weights < 0).any():
            return "a weight is negative"
        if self._factor is not None:
            self._found = signed_factor(self._hessian(x, p, weights))
            if self._found is None or (self._found[0] < 0 and self._found[1].nnz):
                return "the quadratic part of the weighted objective is not convex in y here"
        return ""

    def linear(self, x: np.ndarray, p: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The q that the expression lacks."""
        return self._slope(x, np.zeros(self.n), p, weights)

    def values(
        self, x: np.ndarray, p: np.ndarray, weights: np.ndarray
    ) -> Iterator[tuple[cp.Parameter, np.ndarray]]:
        """The objective's own parameters with their values."""
        for parameter, weight in zip(self._weights, weights, strict=False):
            yield parameter, np.array(weight)
        if self._factor is not None:
            # Found by why_not_convex, which goes before.
            value, found = np.zeros((self.n, self.n)), self._found
            if found is not None and found[0] > 0:
                value[: found[1].shape[0]] = found[1].toarray()
            yield self._factor, value


def summands(expression: cp.Expression, negative: bool = False) -> list[cp.Expression]:
    """The scalar parts that add up to a scalar expression."""
    if isinstance(expression, AddExpression):
        return [part for a in expression.args for part in summands(a, negative)]
    if isinstance(expression, NegExpression):
        return summands(expression.args[0], not negative)
    scalar = expression if expression.shape == () else cp.sum(expression)
    return [-scalar if negative else scalar]


def total(parts: Sequence[cp.Expression]) -> cp.Expression:
    """The sum; zero when there are no parts."""
    if not parts:
        return cp.Constant(0.0)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
