"""Lower expressions with everything that does not hold y replaced by parameters.

Fix x and a lower expression is a function of y with numbers in it. Each maximal sub-expression in x
and the user's parameters alone becomes one ``cp.Parameter`` whose sign is kept, so that cvxpy's
rules for convexity apply to the rest and its canonicalisation has to run only once. What is
affine or quadratic in y, but not written the way those rules want it, is rewritten from its
coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.elementwise.power import Power
from cvxpy.constraints.constraint import Constraint
from scipy.sparse.csgraph import connected_components

from blomodel.basics import limits
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.convexity import arguments
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import hessian, jacobian, vjp
from blomodel.compiler.passes.intervals import intervals
from blomodel.compiler.passes.polynomial import polynomial
from blomodel.compiler.tape import Tape
from blomodel.programs.points import generic_points, pack_or_generic
from blomodel.text.shorten import shorten

Compute = Callable[[np.ndarray, np.ndarray], np.ndarray]


class _SignedVariable(cp.Variable):
    """A free variable that cvxpy's rules may take to have a sign.

    The sign is demanded by a constraint of the problem; as an attribute it would become a second
    constraint, and the two would share the multiplier.
    """

    def __init__(self, shape: tuple[int, ...], name: str, nonneg: bool, nonpos: bool) -> None:
        self._known_nonneg, self._known_nonpos = nonneg, nonpos
        super().__init__(shape, name=name)

    def is_nonneg(self) -> bool:
        return self._known_nonneg

    def is_nonpos(self) -> bool:
        return self._known_nonpos


class Hoister:
    """Rewrites expressions; collects the parameters and how to compute them.

    Parameters
    ----------
    blocks : sequence of Block
        The blocks "x", "y" and "p".
    x_bounds : tuple of arrays
        Bounds on x, which decide signs such as that of ``2 + cos(x)``.
    """

    blocks: tuple[Block, ...]
    points: list[np.ndarray]

    def __init__(self, blocks: Sequence[Block], x_bounds: tuple[np.ndarray, np.ndarray]) -> None:
        self.blocks = tuple(blocks)
        self.x_bounds = x_bounds
        self.y: dict[int, cp.Variable] = {
            leaf.id: _SignedVariable(leaf.shape, leaf.name(), leaf.is_nonneg(), leaf.is_nonpos())
            for leaf in blocks[1].leaves
        }
        self.hoisted: list[tuple[cp.Parameter, cp.Expression]] = []
        self.computed: list[tuple[cp.Parameter, Compute]] = []
        self._lifting = False
        self.bounds: list[Constraint] = []  # what ties variables of its own to y
        self._known: dict[int, cp.Parameter] = {}
        self._keep: list[cp.Expression] = []  # so that ids in _known stay unique
        self.points = generic_points(*x_bounds)

    @property
    def y_vector(self) -> cp.Expression:
        """All lower variables, stacked."""
        parts = [cp.vec(variable, order="F") for variable in self.y.values()]
        return parts[0] if len(parts) == 1 else cp.hstack(parts)

    def variables(self) -> list[cp.Variable]:
        """The stand-ins of the lower variables, in the block's order."""
        return list(self.y.values())

    # -- rewriting ---------------------------------------------------------------------------

    def __call__(self, expression: cp.Expression) -> cp.Expression:
        """The expression in stand-ins and parameters."""
        if not self.holds_y(expression):
            return self.parameter(expression)
        if isinstance(expression, cp.Variable):
            return self.y[expression.id]
        product = self._as_scaled(expression)
        if product is not None:
            return product
        rewritten = expression.copy([self(argument) for argument in arguments(expression)])
        if isinstance(rewritten, MulExpression | multiply | DivExpression | cp.QuadForm):
            with cp.utilities.scopes.dpp_scope():
                is_fine = rewritten.is_dcp()
            if not is_fine:
                better = self.affine(expression)
                if better is None:
                    better = self.negative_entropy(expression)
                return rewritten if better is None else better
        if isinstance(rewritten, Power) and not rewritten.is_dcp():
            norm = self.root_of_squares(expression)
            return rewritten if norm is None else norm
        return rewritten

    def holds_y(self, expression: cp.Expression) -> bool:
        """Whether a lower variable occurs in it."""
        return any(variable.id in self.y for variable in expression.variables())

    def parameter(self, expression: cp.Expression) -> cp.Expression:
        """The parameter standing for an expression without y; constants stay as they are."""
        if not expression.variables() and not expression.parameters():
            return expression
        known = self._known.get(id(expression))
        if known is None:
            nonneg, nonpos = self._sign(expression)
            sign = {"nonneg": True} if nonneg else {"nonpos": True} if nonpos else {}
            name = f"({shorten(expression)})" if arguments(expression) else expression.name()
            known = cp.Parameter(expression.shape, name=name, **sign)
            self._known[id(expression)] = known
            self._keep.append(expression)
            self.hoisted.append((known, expression))
        return known

    def computed_parameter(self, shape: tuple[int, ...], compute: Compute) -> cp.Parameter:
        """A parameter whose value is a Python function of x and p."""
        parameter = cp.Parameter(shape)
        self.computed.append((parameter, compute))
        return parameter

    def _sign(self, expression: cp.Expression) -> tuple[bool, bool]:
        if expression.is_nonneg() or expression.is_nonpos():
            return bool(expression.is_nonneg()), bool(expression.is_nonpos())
        bounds = {"x": self.x_bounds, "p": _parameter_bounds(self.blocks[2])}
        low, high = intervals(lower([expression], self.blocks), bounds)
        return bool((low >= 0).all()), bool((high <= 0).all())

    def _as_scaled(self, expression: cp.Expression) -> cp.Expression | None:
        """Gather the factors of a product that are free of y: a * (b * e) / c = (a b / c) * e."""
        factors, rest = product_factors(expression, self.holds_y)
        if rest is None or not factors:
            return None
        scale: cp.Expression | None = None
        for factor, inverted in factors:
            one = 1.0 / factor if inverted else factor
            scale = one if scale is None else cp.multiply(scale, one)
        assert scale is not None
        rewritten = self._lift(self(rest)) if self._lifting else self(rest)
        result = cp.multiply(self.parameter(scale), rewritten)
        return result if result.shape == expression.shape else cp.reshape(result, expression.shape, "F")

    def lifted(self, expression: cp.Expression) -> cp.Expression:
        """Rewrite with a variable for each curved factor that holds parameters itself.

        Only for expressions found convex without this: there the variables' bounds are tight at
        a minimiser, whereas the new expression looks convex wherever it stands.
        """
        self._lifting = True
        try:
            return self(expression)
        finally:
            self._lifting = False

    def _lift(self, expression: cp.Expression) -> cp.Expression:
        if not expression.parameters() or expression.is_affine() or not expression.is_dcp():
            return expression
        level = cp.Variable(expression.shape)
        convex = expression.is_convex()
        self.bounds.append(expression <= level if convex else level <= expression)
        return level

    # -- coefficients ------------------------------------------------------------------------

    def degrees(self, expression: cp.Expression) -> tuple[Tape, np.ndarray, bool]:
        """Tape, degrees in y, and whether the highest coefficients are plain numbers."""
        tape = lower([expression], self.blocks)
        facts = polynomial(tape)
        top = np.minimum(facts.degree, 2)
        where = np.arange(len(top)), top
        changes = facts.coefficient_class[where] >= 2
        if tape.depends_on("p"):
            changes |= polynomial(tape, "y", "p").coefficient_class[where] >= 2
        return tape, facts.degree, not changes.any()

    def affine(self, expression: cp.Expression) -> cp.Expression | None:
        """A(x) y + b(x) with parameters for the coefficients; None when it is not affine in y."""
        tape, degree, is_constant = self.degrees(expression)
        if (degree > 1).any():
            return None
        origin = np.zeros(self.blocks[1].size)
        offset = self.computed_parameter((tape.n_outputs,), lambda x, p: tape(x, origin, p))
        if is_constant:
            p = pack_or_generic(self.blocks[2])
            value = jacobian(tape, ("y",), (self.points[0], origin, p)) @ self.y_vector + offset
        else:
            value = self._moving_product(tape, origin) + offset
        return cp.reshape(value, expression.shape, order="F")

    def _moving_product(self, tape: Tape, origin: np.ndarray) -> cp.Expression:
        """A(x) y with one parameter for each entry of A that can differ from zero."""
        m, n = tape.n_outputs, len(origin)

        def read(x: np.ndarray, p: np.ndarray) -> sp.csc_array:
            return jacobian(tape, ("y",), (x, origin, p))

        pattern = np.ones((m, n), dtype=bool)
        if not limits.PARAMETER_PER_ENTRY.allows(m * n):
            p = pack_or_generic(self.blocks[2])
            pattern = sum((abs(read(x, p)) for x in self.points), sp.csc_array((m, n))).toarray() > 0
        rows, columns = np.nonzero(pattern)
        count, keys = len(rows), rows * n + columns

        def entries(x: np.ndarray, p: np.ndarray) -> np.ndarray:
            matrix = read(x, p).tocoo()
            found = matrix.row * n + matrix.col
            where = np.minimum(np.searchsorted(keys, found), count - 1)
            if (keys[where] != found).any():
                return np.full(count, np.nan)  # a new entry appeared: the solve reports a failure
            values = np.zeros(count)
            values[where] = matrix.data
            return values

        parameter = self.computed_parameter((count,), entries)
        spread = sp.csc_array((np.ones(count), (np.arange(count), columns)), shape=(count, n))
        gather = sp.csc_array((np.ones(count), (rows, np.arange(count))), shape=(m, count))
        return gather @ cp.multiply(parameter, spread @ self.y_vector)

    def quadratic_rows(self, expression: cp.Expression) -> cp.Expression | None:
        """Each element as +-|F y|^2 / 2 + q(x)'y + r(x), for constant F; None when that fails."""
        tape, degree, is_constant = self.degrees(expression)
        if (degree > 2).any() or not is_constant:
            return None
        n, m = self.blocks[1].size, tape.n_outputs
        origin, slope = np.zeros(n), vjp(tape, ("y",))
        point = self.points[0], origin, pack_or_generic(self.blocks[2])
        rows = []
        for unit in np.eye(m):
            signed = signed_factor(jacobian(slope, ("y",), (*point, unit)))
            if signed is None:
                return None
            sign, F = signed
            q = self.computed_parameter((n,), partial(_slope_at_zero, slope, origin, unit))
            square = 0.5 * sign * cp.sum_squares(F @ self.y_vector) if F.shape[0] else 0.0
            rows.append(square + q @ self.y_vector)
        r = self.computed_parameter((m,), lambda x, p: tape(x, origin, p))
        return cp.reshape(cp.hstack(rows) + r, expression.shape, order="F")

    def negative_entropy(self, product: cp.Expression) -> cp.Expression | None:
        """a * log(a), element by element, as the convex function it is; None when it is not one."""
        factors = arguments(product)
        if not isinstance(product, multiply) and not (product.is_scalar() and len(factors) == 2):
            return None
        for logarithm, other in (factors, factors[::-1]):
            if not isinstance(logarithm, cp.log) or logarithm.shape != other.shape:
                continue
            inside = logarithm.args[0]
            difference = lower([other - inside], self.blocks)
            random, p = np.random.default_rng(7), pack_or_generic(self.blocks[2])
            at = [(x, random.normal(size=self.blocks[1].size), p) for x in self.points]
            # Both are the same expression, if not the same object, where they never differ.
            if inside.is_affine() and all((difference(*point) == 0.0).all() for point in at):
                return -cp.entr(self(inside))
        return None

    def root_of_squares(self, power: Power) -> cp.Expression | None:
        """sqrt(|F y + c|^2) as the norm it is, for plain numbers F and c; None when it is not one."""
        inside = power.args[0]
        if power.p.value != 0.5 or inside.size != 1:
            return None
        tape = lower([inside], self.blocks)
        facts = polynomial(tape)
        if facts.degree[0] > 2 or tape.depends_on("x") or tape.depends_on("p"):
            return None
        n = self.blocks[1].size
        point = self.points[0], np.zeros(n), pack_or_generic(self.blocks[2])
        slope = jacobian(tape, ("y",), point).toarray()[0] / 2
        square = hessian(tape, ("y",), point).toarray() / 2
        whole = np.block([[square, slope[:, None]], [slope[None, :], tape(*point)[:, None]]])
        signed = signed_factor(sp.csc_array(whole))
        if signed is None or signed[0] < 0:
            return None
        factor = signed[1].toarray()
        return cp.norm(factor[:, :n] @ self.y_vector + factor[:, n], 2)


def _slope_at_zero(
    slope: Tape, origin: np.ndarray, unit: np.ndarray, x: np.ndarray, p: np.ndarray
) -> np.ndarray:
    return slope(x, origin, p, unit)


def signed_factor(Q: sp.csc_array) -> tuple[float, sp.csc_array] | None:
    """Sign and F with Q = sign F'F; None when Q has eigenvalues of both signs."""
    values, vectors = _eigenvectors(sp.csr_array((Q + Q.T) / 2))
    if values.size == 0:
        return 1.0, sp.csc_array((0, Q.shape[0]))
    top = np.abs(values).max()
    if values.min() < -1e-9 * top and values.max() > 1e-9 * top:
        return None
    sign = 1.0 if values.max() > 1e-9 * top else -1.0
    large = np.flatnonzero(np.abs(values) > 1e-13 * top)
    F = sp.diags_array(np.sqrt(np.abs(values[large]))) @ vectors[large]
    F.data[np.abs(F.data) < 1e-15 * np.abs(F.data).max()] = 0.0
    F.eliminate_zeros()
    return sign, sp.csc_array(F)


def _eigenvectors(Q: sp.csr_array) -> tuple[np.ndarray, sp.csr_array]:
    """Eigenvalues of a symmetric matrix and, by rows, eigenvectors; its blocks are taken one by one.

    Entries that no other one is coupled to, as in a sum of squares, need no linear algebra at all.
    """
    Q.eliminate_zeros()
    n, part = connected_components(Q, directed=False)
    sizes = np.bincount(part, minlength=n)
    by_part = np.argsort(part, kind="stable")
    begins = np.cumsum(sizes) - sizes
    alone = by_part[begins[sizes == 1]]
    alone = alone[Q.diagonal()[alone] != 0]
    values, rows = [Q.diagonal()[alone]], [np.arange(alone.size)]
    columns, entries = [alone], [np.ones(alone.size)]
    for number in np.flatnonzero(sizes > 1):
        block = by_part[begins[number] : begins[number] + sizes[number]]
        found, vectors = np.linalg.eigh(Q[np.ix_(block, block)].toarray())
        rows.append(sum(map(len, values)) + np.repeat(np.arange(block.size), block.size))
        columns.append(np.tile(block, block.size))
        entries.append(vectors.T.ravel())
        values.append(found)
    where = (np.concatenate(rows), np.concatenate(columns))
    flat = np.concatenate(values)
    return flat, sp.csr_array((np.concatenate(entries), where), shape=(flat.size, Q.shape[0]))


def _parameter_bounds(block: Block) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.full(block.size, -np.inf), np.full(block.size, np.inf)
    for leaf in block.leaves:
        if leaf.is_nonneg():
            low[block.slice_of(leaf)] = 0.0
        if leaf.is_nonpos():
            high[block.slice_of(leaf)] = 0.0
    return low, high


def product_factors(
    expression: cp.Expression, holds_y: Callable[[cp.Expression], bool]
) -> tuple[list[tuple[cp.Expression, bool]], cp.Expression | None]:
    """Factors without y of a product taken element by element, and the one factor with y."""
    if not holds_y(expression):
        return [(expression, False)], None
    if isinstance(expression, NegExpression):
        factors, rest = product_factors(expression.args[0], holds_y)
        # Without factors the minus stays where it is, with what it belongs to.
        return ([*factors, (cp.Constant(-1.0), False)], rest) if factors else ([], expression)
    if isinstance(expression, DivExpression):
        above, below = expression.args
        if holds_y(below):
            return [], expression
        factors, rest = product_factors(above, holds_y)
        return [*factors, (below, True)], rest
    elementwise = isinstance(expression, multiply) or (
        isinstance(expression, MulExpression) and any(a.is_scalar() for a in arguments(expression))
    )
    if elementwise:
        first, second = arguments(expression)
        if holds_y(first) and holds_y(second):
            return [], expression
        left, rest_left = product_factors(first, holds_y)
        right, rest_right = product_factors(second, holds_y)
        return left + right, rest_left if rest_left is not None else rest_right
    return [], expression
