"""The compiled model: every function of the problem as numbers, ready for the methods."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints.constraint import Constraint

from blomodel.basics import limits
from blomodel.basics.alarm import ask_before_leaving, begin_compiling, end_compiling
from blomodel.basics.deadline import NEVER, Deadline
from blomodel.basics.memory import remembered
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.constraints import EQUALITY, INEQUALITY, SPECTRAL, as_row
from blomodel.compiler.expressions.domains import first_unproven
from blomodel.compiler.expressions.integers import first_integer, integers_of
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.curvature_entries import curvature_entries
from blomodel.compiler.passes.derivatives import gradient, hessian, jacobian, vjp
from blomodel.compiler.passes.intervals import intervals
from blomodel.compiler.passes.polynomial import (
    AFFINE,
    CONSTANT,
    PolynomialFacts,
    is_jointly_quadratic,
    polynomial,
)
from blomodel.compiler.tape import Tape
from blomodel.declare.statement import Statement
from blomodel.errors import NonconvexLowerError
from blomodel.kernels.jit import announce_compilation, is_kept_on_disk, surround_compilations
from blomodel.kernels.linked import raise_kept
from blomodel.model.bounds import bounds_from_rows
from blomodel.model.concave_x import find_concave_x
from blomodel.model.conditions import Conditions, find_conditions
from blomodel.model.integer_lower import IntegerLower
from blomodel.model.kkt_hessian import KktHessian
from blomodel.model.minimisers import ChoiceAmongMinimisers
from blomodel.model.multistart import CORNERS, MultistartLower
from blomodel.model.rows import Rows
from blomodel.programs.parametric import ParametricProgram
from blomodel.programs.quadratic import is_positive_semidefinite
from blomodel.solvers.answer import Answer, InnerStatus
from blomodel.text.shorten import shorten


def _announce() -> None:
    how = "once on this machine"
    if not is_kept_on_disk():
        how = (
            "in memory: neither the package's folder nor the home folder can be written; set "
            "NUMBA_CACHE_DIR to a folder that can, so that this is done once"
        )
    print(f"blomodel: compiling numerical kernels, {how} ...", file=sys.stderr, flush=True)


announce_compilation(_announce)
# A compiler that is stopped half-way leaves code behind on which a later call crashes.
surround_compilations(begin_compiling, end_compiling)
ask_before_leaving(raise_kept)


class Model:
    """Both levels, compiled.

    Everything is stated for minimisation: ``f`` above, ``g`` below. Rows are ``<= 0`` or ``== 0``.

    Parameters
    ----------
    statement : Statement
        With one follower, and variables without attributes.

    Attributes
    ----------
    x, y, p : Block
        Upper variables, lower variables, parameters.
    f, f_grad : Tape
        Upper objective and its gradient in (x, y).
    upper_in, upper_eq, lower_in, lower_eq : Rows
    lower_program : ParametricProgram
        The lower level at fixed x: its solution, value, multipliers and the gradient of its value.
    x_bounds : tuple of arrays
        Bounds on x that constraints in a single variable imply.
    integer_x, integer_y : arrays of bool
        Which entries must be whole numbers. Rows and programs know nothing of it.
    """

    def __init__(self, statement: Statement) -> None:
        self.statement: Statement = statement
        self.f_expression: cp.Expression = statement.upper_objective
        self.g_expression: cp.Expression = statement.lower.minimised
        self.upper_constraints: list[Constraint] = list(statement.upper_constraints)
        self.lower_constraints: list[Constraint] = list(statement.lower.constraints)

        levels = statement.levels
        self.x: Block = levels.x
        self.y: Block = levels.y
        self.p: Block = levels.p
        self.blocks: tuple[Block, Block, Block] = (self.x, self.y, self.p)
        self.integer_x: np.ndarray = integers_of(self.x, statement.integers)
        self.integer_y: np.ndarray = integers_of(self.y, statement.integers)
        self.f: Tape = lower([self.f_expression], self.blocks)
        self.g: Tape = lower([self.g_expression], self.blocks)
        self.f_grad: Tape = gradient(self.f, ("x", "y"))
        self.upper_in: Rows = Rows(self.upper_constraints, INEQUALITY, self.blocks)
        self.upper_eq: Rows = Rows(self.upper_constraints, EQUALITY, self.blocks)
        self.lower_in: Rows = Rows(self.lower_constraints, INEQUALITY, self.blocks)
        self.lower_eq: Rows = Rows(self.lower_constraints, EQUALITY, self.blocks)
        self.coupling_constraints: list[Constraint] = [
            c for c in self.upper_constraints if any(v in self.y for v in c.variables())
        ]
        # Signs of hoisted parts must survive new parameter values, so these bounds use none.
        self.x_bounds: tuple[np.ndarray, np.ndarray] = self._upper_bounds(None)

    @property
    def has_integers(self) -> bool:
        """Whether some variable of either level must be whole."""
        return bool(self.integer_x.any() or self.integer_y.any())

    @property
    def n_lower_rows(self) -> int:
        """Rows of the lower level, inequalities and equalities."""
        return len(self.lower_in) + len(self.lower_eq)

    @property
    def lower_size(self) -> int:
        """Variables and rows of the lower level, by which the cost of its linear algebra goes."""
        return self.y.size + self.n_lower_rows

    @cached_property
    def conditions(self) -> Conditions:
        """The lower level's KKT conditions: their unknowns, pairs and equations."""
        return find_conditions(self)

    @property
    def n_pairs(self) -> int:
        """Complementarity pairs of the lower level's KKT conditions."""
        return self.conditions.n_pairs

    @property
    @remembered
    def lower_program(self) -> ParametricProgram:
        """The lower level at fixed x, which is a convex program at every x of X."""
        program = self.compiled_lower
        p = self.p.pack() if self.p.has_values else None
        concave = None if p is None else find_concave_x(self, program, p)
        if concave is not None:
            at = np.array2string(concave.x, precision=4, threshold=6, separator=", ")
            raise NonconvexLowerError(
                f"lower level: the objective {shorten(self.g_expression)!r} is not convex in the lower "
                f"variables at x = {at}: its Hessian has the eigenvalue {concave.eigenvalue:.4g} there. "
                "Restrict x to where it is convex, or use method 'value-cuts'."
            )
        return program

    @property
    @remembered
    def compiled_lower(self) -> ParametricProgram:
        """The lower level at fixed x, which may be a convex program at some x only."""
        whole = first_integer(self.y, self.integer_y)
        if whole is not None:
            raise NonconvexLowerError(
                f"lower level: '{whole.name()}' is declared integer or boolean, so that "
                "the lower level is no convex program; use auto."
            )
        argument = self.unproven_domain([self.g_expression, *self.lower_constraints])
        if argument is not None:
            raise NonconvexLowerError(
                f"lower level: a power of {shorten(argument)!r} is convex only where this is "
                f"nonnegative, which the constraints on single lower variables do not show; add "
                f"{shorten(argument)} >= 0 if that is meant, or use method 'value-cuts'."
            )
        return self._at_fixed_x([self.g_expression], self.lower_constraints, "lower level")

    @cached_property
    def multistart(self) -> MultistartLower:
        """The lower level by local searches, for the x at which it is not convex."""
        return MultistartLower(self)

    @cached_property
    def integer_lower(self) -> IntegerLower:
        """The lower level as a mixed-integer program at fixed x, where some of y must be whole."""
        return IntegerLower(self)

    @cached_property
    def lower_solver(self) -> ParametricProgram | MultistartLower | IntegerLower:
        """The convex program where there is one, branch and bound for integers, else local searches."""
        if self.integer_y.any():
            return self.integer_lower
        try:
            return self.lower_program
        except NonconvexLowerError as error:
            self.multistart.reason = str(error)
            return self.multistart

    @cached_property
    def _program_where_convex(self) -> ParametricProgram | None:
        """The lower level as a program that answers at the x at which it is convex, if any."""
        try:
            return self.compiled_lower
        except NonconvexLowerError:
            return None

    @property
    def is_convex_below(self) -> bool:
        """Whether the lower level at fixed x is known to be a convex program."""
        return isinstance(self.lower_solver, ParametricProgram)

    def compile_lower(self) -> None:
        """Compile the lower level at fixed x now, so that the first answer does not take longer."""
        _ = self.lower_solver

    def fewest_searches(self, x: np.ndarray, p: np.ndarray) -> int:
        """Local searches that the lower answer at x takes at least; 0 where none may be needed."""
        if self.integer_y.any() or self._program_where_convex is not None:
            return 0
        return self.multistart.fewest_searches(x, p)

    def solve_lower(
        self,
        x: np.ndarray,
        p: np.ndarray,
        near: np.ndarray,
        warm: bool = True,
        accuracy: float = 1e-8,
        deadline: Deadline = NEVER,
    ) -> tuple[Answer, bool]:
        """The lower answer at x, searched from ``near`` if need be, and whether it is proven.

        After ``deadline`` a lower level that is not convex gets the fewest searches.
        """
        if self.integer_y.any():
            return self.integer_lower.solve(x, p, deadline)
        program = self._program_where_convex
        if program is not None:
            answer = program.solve(x, p, warm=warm, accuracy=accuracy, near=near, deadline=deadline)
            if program.is_for_products and deadline.is_over:
                return answer, True
            # A Hessian that depends on x may be indefinite here and positive elsewhere.
            if answer.status is not InnerStatus.FAILED or program.is_convex(x, p):
                return answer, True
        searched = self.multistart.solve(
            x, p, warm=warm, accuracy=accuracy, near=[near], deadline=deadline
        )
        return searched, searched.solver == CORNERS

    def unproven_domain(self, parts: Sequence[cp.Expression | Constraint]) -> cp.Expression | None:
        """An argument that must be nonnegative for a power to be convex, but is not known to be."""

        def smallest_value(argument: cp.Expression) -> float:
            ranges = {"x": self.x_bounds, "y": self.y_bounds}
            return float(intervals(lower([argument], self.blocks), ranges)[0].min(initial=np.inf))

        return first_unproven(parts, smallest_value)

    @property
    @remembered
    def penalised_program(self) -> ParametricProgram:
        """Upper and lower objective together at fixed x, over all constraints that hold y."""
        rows = [*self.lower_constraints, *self.coupling_constraints]
        return self._at_fixed_x([self.f_expression, self.g_expression], rows, "penalised level")

    def _at_fixed_x(
        self, terms: list[cp.Expression], constraints: list[Constraint], name: str
    ) -> ParametricProgram:
        bounds = {"x_bounds": self.x_bounds, "y_bounds": self.y_bounds}
        return ParametricProgram(terms, constraints, x=self.x, y=self.y, p=self.p, **bounds, name=name)

    @cached_property
    def optimistic_choice(self) -> ChoiceAmongMinimisers:
        """The lower minimiser that suits the upper level best."""
        return ChoiceAmongMinimisers(self, self.f_expression, self.coupling_constraints)

    @cached_property
    def constant_curvature(self) -> sp.csr_array | None:
        """Hessian of g in y where it depends on nothing; None elsewhere."""
        facts = self._g_in_y
        moves = facts.coefficient_class[0, 2] > CONSTANT
        if self.p.size and not moves:
            moves = polynomial(self.g, variable="y", coefficient="p").coefficient_class[0, 2] > CONSTANT
        if facts.degree[0] > 2 or moves:
            return None
        zeros = (np.zeros(self.x.size), np.zeros(self.y.size), np.zeros(self.p.size))
        return sp.csr_array(hessian(self.g, ("y",), zeros))

    @cached_property
    def _is_surely_curved(self) -> bool:
        curvature = self.constant_curvature
        if curvature is None or not curvature.nnz:
            return False
        least = 1e-8 * (1 + float(abs(curvature).sum(axis=1).max()))
        return is_positive_semidefinite(sp.csc_array(curvature - least * sp.eye_array(self.y.size)))

    def is_strictly_convex_below(self) -> bool:
        """Whether the lower answer is unique because g is a strictly convex quadratic in y."""
        return self._is_surely_curved

    @property
    @remembered
    def relaxation_program(self) -> ParametricProgram:
        """The upper objective over both levels' constraints: what the upper level could wish for."""
        return self._joint_program([self.f_expression], self.p, "relaxation")

    @property
    @remembered
    def projection_program(self) -> ParametricProgram:
        """The point of both levels' constraints nearest to a given x, the last parameter."""
        anchor = cp.Parameter(self.x.size, name="anchor")
        distance = sum(
            cp.sum_squares(cp.vec(leaf, order="F") - anchor[self.x.slice_of(leaf)])
            for leaf in self.x.leaves
        )
        # The small second part makes y unique.
        distance += 1e-6 * sum(cp.sum_squares(leaf) for leaf in self.y.leaves)
        return self._joint_program([distance], Block("p", (*self.p.leaves, anchor)), "projection")

    def _joint_program(self, terms: list[cp.Expression], p: Block, name: str) -> ParametricProgram:
        return ParametricProgram(
            terms,
            [*self.upper_constraints, *self.lower_constraints],
            x=Block("x", ()),
            y=Block("y", (*self.x.leaves, *self.y.leaves)),
            p=p,
            x_bounds=(np.empty(0), np.empty(0)),
            name=name,
        )

    @cached_property
    def has_smooth_kkt(self) -> bool:
        """Whether the lower level's KKT conditions can be written row by row."""
        return all(as_row(constraint)[0] != SPECTRAL for constraint in self.lower_constraints)

    @cached_property
    def lagrangian_gradient(self) -> Tape:
        """Tape of grad_y [g + multipliers . rows]; its cotangent is (1, inequality, equality)."""
        pieces = [self.g_expression]
        for kind in (INEQUALITY, EQUALITY):
            pieces += [e for k, e in map(as_row, self.lower_constraints) if k == kind]
        return vjp(lower(pieces, self.blocks), ("y",))

    def lower_stationarity(
        self, x: np.ndarray, y: np.ndarray, p: np.ndarray, multipliers: np.ndarray
    ) -> np.ndarray:
        """Gradient in y of the lower Lagrangian; multipliers of inequalities, then equalities."""
        return self.lagrangian_gradient(x, y, p, np.concatenate(([1.0], multipliers)))

    def lower_hessian(
        self, x: np.ndarray, y: np.ndarray, p: np.ndarray, multipliers: np.ndarray
    ) -> tuple[sp.csr_array, sp.csr_array]:
        """Second derivatives of the lower Lagrangian: (y, x) block and (y, y) block."""
        point = (x, y, p, np.concatenate(([1.0], multipliers)))
        both = sp.csr_array(jacobian(self.lagrangian_gradient, ("x", "y"), point))
        return sp.csr_array(both[:, : self.x.size]), sp.csr_array(both[:, self.x.size :])

    @cached_property
    def n_curvatures(self) -> int:
        """Roughly how many second derivatives of g in (y, x) and (y, y) differ from zero."""
        return curvature_entries(self.g)

    @cached_property
    def has_dear_curvatures(self) -> bool:
        """Whether second derivatives of g are too many to be found, or to be factorised."""
        if not limits.STUDIED_CURVATURES.allows(self.n_curvatures):
            return True
        if self.integer_y.any() or not self.is_convex_below:
            return False
        return self.lower_program.is_for_products and self.lower_program.lagrangian.has_dear_hessian

    @cached_property
    def kkt_hessian(self) -> KktHessian:
        """Second derivatives of the KKT reformulation's Lagrangian."""
        return KktHessian(self)

    def has_only_upper_bounds(self, p: np.ndarray) -> bool:
        """Whether the upper rows are nothing but bounds on single variables."""
        if len(self.upper_eq) or self.upper_in.spectral or self.coupling_constraints:
            return False
        if len(self.upper_in) == 0:
            return True
        jacobian = self.upper_in.linearise(np.zeros(self.x.size), np.zeros(self.y.size), p).in_x
        n_bounds = sum(int(np.isfinite(side).sum()) for side in self.bounds(p))
        return bool(np.all(np.diff(jacobian.indptr) == 1) and n_bounds >= len(self.upper_in))

    def split_duals(self, duals: Sequence[np.ndarray]) -> np.ndarray:
        """Multipliers of a solved lower program in the order of the rows."""
        multipliers = np.zeros(self.n_lower_rows)
        if not len(duals):
            return multipliers
        for rows, shift in ((self.lower_in, 0), (self.lower_eq, len(self.lower_in))):
            for position, where in rows.slices.items():
                values = np.asarray(duals[position]).ravel(order="F")
                # A second-order cone's dual lists the bound's part first: the multiplier of the row.
                multipliers[where.start + shift : where.stop + shift] = values[
                    : where.stop - where.start
                ]
        return multipliers

    def f_hessian(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Hessian of the upper objective in (x, y), dense."""
        return hessian(self.f, ("x", "y"), (x, y, p)).toarray()

    @cached_property
    def g_grad(self) -> Tape:
        """Gradient of the lower objective in (x, y)."""
        return gradient(self.g, ("x", "y"))

    def g_hessian(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Hessian of the lower objective in (x, y), dense."""
        return hessian(self.g, ("x", "y"), (x, y, p)).toarray()

    @cached_property
    def g_is_quadratic(self) -> bool:
        """Whether the lower objective is quadratic in (x, y) together."""
        return is_jointly_quadratic(self.g)

    @cached_property
    def f_is_quadratic(self) -> bool:
        """Whether the upper objective is quadratic in (x, y) together."""
        return is_jointly_quadratic(self.f)

    @cached_property
    def is_linear_quadratic(self) -> bool:
        """Whether the KKT conditions are linear in (x, y, multipliers) and f is quadratic in (x, y)."""
        return self.has_linear_kkt and is_jointly_quadratic(self.f)

    @cached_property
    def has_linear_kkt(self) -> bool:
        """Whether all rows, and the lower gradient in y, are affine in (x, y)."""
        if not self.has_smooth_kkt or self.upper_in.spectral or not self.has_constant_curvature_below:
            return False
        if self._g_in_y.coefficient_class[0][1] > AFFINE:
            return False
        every_row = (self.lower_in, self.lower_eq, self.upper_in, self.upper_eq)
        return all(rows.is_affine for rows in every_row)

    @cached_property
    def has_constant_curvature_below(self) -> bool:
        """Whether the lower objective is quadratic in y, with the same second derivatives at all x."""
        return bool(self._g_in_y.degree[0] <= 2 and self._g_in_y.coefficient_class[0][2] <= CONSTANT)

    @cached_property
    def _g_in_y(self) -> PolynomialFacts:
        return polynomial(self.g, variable="y", coefficient="x")

    @cached_property
    def has_affine_upper_rows(self) -> bool:
        """Whether all upper rows are affine in (x, y)."""
        return self.upper_in.is_affine and self.upper_eq.is_affine

    def upper_violation_without_y(self, x: np.ndarray, p: np.ndarray) -> float:
        """Largest violation by x of the upper rows that hold no y."""
        y = np.zeros(self.y.size)
        inside, on = self._rows_without_y
        worst = self.upper_in.values(x, y, p)[inside].max(initial=0) if inside.any() else 0.0
        return float(max(worst, np.abs(self.upper_eq.values(x, y, p)[on]).max(initial=0)))

    @cached_property
    def _rows_without_y(self) -> tuple[np.ndarray, np.ndarray]:
        """Which upper rows of either kind hold no y."""
        found = []
        for rows in (self.upper_in, self.upper_eq):
            without = np.zeros(len(rows), dtype=bool)
            for position, where in rows.slices.items():
                held = self.upper_constraints[position].variables()
                without[where] = not any(variable in self.y for variable in held)
            found.append(without)
        return found[0], found[1]

    def bounds(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on x at the present parameter values."""
        return self._upper_bounds(p) if self.p.size else self.x_bounds

    def _upper_bounds(self, p: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        return bounds_from_rows(self.upper_in, self.upper_eq, self.blocks, "x", p)

    @cached_property
    def y_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on y that lower constraints in a single variable imply, whatever the parameters."""
        return bounds_from_rows(self.lower_in, self.lower_eq, self.blocks, "y", None)
